"""The prompt texts of a method: its own files, those of a folder, or what the dataset brings."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from ke_core.errors import BadConfig
from ke_core.protocols import Session

OWN, DATASET = "own", "dataset"


def prompt_text(
    package: str, file: str, chosen: str, *, session: Session[Any] | None = None, material: str = "", option: str
) -> str:
    """One prompt text, without space at its ends.

    ``chosen`` is the value of ``option``: ``own`` (``package/prompts/file``), ``dataset`` (the session's material
    of that name) or a folder that holds ``file``. Raises BadConfig where there is none.
    """
    if chosen == OWN:
        return (files(package) / "prompts" / file).read_text(encoding="utf-8").strip()
    if chosen != DATASET:
        return _read(Path(chosen).expanduser() / file, file, option)
    if session is None or material not in session.material:
        raise BadConfig(f"{option}=dataset: this dataset brings no {material or file}", hint=f"use {option}=own")
    text: str = session.material[material].value
    return text.strip()


def _read(path: Path, file: str, option: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{option}: {path} cannot be read", hint=f"a folder with a {file}") from error
    if not text:
        raise BadConfig(f"{option}: {path} is empty", hint="write worked examples into it, or leave the option")
    return text
