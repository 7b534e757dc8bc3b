"""Four-bit weights: NormalFloat4 with double quantization (Dettmers et al. 2023, section 3), by bitsandbytes.

Every linear map except the unembedding is stored as 4-bit codes with one scale for 64 of them, and the scales in 8
bits: about 4.1 bits per weight. For each product a weight is decoded into the *compute type*: bfloat16 on an
accelerator, as in the paper; float32 on a CPU, where bfloat16 is no faster and less accurate. Other parameters
(embeddings, norms, biases) have the compute type too, so that nothing is cast while the model runs.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from ke_core.plugin import ModelUnavailable

NF4 = "nf4"
REPACKS = "support_avx512bf16_for_cpu"
BLOCK = 64
"""Number of weights that share a scale."""


def loading(device: torch.device) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` for NF4. Raises ModelUnavailable without bitsandbytes."""
    if find_spec("bitsandbytes") is None:
        raise ModelUnavailable(
            "--dtype nf4 needs bitsandbytes, which is not installed", hint="pip install bitsandbytes"
        )
    compute = torch.float32 if device.type == "cpu" else torch.bfloat16
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=NF4, bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=compute
    )
    return {"quantization_config": config, "dtype": compute}


def reject_misread_weights(module: Any) -> None:
    """Raise ModelUnavailable if this CPU would decode a weight of ``module`` incorrectly.

    A block may continue in the next row of a weight if the row length is not a multiple of the block length.
    bitsandbytes 0.50 then silently uses wrong scales on CPUs with AVX-512.
    """
    widths = {part.in_features for part in module.modules() if hasattr(part, REPACKS)}
    for width in sorted(width for width in widths if width % BLOCK):
        if not _reads_back(width):
            raise ModelUnavailable(
                f"bitsandbytes misreads 4-bit weights with rows of {width} on this CPU: {width} is not a multiple "
                f"of {BLOCK}",
                hint="use another --dtype, or another machine",
            )


def _reads_back(width: int) -> bool:
    from bitsandbytes.functional import dequantize_4bit, quantize_4bit  # noqa: PLC0415  an extra of ke-core

    sample = torch.randn(8, width, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    read = dequantize_4bit(*quantize_4bit(sample, blocksize=BLOCK, quant_type=NF4))
    return float((read - sample).norm() / sample.norm()) < 0.15  # 0.09 for normally distributed weights


def keep_packing(module: Any) -> None:
    """Keep 4-bit weights in their stored layout.

    On CPUs with AVX-512 BF16, bitsandbytes repacks a weight when it is first used, which would change a model's
    fingerprint on use and make its digest depend on the CPU.
    """
    for part in module.modules():
        if hasattr(part, REPACKS):
            setattr(part, REPACKS, False)
