"""Contract tests."""

from ke_testing.editor import EditorContract
from ke_testing.examples import MATERIAL


class TestOracle(EditorContract):
    name = "oracle"
    material = MATERIAL
