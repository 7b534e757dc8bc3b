"""The notebooks of docs/notebooks run, and the stored text outputs are what they print."""

import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))

pytestmark = [pytest.mark.docs, pytest.mark.model, pytest.mark.timeout(900)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_prints_its_stored_output(path: Path, tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts/run_notebooks.py"))
    assert printed(script["executed"](path, tmp_path)) == printed(nbformat.read(path, as_version=4))


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what each code cell prints. The number of pieces in which a kernel sends it depends on the time."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return ["".join(output.text for output in cell.outputs if output.output_type == "stream") for cell in cells]
