"""Hook implementations of the memory toolkit: sentence encoders loaded with transformers."""

from __future__ import annotations

from ke_core.plugin import Encoder, EncoderRequest, EncoderSpec, hookimpl


def build(request: EncoderRequest) -> Encoder:
    """Load the encoder; imports torch. Raises ModelUnavailable."""
    from ke_memory.encoder import load_encoder  # noqa: PLC0415  imports torch and transformers

    return load_encoder(request.id, device=request.device)


@hookimpl
def ke_encoders() -> list[EncoderSpec]:
    """Register ``hf``: known names, local folders and Hub ids."""
    return [EncoderSpec(name="hf", summary="sentence encoders loaded with transformers", build=build)]
