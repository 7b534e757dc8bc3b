"""The options for bounds of ``ke verify`` and ``ke edit --push``."""

from __future__ import annotations

import click

least_option = click.option("--min", "least", multiple=True, metavar="METRIC=RATE",
                            help="Exit with status 1 below this rate (repeatable).")  # fmt: skip
most_option = click.option("--max", "most", multiple=True, metavar="METRIC=RATE",
                           help="Exit with status 1 above this rate (repeatable).")  # fmt: skip
