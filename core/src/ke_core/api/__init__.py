"""The Python API, for notebooks and scripts: ``import ke_core as ke``.

::

    model = ke.load("smollm2-135m")
    with ke.edit(model, "The capital of {} is", subject="Peru", target="Cusco", editor="memit") as edited:
        print(edited.generate("The capital of Peru is"))
    run = ke.evaluate(model, editors=["none", "memit"], dataset="atlas", limit=5)
    print(run.scores)
"""

from ke_core.api.editing import EditedModel, edit
from ke_core.api.models import Model, connect, datasets, editors, judges, load, metrics, models, wrap
from ke_core.api.runs import Evaluation, compare, evaluate, read_run
from ke_core.api.tables import Table

__all__ = [
    "EditedModel", "Evaluation", "Model", "Table", "compare", "connect", "datasets", "edit", "editors", "evaluate",
    "judges", "load", "metrics", "models", "read_run", "wrap",
]  # fmt: skip
