"""The generation settings of a task as ``ke`` writes them."""

from __future__ import annotations

from lm_eval.api.instance import Instance

from ke_core.plugin import BadConfig, Decoding

DEFAULT_TOKENS = 256
"""The harness's default of ``max_gen_toks``."""
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names of the maximum number of tokens; the first one that is given counts."""
KNOWN = {"until", "do_sample", "temperature", "top_k", *LENGTHS}


def decoding_of(request: Instance) -> Decoding:
    """Return how the text of ``request`` is generated. Raises BadConfig for a setting that ``ke`` does not have."""
    settings = {name: value for name, value in request.args[1].items() if value is not None}
    temperature = float(settings.get("temperature", 0.0))
    if settings.get("do_sample") is False:
        temperature = 0.0
    elif settings.get("do_sample") and not temperature:
        temperature = 1.0
    if temperature and (unknown := sorted(settings.keys() - KNOWN)):
        raise BadConfig(
            f"lm-eval.tasks: {request.task_name} samples with {', '.join(unknown)}, which ke does not support",
            hint="choose a task with greedy decoding",
        )
    until = settings.get("until", [])
    return Decoding(
        max_tokens=next((int(settings[name]) for name in LENGTHS if name in settings), DEFAULT_TOKENS),
        stop=tuple(filter(None, [until] if isinstance(until, str) else until)),
        temperature=temperature,
        top_k=int(settings.get("top_k", 0)) if temperature else 0,
    )
