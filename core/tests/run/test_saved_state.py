"""A killed sequential run loads the saved state of its editor and does not repeat its edits."""

import json
from contextlib import contextmanager

import pytest
from attrs import evolve

from ke_core.engine.passthrough import PassthroughModel
from ke_core.results.folder import RunFolder
from ke_core.runner import sequential as saved_state
from ke_core.runner.evaluate import evaluate
from ke_core.runner.sequential import FOLDER
from ke_core.spec.errors import BadData, EditFailed
from ke_core.spec.records import Replied
from ke_core.spec.runspec import Plan

PLAN = Plan(size=2, sequential=True, eval_every=1, eval_set="all")


@pytest.fixture(autouse=True)
def _saved_after_every_step(monkeypatch):
    monkeypatch.setattr(saved_state, "MOST", 1e9)


class Active(PassthroughModel):
    """An edited model that accepts edits and can be saved. ``editor.fails``: the tower whose edit fails."""

    def __init__(self, session, editor):
        super().__init__(session)
        self.session, self.editor = session, editor

    def change(self, *, add=(), remove=()):
        assert not remove
        model = self.session.model
        model.log.append(("edit", " ".join(edit.id for edit in add)))
        if self.editor.fails in [edit.after.subject.label for edit in add]:
            raise EditFailed("no such tower")
        model.weights |= {edit.after.subject.label: "Rome" for edit in add}

    def save(self, path):
        path.write_text(json.dumps(self.session.model.weights), encoding="utf-8")


@contextmanager
def opened(editor, session, weights):
    with session.model.patch():
        session.model.weights = weights
        yield Active(session, editor)


@contextmanager
def load(editor, session, path):
    try:
        weights = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadData(f"{path} is no JSON") from error
    with opened(editor, session, weights) as active:
        yield active


@pytest.fixture
def adapts(fakes):
    """Create a run whose editor can save, load and add edits."""

    class Adapts(fakes.Overwrite):
        fails = ""

        @contextmanager
        def edit(self, session, edits):
            with opened(self, session, dict(session.model.weights)) as active:
                active.change(add=edits)
                yield active

    def make(fails="", towers=5):
        editor = Adapts()
        editor.fails = fails
        return fakes.make_job(towers, editor, editor_spec=evolve(fakes.OVERWRITE, load=load), plan=PLAN)

    return make


def replies(folder):
    return sorted(
        (line.batch, line.case, line.style, tuple(getattr(reply, "text", reply) for reply in line.replies.values()))
        for line in folder.read()
        if isinstance(line, Replied) and line.phase == "after"
    )


def edits(job):
    return [what for kind, what in job.session.model.log if kind == "edit"]


class Killed(BaseException):
    pass


def killed(job, folder, after):
    """Run ``job`` until the edited model has received ``after`` prompts."""
    model = job.session.model
    real, left = model._one, [after]

    def one(request):
        if edits(job):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
        return real(request)

    model._one = one
    with pytest.raises(Killed):
        evaluate(job, folder)


@pytest.mark.parametrize("after", range(0, 30, 4))
def test_a_killed_run_applies_only_the_remaining_edits(adapts, tmp_path, after):
    whole = adapts()
    evaluate(whole, RunFolder.create(tmp_path / "whole", whole.spec))
    first = adapts()
    folder = RunFolder.create(tmp_path / "cut", first.spec)
    killed(first, folder, after)
    second = adapts()
    weights = dict(second.session.model.weights)
    evaluate(second, folder)
    assert [*edits(first), *edits(second)] == edits(whole)
    assert replies(folder) == replies(RunFolder.open(tmp_path / "whole"))
    assert second.session.model.weights == weights
    assert not (folder.path / FOLDER).exists()


def test_edits_that_failed_before_the_kill_are_not_applied_again(adapts, tmp_path):
    whole = adapts(fails="Tower 1")
    evaluate(whole, RunFolder.create(tmp_path / "whole", whole.spec))
    first, second = adapts(fails="Tower 1"), adapts(fails="Tower 1")
    folder = RunFolder.create(tmp_path / "cut", first.spec)
    killed(first, folder, 22)
    evaluate(second, folder)
    assert [*edits(first), *edits(second)] == edits(whole)
    assert replies(folder) == replies(RunFolder.open(tmp_path / "whole"))


@pytest.mark.parametrize("flaw", ["damaged", "other-model"])
def test_an_unusable_state_is_logged_and_all_edits_are_applied_again(adapts, tmp_path, flaw):
    first, second = adapts(), adapts()
    folder = RunFolder.create(tmp_path, first.spec)
    killed(first, folder, 22)
    (file,) = (folder.path / FOLDER).iterdir()
    file.write_text("{" if flaw == "damaged" else json.dumps({"Tower 1": "Berlin"}), encoding="utf-8")
    evaluate(second, folder)
    assert len(edits(second)) == 3
    (line,) = [line for line in folder.logged() if line.get("what") == "saved editor state"]
    assert "every edit is made again" in line["message"]


def test_a_state_of_a_later_step_is_not_used_for_a_step_that_is_open(adapts, tmp_path):
    """Lost records are asked again of the right edited model."""
    whole = adapts()
    evaluate(whole, RunFolder.create(tmp_path / "whole", whole.spec))
    first, second = adapts(), adapts()
    folder = RunFolder.create(tmp_path / "cut", first.spec)
    killed(first, folder, 28)
    records = folder.path / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    batches = [at for at, line in enumerate(lines) if b'"edits":' in line]
    records.write_bytes(b"".join(lines[: batches[1]]))
    evaluate(second, folder)
    assert len(edits(second)) == 3
    assert replies(folder) == replies(RunFolder.open(tmp_path / "whole"))


def test_an_editor_that_saves_nothing_leaves_no_folder(fakes, tmp_path):
    job = fakes.make_job(5, plan=PLAN)
    folder = RunFolder.create(tmp_path, job.spec)
    killed(job, folder, 22)
    assert not (folder.path / FOLDER).exists()


def test_saving_uses_at_most_a_tenth_of_the_time(adapts, tmp_path, monkeypatch):
    """Steps after the last save are applied again."""
    monkeypatch.setattr(saved_state, "MOST", 1e-9)
    whole, first, second = adapts(), adapts(), adapts()
    evaluate(whole, RunFolder.create(tmp_path / "whole", whole.spec))
    folder = RunFolder.create(tmp_path / "cut", first.spec)
    killed(first, folder, 28)
    assert [file.name.split(".")[1] for file in (folder.path / FOLDER).iterdir()] == ["1"]
    evaluate(second, folder)
    assert edits(second) == edits(whole)[1:]
    assert replies(folder) == replies(RunFolder.open(tmp_path / "whole"))
