"""The contract of adaptors reports errors of an adaptor in plain words."""

from contextlib import contextmanager
from inspect import signature

import pytest
import torch
from attrs import evolve, frozen

from ke_core.plugin import EditorSpec, PassthroughModel, UnsupportedChange
from ke_plugin_hf.testing import tiny_model
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.kit import expect_other, expect_same
from ke_weights.plugin import Hooks, edit_change, load_state, save_state
from ke_weights.testing.adaptor import AdaptorContract

LAYER = "model.layers.1.mlp.down_proj"


def shift(call, state):
    return call.output + state["shift"]


def shift_by_column(call, state):
    """Wrong: the first column of a padded row is not its first token."""
    return call.output + state["shift"] * (torch.arange(call.output.shape[1]) == 0)[:, None]


def state_of(edits):
    draw = torch.Generator().manual_seed(sum(map(ord, "".join(edit.id for edit in edits))))
    return {"shift": torch.randn(64, generator=draw, dtype=torch.float32)}


class Shifted(PassthroughModel):
    def __init__(self, session, adaptor, edits=()):
        super().__init__(session)
        self.adaptor, self.edits = adaptor, [*edits]

    def save(self, path):
        save_state(path, self.adaptor.state, {})

    def change(self, *, add=(), remove=()):
        if remove:
            raise UnsupportedChange("a shift is not undone")
        new = edit_change([self.edits], add, ()).new
        if new:
            self.adaptor.replace_state({"shift": self.adaptor.state["shift"] + state_of(new)["shift"]})
        self.edits += new


class Shifts:
    """``forward``: the function of the adaptor. ``loses``: it loads another state than it saved."""

    forward = staticmethod(shift)
    loses = False

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        with session.model.adapt(LAYER, self.forward, state_of(edits)) as adaptor:
            yield Shifted(session, adaptor, edits)

    @contextmanager
    def load(self, session, path):
        state, _about = load_state(path)
        with session.model.adapt(LAYER, self.forward, {"shift": state["shift"] * (0 if self.loses else 1)}) as adaptor:
            yield Shifted(session, adaptor)


class ByColumn(Shifts):
    forward = staticmethod(shift_by_column)


class Loses(Shifts):
    loses = True


class Hooked(Shifts):
    """Changes the forward pass with its own hooks."""

    @contextmanager
    def edit(self, session, edits):
        state = state_of(edits)
        with Hooks() as hooks:
            hooks.change(session.model.module.get_submodule(LAYER), lambda output: output + state["shift"])
            yield PassthroughModel(session)


class Writes(Shifts):
    """Also changes a parameter."""

    @contextmanager
    def edit(self, session, edits):
        weight = session.model.module.get_parameter("model.layers.0.mlp.down_proj.weight").data
        before = weight.clone()
        with super().edit(session, edits) as edited:
            weight.add_(1)
            yield edited
        weight.copy_(before)


@frozen
class Config:
    """No options."""


def load(editor, session, path):
    return editor.load(session, path)


def spec_of(editor, load=load):
    return EditorSpec(
        name="shifts",
        summary="adds a vector",
        config=Config,
        build=lambda _config: editor(),
        needs_weights=True,
        adaptor=True,
        load=load,
    )


@pytest.fixture
def contract(tmp_path):
    """``contract(editor, test)``: run one test of the contract."""

    def run(editor, test, load=load):
        made = AdaptorContract()
        made.families, made.needs_weights, made.edits = ("llama",), True, [MOVE_TOWER, MOVE_GATE]
        given = {
            "spec": spec_of(editor, load),
            "config": Config(),
            "editor": editor(),
            "session": made.on(made.tiny(), tmp_path),
            "tmp_path": tmp_path,
        }
        method = getattr(made, test)
        method(**{name: given[name] for name in signature(method).parameters})

    return run


TESTS = [name for name in vars(AdaptorContract) if name.startswith("test_")]


@pytest.mark.parametrize("test", TESTS)
def test_minimal_adaptor_passes_the_contract(contract, test):
    contract(Shifts, test)


@pytest.mark.parametrize(
    ("editor", "test", "why"),
    [
        (Hooked, "test_every_tensor_of_its_state_is_in_the_digest", r"call session\.model\.adapt"),
        (Hooked, "test_the_same_edits_give_the_same_digest", "something besides session"),
        (Writes, "test_no_parameter_changes_while_the_model_is_edited", "leaves parameters unchanged"),
        (ByColumn, "test_batch_equals_single_rows", "in a batch and .* alone; use the roles"),
        (Loses, "test_a_loaded_model_gives_the_same_answers", "the loaded model is not the one that was saved"),
    ],
)
def test_errors_name_the_problem(contract, editor, test, why):
    with pytest.raises(AssertionError, match=why):
        contract(editor, test)


def test_contract_tells_how_to_make_an_adaptor_saveable(contract):
    with pytest.raises(AssertionError, match=r"give its edited model save\(path\), and its EditorSpec load="):
        contract(Shifts, "test_a_loaded_model_gives_the_same_answers", load=None)


def test_digest_errors_are_readable():
    model = tiny_model()
    digest = model.digest
    with pytest.raises(AssertionError, match=r"it is the same: its digest is still \w{8}\. docs/digests\.md describes"):
        expect_other(model, digest, "it is the same")
    another = pytest.raises(AssertionError, match=r"it is another: its digest was \w{8} and is \w{8} now")
    with model.adapt(LAYER, shift, {"shift": torch.ones(64, dtype=torch.float32)}), another:
        expect_same(model, digest, "it is another")


def test_adaptor_needs_an_open_model():
    with pytest.raises(TypeError, match="set needs_weights=True"):
        evolve(spec_of(Shifts), needs_weights=False)
