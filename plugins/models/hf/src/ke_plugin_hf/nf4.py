"""Four-bit weights: NormalFloat4 with double quantization (Dettmers et al. 2023, section 3), by bitsandbytes.

Every linear map but the unembedding is held as codes of 4 bits with one scale for 64 of them, and the scales in 8
bits: about 4.1 bits a weight. For each product a weight is decoded into the *compute type*: bfloat16 on an
accelerator, as in the paper; float32 on a processor, where bfloat16 is no faster and loses digits. What is not
quantized (embeddings, norms, biases) is held in the compute type too, so that nothing is cast while the model runs.
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
"""Weights that share a scale."""


def loading(device: torch.device) -> dict[str, Any]:
    """What ``from_pretrained`` is told to load a model in NF4. Raises ModelUnavailable without bitsandbytes."""
    if find_spec("bitsandbytes") is None:
        raise ModelUnavailable(
            "--dtype nf4 needs bitsandbytes, which is not installed", hint="pip install bitsandbytes"
        )
    compute = torch.float32 if device.type == "cpu" else torch.bfloat16
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=NF4, bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=compute
    )
    return {"quantization_config": config, "dtype": compute}


def refuse_misread(module: Any) -> None:
    """Raise ModelUnavailable if this processor would decode a weight of ``module`` to something else.

    A block may run on into the next row of a weight whose rows are no whole number of blocks. bitsandbytes 0.50 then
    takes the wrong scales on processors with AVX-512, and says nothing.
    """
    widths = {part.in_features for part in module.modules() if hasattr(part, REPACKS)}
    for width in sorted(width for width in widths if width % BLOCK):
        if not _reads_back(width):
            raise ModelUnavailable(
                f"bitsandbytes misreads 4-bit weights with rows of {width} on this processor: {width} is not a "
                f"multiple of {BLOCK}",
                hint="take another --dtype, or another machine",
            )


def _reads_back(width: int) -> bool:
    from bitsandbytes.functional import dequantize_4bit, quantize_4bit  # noqa: PLC0415  an extra of ke-core

    sample = torch.randn(8, width, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    read = dequantize_4bit(*quantize_4bit(sample, blocksize=BLOCK, quant_type=NF4))
    return float((read - sample).norm() / sample.norm()) < 0.15  # 0.09 for what is normally distributed


def keep_packing(module: Any) -> None:
    """Keep 4-bit weights as they are stored.

    On processors with AVX-512 BF16, bitsandbytes repacks a weight when it is first used, so that a model's
    fingerprint would change by asking it, and its digest would depend on the processor.
    """
    for part in module.modules():
        if hasattr(part, REPACKS):
            setattr(part, REPACKS, False)
