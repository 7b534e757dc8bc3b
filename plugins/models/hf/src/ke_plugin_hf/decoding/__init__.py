"""Generation and scoring on a model in this process: shared prefixes, batches, rows retired one by one.

Reading order: ``runner`` (what is run together), ``decoding`` (the loop), ``forward`` (what is fed), ``attention`` (the
prefix that is not copied), ``verify`` (whether it holds).
"""
