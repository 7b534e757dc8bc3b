"""Generation and scoring on a model in this process: shared prefixes, batches, rows retired individually.

Reading order: ``runner`` (grouping of requests), ``decoding`` (the loop), ``forward`` (inputs of forward passes),
``attention`` (a prefix that is not copied), ``verify`` (whether a backend is correct).
"""
