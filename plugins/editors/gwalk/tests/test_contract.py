"""GWalk keeps the contract of editors, in both profiles and with the benchmark's aliases."""

from typing import ClassVar

from ke_core.plugin import SUB_QUESTIONS, Material, SubQuestion
from ke_core.testing.editor import EditorContract
from ke_core.testing.examples import QUESTIONS


class TestGreedy(EditorContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"threshold": "calibrated"}


class TestPublished(EditorContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"profile": "published", "threshold": "0.4"}


class TestOracleAliases(EditorContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"aliases": "oracle", "threshold": "0.4"}
    material: ClassVar[dict[str, Material]] = {"aliases": Material(value={"Rome": ("Roma",)}, oracle=True)}


HOP = (SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="It is in Paris"),)


class TestOracleDecomposition(EditorContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle", "threshold": "0.4"}
    material: ClassVar[dict[str, Material]] = {
        SUB_QUESTIONS: Material(
            value={f"{ask.case}/{ask.query}": {"after": HOP, "before": HOP} for ask in QUESTIONS}, oracle=True
        )
    }
