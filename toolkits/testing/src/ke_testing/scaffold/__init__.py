"""New plugins: whole distributions from the templates in this package, which are files to be read.

``templates/common`` stands in every distribution, ``templates/KIND`` in those of a kind. ``$name`` and its like in a
file are filled in (``string.Template``); a file called ``X.tmpl`` becomes ``X``, and ``src`` holds the import package.
"""
