"""Contracts detect plausible mistakes of plugins."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from ke_core.plugin import Answer, Generate, PassthroughModel, UnsupportedChange, Value, Verdict
from ke_plugin_hf.testing import tiny_model
from ke_testing.contract import MACHINE
from ke_testing.editor import EditorContract
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import ChecksumModel, EchoModel, make_session
from ke_testing.metric import MetricContract
from ke_testing.toy import toy_record
from ke_weights.plugin import LowRank, find_parts


class Told(PassthroughModel):
    """Answers with the statements it was given."""

    def __init__(self, session, edits):
        super().__init__(session)
        self.known = {edit.id: edit.statement for edit in edits}

    def answer(self, asks):
        return [Answer(text=" ".join(self.known.values())) for _ in asks]

    def change(self, *, add=(), remove=()):
        for name in remove:
            del self.known[name]
        self.known |= {edit.id: edit.statement for edit in add}


class KeepsAll(Told):
    def change(self, *, add=(), remove=()):
        super().change(add=add)


class AddsNothing(Told):
    def change(self, *, add=(), remove=()):
        pass


class Declines(Told):
    def change(self, *, add=(), remove=()):
        raise UnsupportedChange("build it again")


class DeclinesTooLate(Told):
    def change(self, *, add=(), remove=()):
        super().change(add=add)
        raise UnsupportedChange("build it again")


class Editor:
    def __init__(self, edited):
        self.edited = edited

    @contextmanager
    def edit(self, session, edits):
        yield self.edited(session, edits)


class Writes:
    """Writes into the first layer; ``anyway``: where there is no edit, too."""

    def __init__(self, *, anyway):
        self.anyway = anyway

    @contextmanager
    def edit(self, session, edits):
        place = find_parts(session.model.module).layers[0]
        with session.model.patch() as weights:
            if edits or self.anyway:
                rows, columns = place.matrix.shape
                ones = place.matrix.new_ones
                weights.add(place.weight_name, LowRank(left=ones(rows, 1), right=ones(1, columns)))
            yield PassthroughModel(session)


def contract(*, needs_weights=False):
    made = EditorContract()
    made.needs_weights, made.edits = needs_weights, [MOVE_TOWER, MOVE_GATE]
    return made


@pytest.mark.parametrize("edited", [Told, Declines, PassthroughModel])
def test_valid_change_passes_the_contract(edited, tmp_path):
    session = make_session(EchoModel(), root=tmp_path)
    contract().test_adding_and_removing_an_edit_restores_the_edited_model(Editor(edited), session)


@pytest.mark.parametrize("edited", [KeepsAll, AddsNothing, DeclinesTooLate])
def test_broken_change_fails_the_contract(edited, tmp_path):
    session = make_session(EchoModel(), root=tmp_path)
    with pytest.raises(AssertionError):
        contract().test_adding_and_removing_an_edit_restores_the_edited_model(Editor(edited), session)


def test_checksum_model_distinguishes_prompts():
    telling = ChecksumModel()
    said = [telling.generate([Generate(prompt=f"{fact}\nIn which city?", max_tokens=2)])[0].text for fact in "ab"]
    assert [text.partition("#")[0] for text in said] == [" In", " In"]
    assert said[0] != said[1]


def test_weight_written_without_edits_is_detected(tmp_path):
    session = make_session(tiny_model(), root=tmp_path)
    contract(needs_weights=True).test_no_edits_change_nothing(Writes(anyway=False), session)
    with pytest.raises(AssertionError):
        contract(needs_weights=True).test_no_edits_change_nothing(Writes(anyway=True), session)


class Counts:
    """One value for each answer whose verdict is among ``counted``."""

    def __init__(self, *counted):
        self.counted = counted

    def values(self, record):
        for (phase, style, query), outcome in record.outcomes.items():
            if outcome.judgment.verdict in self.counted:
                right = float(outcome.judgment.verdict is Verdict.RIGHT)
                yield Value(aspect="all", value=right, phase=phase, style=style, unit=query)


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.PRE_EDIT])
def test_metric_that_omits_wrong_answers_is_detected(verdict):
    MetricContract().test_every_verdict_yields_a_value_or_a_reason(Counts(*Verdict), toy_record(), verdict)
    with pytest.raises(AssertionError):
        MetricContract().test_every_verdict_yields_a_value_or_a_reason(Counts(Verdict.RIGHT), toy_record(), verdict)


@pytest.mark.parametrize(
    "line", ["    except torch.cuda.OutOfMemoryError:", "x = 1  # on cuda and elsewhere", 'kind == "cuda"']
)
def test_device_types_are_allowed(line):
    assert not MACHINE.search(line)


@pytest.mark.parametrize("line", ['model.to("cuda:0")', "tensor.cuda()", "open('/home/me/facts.json')"])
def test_device_numbers_and_machine_paths_are_found(line):
    assert MACHINE.search(line)
