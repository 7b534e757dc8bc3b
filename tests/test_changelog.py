"""Every fragment of a changelog is of a known type, lies where it is looked for, and is printed by towncrier."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("core", "bundle", "toolkits/*", "plugins/*/*")
DISTRIBUTIONS = [path.parent for pattern in PATTERNS for path in ROOT.glob(f"{pattern}/pyproject.toml")]
PLACES = sorted(place for place in (ROOT, *DISTRIBUTIONS) if (place / "changelog.d").is_dir())
TYPES = {
    kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
}


def name(place: Path) -> str:
    return str(place.relative_to(ROOT))


def fragments(place: Path) -> list[Path]:
    return sorted((place / "changelog.d").iterdir())


@pytest.mark.parametrize("place", PLACES, ids=name)
def test_every_fragment_has_a_type_that_towncrier_knows(place: Path) -> None:
    for path in fragments(place):
        found = re.fullmatch(r"(\+[a-z0-9-]+|\d+)\.([a-z]+)\.md", path.name)
        assert found, f"{path.name}: call it +WORDS.TYPE.md"
        assert found[2] in TYPES, f"{path.name}: a type is one of {', '.join(sorted(TYPES))}"


@pytest.mark.parametrize("place", PLACES, ids=name)
def test_the_draft_of_a_changelog_prints_every_fragment(place: Path) -> None:
    cli = pytest.importorskip("towncrier._shell").cli
    words = ["build", "--draft", "--version", "0.1.0", "--config", str(ROOT / "pyproject.toml"), "--dir", str(place)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    printed = " ".join(done.stdout.split())
    for path in fragments(place):
        assert " ".join(path.read_text(encoding="utf-8").split()) in printed, path.name


def test_no_fragment_lies_where_nobody_looks() -> None:
    looked_at = {path for place in PLACES for path in fragments(place)}
    folders = [
        ROOT / "changelog.d",
        *(path for top in ("core", "plugins") for path in ROOT.glob(f"{top}/**/changelog.d")),
    ]
    assert {path for folder in folders for path in folder.iterdir()} == looked_at
