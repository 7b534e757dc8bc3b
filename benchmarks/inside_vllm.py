"""Generate with vLLM in one process, for ``vllm_questions.py``. Run by the Python of vLLM's environment.

Reads a JSON object from the standard input: ``model`` (a folder), ``dtype``, ``context``, ``max_tokens``, ``warm_up``
and ``prompts``. Writes one with ``texts``, and the wall and CPU seconds that ``prompts`` took.
"""

from __future__ import annotations

import json
import os
import sys
import time

from vllm import LLM, SamplingParams


def main() -> None:
    """Answer the prompts."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM writes its own lines to the standard output
    given = json.load(sys.stdin)
    model = LLM(
        model=given["model"], dtype=given["dtype"], max_model_len=given["context"], enable_prefix_caching=True,
        disable_log_stats=True,
    )  # fmt: skip
    settings = SamplingParams(temperature=0.0, max_tokens=given["max_tokens"])
    model.generate(given["warm_up"], settings, use_tqdm=False)
    wall, used = time.perf_counter(), time.process_time()
    found = model.generate(given["prompts"], settings, use_tqdm=False)
    times = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - used}
    json.dump({"texts": [one.outputs[0].text for one in found], **times}, answers)
    answers.flush()
    os._exit(0)  # its threads may not end


if __name__ == "__main__":
    main()
