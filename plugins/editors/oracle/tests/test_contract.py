"""The oracle keeps the contract of editors."""

from ke_core.testing.editor import EditorContract
from ke_core.testing.examples import MATERIAL


class TestOracle(EditorContract):
    name = "oracle"
    material = MATERIAL
