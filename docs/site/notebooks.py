"""The notebooks of docs/notebooks as Markdown, with their stored outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pages import DOCS, rewritten


def notebook_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for each notebook: its place in the site, and its Markdown."""
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = (
            rewritten("".join(cell["source"]), path) if cell["cell_type"] == "markdown" else _code(cell)
            for cell in cells
        )
        yield f"notebooks/{path.stem}.md", "\n".join(shown)


def _code(cell: dict[str, Any]) -> str:
    """Return a code cell: its code, then what it printed, its table or its figure."""
    parts = [f"```python\n{''.join(cell['source'])}\n```\n"]
    for output in cell["outputs"]:
        data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
        match output["output_type"], data:
            case "stream", _:
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```\n")
            case _, {"image/png": image}:
                parts.append(f"![{cell['metadata'].get('alt', '')}](data:image/png;base64,{image.strip()})\n")
            case _, {"text/html": table}:
                parts.append(f"````{{raw}} html\n{table}\n````\n")
            case _, {"text/plain": text}:
                parts.append(f"```text\n{text}\n```\n")
    return "\n".join(parts)
