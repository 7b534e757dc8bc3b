"""Contract tests, and equality with the unedited model."""

from ke_core.plugin import PassthroughModel
from ke_plugin_none.editor import Unchanged
from ke_testing.editor import EditorContract
from ke_testing.examples import MOVE_TOWER, QUESTIONS
from ke_testing.fakes import EchoModel, make_session


class TestNone(EditorContract):
    name = "none"


def test_answers_equal_the_unedited_models(tmp_path) -> None:
    session = make_session(EchoModel(), root=tmp_path)
    with Unchanged().edit(session, [MOVE_TOWER]) as edited:
        assert edited.answer(QUESTIONS) == PassthroughModel(session).answer(QUESTIONS)
