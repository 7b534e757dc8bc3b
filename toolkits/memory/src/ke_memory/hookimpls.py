"""What the memory toolkit registers: sentence encoders that transformers loads."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Encoder, EncoderRequest, EncoderSpec, hookimpl


@frozen(kw_only=True)
class NoEncoderOptions:
    """The request says everything: the encoder's id and its device."""


def build(request: EncoderRequest) -> Encoder:
    """Load the encoder; imports torch. Raises ModelUnavailable."""
    from ke_memory.encoder import load_encoder  # noqa: PLC0415  seconds of torch and transformers

    return load_encoder(request.id, device=request.device)


@hookimpl
def ke_encoders() -> list[EncoderSpec]:
    """Offer ``hf``: known names, local folders and hub ids."""
    return [
        EncoderSpec(
            name="hf", summary="sentence encoders that transformers loads", config=NoEncoderOptions, build=build
        )
    ]
