"""MeLLo as an editor: the model stays as it is, the edits of the batch go into a memory of statements."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.plugin import Ask, BadConfig, Details, Edit, Edited, Reply, Session, distinct
from ke_core.retrieval import FactMemory
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.loop import PROFILES, Loop

PROMPT = "decompose.txt"
MATERIAL = "decompositions"


class Remembering:
    """A model with a memory of edits beside it."""

    def __init__(self, config: MelloConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        self._config = config
        self._session = session
        self._examples = examples(config, session)
        self._edits: dict[str, Edit] = {}
        self.change(add=edits)

    @property
    def details(self) -> Details:
        """What the memory holds and which worked examples are shown (they may come from a file)."""
        return {
            "facts": len(self._edits),
            "calls": self._loop.calls,
            "encoder": self._session.encoder(self._config.encoder).id,
            "examples_sha256": hashlib.sha256(self._examples.encode()).hexdigest(),
        }

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """One reply an ask, in order."""
        return self._session.engine.answer(self._loop.solve, asks)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Put facts into the memory and take them out, in the order of the edits (M3: never of a set)."""
        gone = frozenset(remove)
        kept = [edit for edit in self._edits.values() if edit.id not in gone]
        self._edits = {edit.id: edit for edit in distinct([*kept, *add])}
        profile = PROFILES[self._config.profile]
        rows = [(edit.id, edit.statement) for edit in self._edits.values()]
        self._loop = Loop(
            memory=FactMemory(self._session.encoder(self._config.encoder), rows),
            examples=self._examples,
            profile=profile,
            calls=self._config.max_calls or profile.calls,
            max_tokens=self._config.max_tokens,
        )


@frozen(kw_only=True)
class Mello:
    """Mello(config).edit(session, edits) is a model that consults a memory of those edits."""

    config: MelloConfig

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Every edit has a statement, and that is all it takes."""
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """The model is not touched. Raises BadConfig where ``prompts`` has no usable file."""
        yield Remembering(self.config, session, edits)


def examples(config: MelloConfig, session: Session[Any]) -> str:
    """Four worked examples: the given folder's, else the dataset's, else ours."""
    if config.prompts:
        return _read(Path(config.prompts) / PROMPT)
    if MATERIAL in session.material:
        text: str = session.material[MATERIAL].value
        return text.strip()
    return (files("ke_plugin_mello") / "prompts" / PROMPT).read_text(encoding="utf-8").strip()


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"mello.prompts: {path} cannot be read", hint=f"a folder with a {PROMPT}") from error
    if not text:
        raise BadConfig(f"mello.prompts: {path} is empty", hint="write worked examples into it, or leave the option")
    return text
