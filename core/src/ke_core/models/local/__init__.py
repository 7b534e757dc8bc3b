"""Generation and scoring on a model in this process: shared prefixes, batches, rows retired one by one."""
