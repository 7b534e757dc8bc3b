"""Build the documentation site: ``python docs/site/build.py FOLDER`` writes FOLDER/html and fails on warnings.

Pages are Markdown files of the repository. Reference pages are generated from the installed code. Both are written to
FOLDER/source, which Sphinx reads.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from commands import command_pages
from components import component_pages, directory_page, plugin_pages, toolkit_pages
from notebooks import notebook_pages
from pages import DOCS, OWN, pages
from values import value_pages

from ke_core.app import App, discover
from ke_core.cli.main import build


def everything() -> Iterator[tuple[str, str]]:
    """Yield every page: its place and its Markdown. Later pages override earlier ones."""
    app = App(discover())
    root = build(app)
    yield from pages()
    yield from notebook_pages()
    yield "index.md", (OWN / "index.md").read_text(encoding="utf-8")
    yield from command_pages(root)
    yield from component_pages(app.catalog)
    yield from plugin_pages(app, root)
    yield from toolkit_pages()
    yield from directory_page()
    yield from value_pages()


def assemble(folder: Path, written: Mapping[str, str]) -> None:
    """Write the pages and the other input of Sphinx into the empty ``folder``."""
    for place, text in written.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", folder / "images")
    for name in ("static", "templates"):
        shutil.copytree(OWN / name, folder / name)
    shutil.copy(OWN / "conf.py", folder)


def llms_txt(written: Mapping[str, str]) -> str:
    """Return ``llms.txt``, an index of the pages for language models: title, address and first sentence of each."""
    lines = ["# ke: knowledge editing for language models", ""]
    for place, text in written.items():
        paragraphs = [part.replace("\n", " ").strip() for part in text.split("\n\n")]
        title = next((part.lstrip("# ") for part in paragraphs if part.startswith("# ")), place)
        first = next((part for part in paragraphs if part[:1].isalpha() or part[:1] == "`" != part[1:2]), "")
        lines.append(f"- [{title}]({place.removesuffix('.md')}.html): {first.partition('. ')[0].rstrip('.:')}")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Assemble the pages and run Sphinx with warnings as errors."""
    from sphinx.cmd.build import main as sphinx  # noqa: PLC0415  the tests assemble without it

    (target,) = (Path(word) for word in words)
    shutil.rmtree(target / "source", ignore_errors=True)
    (target / "source").mkdir(parents=True)
    written = dict(everything())
    assemble(target / "source", written)
    folders = [str(target / name) for name in ("doctrees", "source", "html")]
    status: int = sphinx(["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", *folders])
    (target / "html/llms.txt").write_text(llms_txt(written), encoding="utf-8")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
