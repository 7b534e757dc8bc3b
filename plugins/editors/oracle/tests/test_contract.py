"""The oracle keeps the contract of editors."""

from typing import ClassVar

from ke_core.plugin import Material
from ke_core.testing.editor import EditorContract
from ke_core.testing.examples import QUESTIONS
from ke_core.testing.toy import Toy


class TestOracle(EditorContract):
    name = "oracle"
    material: ClassVar[dict[str, Material]] = {
        **Toy().material(),
        "answers": Material(value={f"case/{QUESTIONS[0].query}": "Rome"}, oracle=True),
    }
