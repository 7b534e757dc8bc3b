"""Causal tracing: which states carry a fact from its subject to the answer (ROME sections 2.1 and 2.2).

Reading order: ``facts`` (the file), ``prompts`` (token ids and the subject's range), ``noise`` (how the subject is
corrupted), ``runs`` (clean and corrupted together), ``naive`` (one forward pass for each intervention) and
``sweep`` (the same numbers, resumed above the restored state), ``effects`` (averages over facts and token roles),
``suggestion`` (from curves to the layers that editors take).
"""
