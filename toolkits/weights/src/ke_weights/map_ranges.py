"""Linear maps of the MLPs as an option: entries of ``modules``, such as ``gate:11-15``."""

from __future__ import annotations

import re
from typing import Literal, Self, cast

from attrs import frozen

from ke_core.plugin import BadConfig

FORM = re.compile(r"(gate|up|down):(\d+)(?:-(\d+))?")
MapPart = Literal["gate", "up", "down"]


@frozen(kw_only=True)
class MapRange:
    """One linear map in each of the layers from ``first`` to ``last``."""

    text: str
    part: MapPart
    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Read an entry. Raises BadConfig."""
        found = FORM.fullmatch(text)
        if found is None:
            raise BadConfig(
                f"modules: {text!r} is not PART:LAYER or PART:FIRST-LAST", hint="write gate:11-15, up:18-24 or down:29"
            )
        part, first, last = found.groups()
        return cls(text=text, part=cast("MapPart", part), first=int(first), last=int(last or first))
