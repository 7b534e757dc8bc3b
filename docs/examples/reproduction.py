"""A published table for ``ke reproduce teams/table-1``. Real tables are files: see ../reproducing.md."""

from ke_benchmarks import ReproductionSpec
from ke_core.plugin import hookimpl

TABLE = """
paper = "Somebody 2026, Table 1"
title = "teams recalled after editing"
labels = ["Method"]

[set]
dataset = "teams"

[pick]
metric = "accuracy"
aspect = "all"
style = "direct"

[models.Echo]
ids = ["echo:1"]

[[columns]]
heading = "all"

[[rows]]
labels = ["recall"]
model = "Echo"
set = { editor = "recall" }
printed = [100.0]
"""


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Register one table."""
    return [ReproductionSpec(name="teams/table-1", text=lambda: TABLE)]
