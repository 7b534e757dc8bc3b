"""Run the notebooks of docs/notebooks and store their outputs, without progress and warnings.

usage: python scripts/run_notebooks.py [NOTEBOOK...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs/notebooks"
SECONDS = 600
"""A cell may take this long."""


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Return the notebook with its outputs. It runs in ``folder``; a cell that fails raises CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the time of day
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _is_kept(output)]
    return notebook


def _is_kept(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is more than progress (text that is displayed) or a warning (standard error)."""
    if output.output_type == "display_data":
        return "image/png" in output.data
    return str(output.get("name")) != "stderr"


def main(paths: list[Path]) -> None:
    """Run notebooks and write them."""
    for path in paths:
        start = time.monotonic()
        with TemporaryDirectory() as folder:
            notebook = executed(path, Path(folder))
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")))
