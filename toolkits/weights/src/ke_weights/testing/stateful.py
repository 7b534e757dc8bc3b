"""Checks of editors that are a ``StatefulEditor``."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from ke_core.plugin import SupportsSave, UnsupportedEdit
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_model
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_testing.kit import expect_same
from ke_weights.plugin import StatefulEditor

MARGIN = 30
"""Tokens between the edit and the context: an editor may use some of them for left contexts."""


def chat_model() -> HFModel:
    """Return a model with a chat template that ends in a line break, after which an answer begins without a space."""
    plain = tiny_model("llama")
    plain.tokenizer.chat_template = "{% for turn in messages %}Q: {{ turn['content'] }}{{ '\\n' }}{% endfor %}"
    return HFModel.from_parts(plain.module, plain.tokenizer, id="tiny:chat", chat=True)


def expect_room_for_chat_format(editor: StatefulEditor, root: Path) -> None:
    """Expect that an edit is refused if it fits into the context as plain text, but not in the chat format."""
    plain = tiny_model("gpt2")
    plain.tokenizer.chat_template = "{% for turn in messages %}" + "Q: " * MARGIN + "{{ turn['content'] }}{% endfor %}"
    chat = HFModel.from_parts(plain.module, plain.tokenizer, id="tiny:chat", chat=True)
    assert MOVE_TOWER.cloze is not None
    words = "the " * (plain.context - MARGIN - len(plain.encode(f"{MOVE_TOWER.prompt} {MOVE_TOWER.target}")))
    edit = evolve(MOVE_TOWER, cloze=evolve(MOVE_TOWER.cloze, template=f"{words}{MOVE_TOWER.cloze.template}"))
    assert len(plain.encode(edit.prompt)) < plain.context < len(chat.encode(edit.prompt))
    assert editor.check(make_session(plain, root=root), [edit]) == {}
    session = make_session(chat, root=root)
    assert "more than" in editor.check(session, [edit])[edit.id]
    with pytest.raises(UnsupportedEdit, match="more than"), editor.edit(session, [edit]):
        pass


def expect_saved_seed(editor: StatefulEditor, root: Path) -> None:
    """Expect that a saved model continues with its seed in a session with another one."""
    model, path = tiny_model(), root / "state"
    with editor.edit(make_session(model, root=root, seed=1), [MOVE_TOWER]) as edited:
        assert isinstance(edited, SupportsSave)
        edited.save(path)
        edited.change(add=[MOVE_GATE])
        digest = model.digest
    with editor.load(make_session(model, root=root, seed=2), path) as loaded:
        loaded.change(add=[MOVE_GATE])
        expect_same(model, digest, "a loaded model uses the seed of the session")
