"""MeLLo as an editor: the model stays as it is, the edits of the batch go into a memory of statements."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.plugin import Ask, BadConfig, Details, Edit, Edited, Reply, Session
from ke_core.retrieval import FactMemory
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.loop import PROFILES, Loop

PROMPT = "decompose.txt"
MATERIAL = "decompositions"


class Remembering:
    """A model with a memory of edits beside it."""

    def __init__(self, config: MelloConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        profile = PROFILES[config.profile]
        self._engine = session.engine
        self._memory = FactMemory(session.encoder(config.encoder))
        self._loop = Loop(
            memory=self._memory,
            examples=examples(config, session),
            profile=profile,
            calls=config.max_calls or profile.calls,
            max_tokens=config.max_tokens,
        )
        self.change(add=edits)

    @property
    def details(self) -> Details:
        """What the memory holds and which worked examples are shown (they may come from a file)."""
        return {
            "facts": len(self._memory),
            "calls": self._loop.calls,
            "encoder": self._memory.encoder.id,
            "examples_sha256": hashlib.sha256(self._loop.examples.encode()).hexdigest(),
        }

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """One reply an ask, in order."""
        return self._engine.answer(self._loop.solve, asks)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Take facts out of the memory and put others in, in their order (M3: never that of a set)."""
        self._memory.remove(remove)
        self._memory.add((edit.id, edit.statement) for edit in add)


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
    """Four worked examples: ours, the dataset's, or those of a folder. Raises BadConfig where there are none."""
    if config.prompts == "own":
        return (files("ke_plugin_mello") / "prompts" / PROMPT).read_text(encoding="utf-8").strip()
    if config.prompts != "dataset":
        return _read(Path(config.prompts) / PROMPT)
    if MATERIAL not in session.material:
        raise BadConfig("mello.prompts=dataset: this dataset brings no worked examples", hint="use mello.prompts=own")
    text: str = session.material[MATERIAL].value
    return text.strip()


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"mello.prompts: {path} cannot be read", hint=f"a folder with a {PROMPT}") from error
    if not text:
        raise BadConfig(f"mello.prompts: {path} is empty", hint="write worked examples into it, or leave the option")
    return text
