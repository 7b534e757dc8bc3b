"""An editor that answers every question with one word."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen

from ke_core.plugin import (
    Answer,
    Details,
    Edit,
    Edited,
    EditorRequest,
    EditorSpec,
    Reply,
    Session,
    UnsupportedChange,
    hookimpl,
)


@frozen(kw_only=True)
class DemoConfig:
    """One option."""

    word: str = field(default="forty-two", metadata={"help": "what it says"})


@frozen(kw_only=True)
class Demo:
    """The editor."""

    config: DemoConfig

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Everything can be edited by somebody who does not listen."""
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Nothing happens."""
        yield OneWord(self.config.word)


class OneWord:
    """The edited model."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.details: Details = {}

    def answer(self, asks: Sequence[EditorRequest]) -> Sequence[Reply]:
        """The word."""
        return [Answer(text=self.word) for _ in asks]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """No."""
        raise UnsupportedChange("the demo cannot change its mind", hint="edit again")


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer it."""
    return [
        EditorSpec(
            name="demo",
            summary="one word for everything",
            config=DemoConfig,
            build=lambda c: Demo(config=c),
            masks=True,
        )
    ]
