"""The Markdown pages of the repository, with links into the site and a language for each code block."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OWN = DOCS / "site"
EXAMPLES = DOCS / "examples"
KINDS = ("editors", "datasets", "metrics", "judges", "models", "commands")
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
NAMED = re.compile(r"(?<!\[)`(docs/[\w./-]+\.md|ke-[a-z0-9-]+)`")
WORD = re.compile(
    r"(\.venv/bin/)?(ke|pip|python3?|tox|git|torchrun|accelerate|srun|cat|zcat|apt-get|cd)\b|[A-Z_]+=\S+ \w|#!"
)
LANGUAGES = {".py": "python", ".toml": "toml", ".jsonl": "json", ".csv": "text"}


def pages() -> Iterator[tuple[str, str]]:
    """Yield every written page: its place in the site, and its Markdown."""
    for path in sorted(DOCS.rglob("*.md")):
        if OWN not in path.parents:
            yield str(path.relative_to(DOCS)), page(path)
    yield "bundle.md", page(ROOT / "bundle" / "README.md")
    yield from examples()


def page(path: Path) -> str:
    """Return one Markdown file, rewritten for the site."""
    return rewritten(path.read_text(encoding="utf-8"), path)


def place(path: Path) -> str | None:  # noqa: PLR0911  one return a kind of place
    """Return the page that shows a file or folder of the repository, or None."""
    parts = path.relative_to(ROOT).parts
    match parts:
        case ("README.md",):
            return "index.md"
        case ("docs", "examples" | "notebooks" as folder, name, *_):
            return f"{folder}/{Path(name).stem}.md"
        case ("docs", *inner) if inner:
            return "/".join(inner)
        case ("core", "README.md") | ("core",):
            return "plugins/ke-core.md"
        case ("bundle", *_):
            return "bundle.md"
        case ("toolkits",):
            return "toolkits/index.md"
        case ("toolkits", name, *rest) if rest in ([], ["README.md"]):
            return f"toolkits/{name}.md"
        case ("plugins", kind) if kind in KINDS:
            return f"plugins/index.md#{kind}"
        case ("plugins", kind, name, *rest) if kind in KINDS and rest in ([], ["README.md"]):
            return f"plugins/{name}.md"
        case _:
            return None


def rewritten(text: str, source: Path, at: str = "") -> str:
    """Return ``text`` of the file ``source``, rewritten for the page ``at`` (default: the page of ``source``)."""
    lines = text.splitlines()
    folder = posixpath.dirname(at or place(source) or "")
    written: list[str] = []
    done = 0
    for start, end, code, language in _blocks(text):
        written += [_linked(line, source, folder) for line in lines[done:start]]
        written += [f"```{language}", *code, "```"]
        done = end
    written += [_linked(line, source, folder) for line in lines[done:]]
    return "\n".join(written) + "\n"


def _blocks(text: str) -> Iterator[tuple[int, int, list[str], str]]:
    """Yield each code block outside lists: first line, end, its lines, its language."""
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.map and token.level == 0:
            code = token.content.rstrip("\n")
            length = len(code.splitlines()) + (2 if token.type == "fence" else 0)
            start = token.map[0]
            if "```" not in code:
                yield start, start + length, code.splitlines(), token.info.replace("jsonl", "json") or language_of(code)


def language_of(code: str) -> str:
    """Guess the language of a code block."""
    lines = [line for line in code.splitlines() if line.strip()]
    if code.lstrip().startswith(("{", "[")):
        try:
            for line in lines if code.lstrip().startswith("{") else [code]:
                json.loads(line)
        except ValueError:
            pass
        else:
            return "json"
    if any(WORD.match(line) for line in lines):
        return "sh"
    if lines and re.match(r"(from [\w.]+ )?import |def |class ", lines[0]):
        return "python"
    return "toml" if re.match(r"\[[\w.-]+\]$", lines[0] if lines else "") else "text"


def _linked(line: str, source: Path, folder: str) -> str:
    def turned(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = (source.parent / target).resolve()
        shown = place(path) if path.is_relative_to(ROOT) else None
        if shown is None:
            raise ValueError(f"{source}: the site has no page for the link to {target}")
        page_, _, own_anchor = shown.partition("#")
        relative = posixpath.relpath(page_, folder or ".")
        return f"]({relative}{anchor or (own_anchor and '#' + own_anchor)})"

    def named(found: re.Match[str]) -> str:
        shown = _named(found[1])
        return found[0] if shown is None else f"[{found[0]}]({posixpath.relpath(shown, folder or '.')})"

    line = LINK.sub(turned, line)
    return NAMED.sub(named, line) if source.name == "README.md" and source.parent != ROOT else line


def _named(name: str) -> str | None:
    """Return the page that a README names. READMEs do not link to pages, because package indexes show them, too."""
    if name.startswith("docs/"):
        return place(ROOT / name) if (ROOT / name).is_file() else None
    return page_of(name)


def page_of(distribution: str) -> str | None:
    """Return the page of a distribution of this repository, or None if it has none."""
    if distribution == "ke-core":
        return "plugins/ke-core.md"
    found = [
        *ROOT.glob(f"plugins/*/{distribution.removeprefix('ke-plugin-')}/README.md"),
        *ROOT.glob(f"toolkits/{distribution.removeprefix('ke-')}/README.md"),
    ]
    return place(found[0]) if found else None


def examples() -> Iterator[tuple[str, str]]:
    """Yield a page for each example: a file, or a folder of files."""
    for path in sorted(EXAMPLES.iterdir()):
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        files = [file for file in files if file.suffix in LANGUAGES]
        if files:
            shown = "\n".join(
                f"## {file.name}\n\n```{LANGUAGES[file.suffix]}\n{file.read_text(encoding='utf-8').rstrip()}\n```\n"
                for file in files
            )
            yield f"examples/{path.stem}.md", f"# Example: {path.name}\n\n{shown}"
