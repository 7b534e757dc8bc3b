"""Causal tracing: find the hidden states that carry a fact from its subject to the answer (ROME sections 2.1 and 2.2).

Reading order: ``facts`` (the file), ``noise`` (corruption of the subject), ``runs`` (clean and corrupted runs
together), ``naive`` (one forward pass per intervention), ``sweep`` (the same numbers, starting at the restored state),
``effects`` (averages over facts and token roles), ``choice`` and ``suggestion`` (from curves to layers for editors).
"""
