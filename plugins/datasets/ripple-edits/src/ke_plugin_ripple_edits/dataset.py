"""The dataset classes: the published files, your own file, and the embedded one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, user_file
from ke_benchmarks.graph import BuildTools, load_atlas
from ke_core.plugin import BadData, Case, DatasetInfo, Decoding, Parse, Prompt, Query
from ke_plugin_ripple_edits import STYLE, RippleBuildConfig, RippleEditsConfig
from ke_plugin_ripple_edits.build import RippleBuilder
from ke_plugin_ripple_edits.cases import case, cases_of
from ke_plugin_ripple_edits.records import RippleRecord
from ke_plugin_ripple_edits.variants import RippleVariant

AS_PUBLISHED = Decoding(max_tokens=20)
"""Section 5.1: greedy, at most 20 tokens; the answer may be anywhere in them."""
WHOLE = Parse(until="")
KNOWN_FLAWS = frozenset({"answer", "edit", "label"})
"""Published records have tests without answers and targets without labels; two targets may share a label."""
AGAIN = "compare with the published format in the plugin's README"


@frozen(kw_only=True)
class RippleEdits(FileDataset):
    """A subset, or a file in its format. Most of its queries have no pre-edit answer."""

    config: RippleEditsConfig = field(factory=RippleEditsConfig)

    def cases(self) -> Iterator[Case]:
        """Yield every edit in the order of the file, as they are requested."""
        for number, record in enumerate(self.records(RippleRecord, key=""), start=1):
            try:
                yield case(record, number)
            except ValueError as wrong:
                where = self.variant.find(self.data_dir)
                raise BadData(f"{where}, record {number}: {wrong}", hint=AGAIN) from wrong

    def info(self) -> DatasetInfo:
        """Return the description. For a file in the published format it lists the checks that its records may fail."""
        return evolve(super().info(), known_flaws=KNOWN_FLAWS if self.files() else frozenset())

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare sentence, without demonstrations or context."""
        return Prompt(text=query.texts[0], decoding=AS_PUBLISHED, parse=WHOLE) if style == STYLE else None


@frozen(kw_only=True)
class RippleAtlas(EmbeddedDataset, RippleEdits):
    """The builder's records of the embedded graph, built in memory."""

    def cases(self) -> Iterator[Case]:
        """Return every edit, identical in every process."""
        return iter(_atlas_cases())

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return _atlas_checksum()

    def published(self) -> Mapping[str, int]:
        """Return the counts of this version."""
        return {"cases": CASES}


def own(variant: RippleVariant, config: RippleEditsConfig) -> RippleEdits:
    """Return the dataset of the option ``file``. Raises BadData without it, or if that file is missing."""
    if config.file is None:
        raise BadData(
            "the dataset ripple-edits needs a file",
            hint="pass -o ripple-edits.file=FILE, build one with ke build ripple-edits, or use "
            "ripple-edits-recent, -random, -popular or -atlas",
        )
    path = user_file(config.file, "ripple-edits", form="the published format")
    return RippleEdits(variant=evolve(variant, file=str(path)), config=config)


CASES = 300


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return the records of ``ke build ripple-edits --graph atlas``."""
    return tuple(RippleBuilder(config=RippleBuildConfig()).records(load_atlas(), BuildTools(cases=CASES)))


@cache
def _atlas_cases() -> tuple[Case, ...]:
    return tuple(cases_of(atlas_records(), "ripple-edits-atlas"))


@cache
def _atlas_checksum() -> str:
    return hashlib.sha256(json.dumps(atlas_records()).encode()).hexdigest()
