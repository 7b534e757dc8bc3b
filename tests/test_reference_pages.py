"""The glossary is sorted, and the page of environment variables lists every variable that the sources read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ke_core.cli.doctor import SHOWN

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [path for part in ("core", "toolkits", "plugins") for path in ROOT.glob(f"{part}/**/src/**/*.py")]
NAMED = re.compile(r"""["'`](_?KE_[A-Z_]+|(?:HF|OPENAI|OMP|XDG)_[A-Z_]+|WORLD_SIZE|RANK|COLUMNS)["'`=]""")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_glossary_is_in_alphabetical_order() -> None:
    *terms, last = re.findall(r"^## (.+)$", page("glossary.md"), re.MULTILINE)
    assert last == "Papers"
    assert terms == sorted(set(terms), key=str.lower)


def test_every_paper_that_the_glossary_cites_is_in_its_list() -> None:
    text, _, papers = page("glossary.md").partition("\n## Papers\n")
    flat = " ".join(text.split())
    cited = {(author, year) for author, years in re.findall(r"(\w+)(?: et al\.| and \w+) ((?:\d{4}(?:, )?)+)", flat)
             for year in years.rstrip(", ").split(", ")}  # fmt: skip
    listed = set(re.findall(r"^- (\w+)(?: et al\.| and \w+) (\d{4})", papers, re.MULTILINE))
    assert cited == listed


def test_every_environment_variable_that_the_sources_name_is_on_the_page() -> None:
    table = page("environment.md").partition("\n## All variables\n")[2]
    named = {name for path in SOURCES for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    assert {"KE_CACHE_DIR", "KE_SERVE_TOKEN", "OPENAI_BASE_URL", "WORLD_SIZE"} <= named
    assert [name for name in sorted(named) if f"`{name}`" not in table and name != "XDG_CACHE_HOME"] == []


def test_the_page_names_the_prefixes_that_doctor_shows() -> None:
    text = page("environment.md")
    assert all(f"`{prefix}`" in text for prefix in SHOWN)
