"""The list of cases in a page: a few cases as JSON, many cases in compressed blocks that the page opens on demand.

Each block is gzip in base64 and holds ``{texts, cases}`` of ``SIZE`` cases. The index has the values that the page
filters by, so that only a search reads every block. A page opened from a file cannot load other files, so the blocks
are part of the page.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from attrs import define, field, frozen

from ke_plugin_analysis.html.browser import BrowsedRun, Json, SharedTexts, about_runs, listed_cases

SIZE = 250
"""Cases in a block. A page with at most as many cases has them as JSON."""


@frozen(kw_only=True)
class CaseBlocks:
    """The content of the list of cases.

    ``data``: ``{runs, size, index}``, and for a few cases also ``{texts, facts, cases}``. ``facts`` and ``blocks``:
    compressed JSON, empty for a few cases. ``missing``: as in ``about_runs``.
    """

    data: Json
    missing: Sequence[str]
    facts: str = ""
    blocks: Sequence[str] = ()


def case_blocks(runs: Sequence[BrowsedRun]) -> CaseBlocks:
    """Return the cases of ``runs``. One block is in memory at a time, and the compressed ones."""
    about, texts, index = about_runs(runs), SharedTexts(), CaseIndex()
    missing = about.pop("missing")
    blocks: list[str] = []
    last: Json = {"texts": [], "cases": []}
    for last in _blocks(runs, texts, index):
        blocks.append(packed(last))
    data = {**about, "size": SIZE, "index": index.json()}
    facts = {name: text for name, text in texts.facts.items() if name in texts.retrieved}
    if len(blocks) <= 1:
        return CaseBlocks(data={**data, "facts": facts, **last}, missing=missing)
    return CaseBlocks(data=data, missing=missing, facts=packed(facts), blocks=blocks)


def _blocks(runs: Sequence[BrowsedRun], texts: SharedTexts, index: CaseIndex) -> Iterator[Json]:
    cases = listed_cases(runs, texts)
    while some := [*islice(cases, SIZE)]:
        for one in some:
            index.add(one)
        yield {"texts": list(texts.prompts), "cases": some}
        texts.prompts.clear()


@define
class CaseIndex:
    """The values that the page filters by.

    ``kinds``: distinct combinations of the values of an answer. ``profiles``: distinct combinations of the tags of a
    case and the kinds of its answers. ``order``: the profile of each case.
    """

    kinds: dict[tuple[Any, ...], int] = field(factory=dict)
    tags: dict[tuple[tuple[str, str], ...], int] = field(factory=dict)
    profiles: dict[tuple[int, frozenset[int]], int] = field(factory=dict)
    order: list[int] = field(factory=list)

    def add(self, case: Json) -> None:
        """Add the next case."""
        tags = self.tags.setdefault(tuple(case["tags"].items()), len(self.tags))
        kinds = frozenset(self._kind(case, answer) for answer in case["answers"])
        self.order.append(self.profiles.setdefault((tags, kinds), len(self.profiles)))

    def _kind(self, case: Json, answer: Json) -> int:
        before, after = answer.get("before"), answer.get("after")
        verdicts = ["" if reply is None else reply.get("verdict", "none") for reply in (after, before)]
        ended = (after or answer["before"]).get("ended", "answered")
        aspects = tuple(case["queries"][answer["query"]]["aspects"])
        return self.kinds.setdefault((*verdicts, aspects, answer["style"], ended, answer["run"]), len(self.kinds))

    def json(self) -> Json:
        """Return the index as JSON values."""
        return {
            "kinds": [
                {"after": after, "before": before, "aspects": aspects, "style": style, "ended": ended, "run": run}
                for after, before, aspects, style, ended, run in self.kinds
            ],
            "tags": [dict(tags) for tags in self.tags],
            "profiles": [{"tags": tags, "kinds": sorted(kinds)} for tags, kinds in self.profiles],
            "order": self.order,
        }


def packed(raw: Any) -> str:
    """Return JSON as gzip in base64. Equal values give equal texts."""
    text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()
