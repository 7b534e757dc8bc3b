"""What methods that open the model share: module map, subject span, keys, second moments, z-optimisation.

Reading order: ``modules`` (where things are), ``subject`` and ``rewrites`` (what an edit is to a decoder),
``templates`` (random left contexts), ``tail`` and ``optimise`` (the target z), ``keys``, ``moments`` and
``solve`` (the update). Everything is written on W as a map from keys to values, [d, f].
"""
