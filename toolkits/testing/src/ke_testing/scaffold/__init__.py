"""Templates for new plugins: complete distributions.

``templates/common`` is part of every distribution, ``templates/KIND`` of those of a kind. Variables such as ``$name``
are replaced (``string.Template``); a file ``X.tmpl`` becomes ``X``, and ``src`` contains the import package.
"""
