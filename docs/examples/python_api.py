"""``edited.save_patch("edits.txt")`` writes the edits as text; ``ke.compare`` lists the runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ke_core.app import Catalog, EditedModel, RunFolder
from ke_core.plugin import hookimpl


@hookimpl(tryfirst=True)
def ke_save_edit(edited: EditedModel, what: str, path: Path, force: bool) -> bool | None:  # noqa: FBT001  called by ke
    """Write one edit per line to a text file. Leave other files to other plugins."""
    if what != "patch" or path.suffix != ".txt" or (path.exists() and not force):
        return None
    path.write_text("".join(f"{one.prompt} -> {one.target}\n" for one in edited.edits), encoding="utf-8")
    return True


@hookimpl
def ke_compare_runs(folders: Sequence[RunFolder], catalog: Catalog) -> Sequence[Mapping[str, Any]]:
    """Return one row per run."""
    known = catalog.names("dataset")
    return [{"run": str(run.path), "known": run.spec.dataset.component.name in known} for run in folders]
