"""MeLLo keeps the contract of editors, in every profile."""

from collections.abc import Mapping
from typing import ClassVar

from ke_core.plugin import SUB_QUESTIONS, Material, SubQuestion
from ke_core.testing.editor import EditorContract
from ke_core.testing.examples import QUESTIONS


class TestFixed(EditorContract):
    name = "mello"


class TestPaper(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}


class TestRemastered(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "remastered"}


HOP = SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="Eiffel Tower is in Paris")


class TestGiven(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle"}
    material: ClassVar[Mapping[str, Material]] = {
        SUB_QUESTIONS: Material(
            value={f"{ask.case}/{ask.query}": {"after": (HOP,), "before": (HOP,)} for ask in QUESTIONS}, oracle=True
        )
    }
