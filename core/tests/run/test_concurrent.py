"""Groups of an editor that changes no weights are asked together and recorded as if one after another."""

from __future__ import annotations

import pytest

from ke_core.results.folder import RunFolder
from ke_core.runner import concurrent as abreast
from ke_core.runner.evaluate import ask_models
from ke_core.spec.errors import EditFailed, PluginBroken, UnsupportedChange
from ke_core.spec.records import Batch, Replied
from ke_core.spec.requests import Generate
from ke_core.spec.results import Answer, Failure
from ke_core.spec.runspec import Plan


class Supposed:
    """Answers with its facts and the model's text."""

    def __init__(self, session, edits):
        self.session, self.facts = session, " ".join(edit.id for edit in edits)
        self.details = {"facts": len(edits)}

    def solve(self, ask):
        written = yield Generate(prompt=f"{self.facts} {ask.prompt.text}", max_tokens=4)
        return Answer(text=f"{self.facts}:{written.text}")

    def change(self, *, add=(), remove=()):
        raise UnsupportedChange("a new one is as cheap")

    def answer(self, asks):
        return self.session.engine.answer(self.solve, asks)


@pytest.fixture
def supposing(fakes):
    class Supposing(fakes.Notes):
        def __init__(self, fails=""):
            super().__init__([])
            self.fails, self.open, self.most = fails, 0, 0

        def edit(self, session, edits):
            return self.standing(session, edits)

        @fakes.contextmanager
        def standing(self, session, edits):
            if self.fails in [edit.after.subject.label for edit in edits]:
                raise EditFailed("no such tower")
            self.open += 1
            self.most = max(self.most, self.open)
            yield Supposed(session, edits)
            self.open -= 1

    return Supposing


@pytest.fixture
def job(fakes, supposing):
    def make(towers=8, editor=None, **changes):
        return fakes.make_job(towers, editor or supposing(), editor_spec=fakes.NOTES, **changes)

    return make


def records(job, path):
    """Return replies and batches without times and memory."""
    folder = RunFolder.create(path, job.spec)
    ask_models(job, folder)
    found = list(folder.read())
    replied = [(r.batch, r.case, r.phase, r.style, r.replies) for r in found if isinstance(r, Replied)]
    batches = [(r.batch, r.cases, r.edits, r.details, r.failed, r.first) for r in found if isinstance(r, Batch)]
    return replied, batches


@pytest.mark.parametrize("plan", [Plan(), Plan(size=3), Plan(size=3, eval_limit=4), Plan(size=None)])
def test_concurrent_groups_give_the_records_of_sequential_groups(job, tmp_path, monkeypatch, plan):
    together = records(job(plan=plan), tmp_path / "together")
    monkeypatch.setattr(abreast, "MOST", 1)
    assert records(job(plan=plan), tmp_path / "alone") == together


def test_all_groups_are_asked_together_and_restored(job, supposing, tmp_path):
    editor = supposing()
    one = job(editor=editor)
    records(one, tmp_path)
    assert (editor.most, editor.open) == (8, 0)
    assert one.session.model.calls == 2  # before the edits, and after them


def test_groups_are_activated_until_they_have_enough_requests(job, supposing, tmp_path, monkeypatch):
    monkeypatch.setattr(abreast, "ENOUGH", 6)  # a group has two
    editor = supposing()
    records(job(editor=editor), tmp_path)
    assert (editor.most, editor.open) == (3, 0)


def test_the_number_of_concurrent_groups_is_limited(job, supposing, tmp_path, monkeypatch):
    monkeypatch.setattr(abreast, "MOST", 3)
    editor = supposing()
    records(job(editor=editor), tmp_path)
    assert (editor.most, editor.open) == (3, 0)


def test_an_edited_model_shared_by_groups_is_refused(job, fakes, tmp_path):
    class Own(fakes.Notes):
        @fakes.contextmanager
        def edit(self, session, edits):
            self.made = Supposed(session, edits)
            yield self

        def __getattr__(self, name):
            return getattr(self.__dict__["made"], name)

    with pytest.raises(PluginBroken, match="one edited model for several groups"):
        records(job(editor=Own([])), tmp_path)


def test_failed_edits_affect_only_their_own_group(job, supposing, tmp_path):
    replied, batches = records(job(editor=supposing("Tower 2")), tmp_path)
    after = {case: replies for _batch, case, phase, _style, replies in replied if phase == "after"}
    assert all(isinstance(reply, Failure) for reply in after.pop("2").values())
    assert all(isinstance(reply, Answer) for replies in after.values() for reply in replies.values())
    assert [bool(failed) for *_rest, failed, _first in batches].count(True) == 1
    assert [first for *_rest, first in batches].count(True) == 1


def test_an_interrupted_run_resumes_with_unrecorded_groups(job, tmp_path, monkeypatch):
    monkeypatch.setattr(abreast, "ENOUGH", 6)
    whole = records(job(), tmp_path / "whole")
    one = job()
    generate, asked = one.session.model.generate, []

    def interrupted(_model, requests):
        if len(asked) == 2:  # the unedited model, and three groups
            raise KeyboardInterrupt
        asked.append(len(requests))
        return generate(requests)

    monkeypatch.setattr(type(one.session.model), "generate", interrupted)
    folder = RunFolder.create(tmp_path / "run", one.spec)
    with pytest.raises(KeyboardInterrupt):
        ask_models(one, folder)
    monkeypatch.undo()
    monkeypatch.setattr(abreast, "ENOUGH", 6)
    before = len([r for r in folder.read() if isinstance(r, Replied) and r.phase == "after"])
    assert before == 3
    assert records(one, tmp_path / "run")[0] == whole[0]
