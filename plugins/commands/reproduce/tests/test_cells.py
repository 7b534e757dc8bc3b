"""Many evaluations in one process: models are loaded once, cells are resumed, failures stay separate."""

from types import SimpleNamespace

import pytest
from attrs import evolve

from ke_core.app import SCORES, EvalRequest, ModelChoice, Plan, RunFolder, read_catalog
from ke_core.plugin import Answer, BadRun, EditFailed, Failure, ModelRequest, ModelSpec, ModelUnavailable, hookimpl
from ke_core.results.folder import RECORDS
from ke_core.results.seal import SEAL
from ke_plugin_reproduce.cells import Cell, CellRunner
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import SilentProgress

pytestmark = pytest.mark.integration


@pytest.fixture
def sick():
    """Whether the server of the editor ``served`` is down."""
    return [True]


@pytest.fixture
def world(fakes, ke_cache_dir, tmp_path, sick):
    """A catalog that counts loads and reads: ``fake:gone`` cannot be loaded, ``bug`` raises while it edits."""
    seen = SimpleNamespace(loaded=[], read=[], models=[])

    def build(request):
        seen.loaded.append(request.id)
        if request.id == "gone":
            raise ModelUnavailable("no weights here", hint="fetch them")
        seen.models.append(fakes.CityModel(40))
        return seen.models[-1]

    def towers(config):
        seen.read.append(config.n)
        return fakes.TOWERS.build(config)

    class Bug(fakes.Overwrite):
        def edit(self, session, edits):
            raise ZeroDivisionError("a bug")

    class Vandal(fakes.Overwrite):
        def __init__(self):
            super().__init__("cheats")

    def of_a_server(ask):
        return (
            Failure(error="ServerDown", message="gone")
            if sick[0] and fakes.tower_of(ask) == "2"
            else Answer(text="Rome")
        )

    spec = ModelSpec(name="fake", summary="cities", config=ModelRequest, build=build)
    editors = [fakes.OVERWRITE, fakes.NOTES]
    editors += [
        evolve(fakes.OVERWRITE, name="bug", build=lambda _config: Bug()),
        evolve(fakes.OVERWRITE, name="vandal", build=lambda _config: Vandal()),
        evolve(fakes.NOTES, name="served", build=lambda _config: fakes.Notes([], of_a_server)),
        evolve(
            fakes.OVERWRITE, name="absent", needs_model=False, needs_weights=False, build=lambda _c: fakes.Notes([])
        ),
    ]
    plugin = SimpleNamespace(
        __name__="fakes",
        ke_editors=hookimpl(lambda: editors, specname="ke_editors"),
        ke_datasets=hookimpl(lambda: [evolve(fakes.TOWERS, build=towers)], specname="ke_datasets"),
        ke_judges=hookimpl(lambda: [fakes.EXACT], specname="ke_judges"),
        ke_metrics=hookimpl(lambda: [fakes.SHARE], specname="ke_metrics"),
        ke_models=hookimpl(lambda: [spec], specname="ke_models"),
    )

    def cell(editor, model="fake:cities", **changes):
        request = EvalRequest(editor=editor, dataset="towers", model=ModelChoice(reference=model))
        name = "-".join([editor, model.partition(":")[2], *map(str, changes.values())])
        return Cell(name=name, request=evolve(request, **changes), folder=tmp_path / name)

    runner = CellRunner(catalog=read_catalog(plugins_of(plugin)), progress=SilentProgress())
    return SimpleNamespace(cell=cell, go=runner.run, seen=seen)


def test_models_and_datasets_are_loaded_once(world):
    cells = [world.cell(e, m) for e in ("overwrite", "notes") for m in ("fake:cities", "fake:towns")]
    results = world.go(cells)
    assert [(result.status, result.known) for result in results] == [("done", False)] * 4
    assert [result.cell for result in results] == cells
    assert (world.seen.loaded, world.seen.read) == (["cities", "towns"], [6])


def test_model_and_dataset_are_kept_between_calls(world):
    world.go([world.cell("overwrite"), world.cell("notes", "fake:towns")])
    world.go([world.cell("notes", "fake:towns"), world.cell("overwrite", "fake:towns")])
    assert (world.seen.loaded, world.seen.read) == (["cities", "towns"], [6])


def test_the_unedited_model_is_asked_each_question_once_for_all_cells(world):
    world.go([world.cell("overwrite"), world.cell("overwrite", plan=Plan(size=2)), world.cell("overwrite", seed=1)])
    (model,) = world.seen.models
    asked_before_any_edit = [what for what, _ in model.log].index("edit")
    base = [prompt for what, prompt in model.log[:asked_before_any_edit] if what == "ask"]
    edits = [at for at, (what, _prompt) in enumerate(model.log) if what == "edit"]
    assert len(edits) == 6 + 3 + 6
    assert len(base) == len(set(base))
    after = [prompt for what, prompt in model.log[asked_before_any_edit:] if what == "ask"]
    known = [prompt for prompt in base if prompt.startswith("direct Q: In which city was")]  # asked of that model alone
    assert known
    assert not set(known) & set(after)


def test_an_editor_without_a_model_loads_none(world):
    assert world.go([world.cell("absent")])[0].status == "done"
    assert world.seen.loaded == []


def test_a_cell_with_unanswered_requests_is_resumed(world, sick):
    cells = [world.cell("served"), world.cell("notes")]
    assert [(result.known, result.failures) for result in world.go(cells)] == [(False, 2), (False, 0)]
    sick[0] = False
    assert [(result.known, result.failures) for result in world.go(cells)] == [(False, 0), (True, 0)]
    assert [(result.known, result.failures) for result in world.go(cells)] == [(True, 0)] * 2


def test_a_finished_cell_is_neither_loaded_nor_run_again(world):
    cells = [world.cell("overwrite"), world.cell("notes")]
    world.go(cells)
    before = {path: path.read_bytes() for cell in cells for path in cell.folder.iterdir()}
    world.seen.loaded.clear()
    calls = []
    results = world.go(cells, report=lambda cell, result: calls.append((cell.name, result and result.known)))
    assert [(result.status, result.known) for result in results] == [("done", True)] * 2
    assert world.seen.loaded == []
    assert calls == [
        ("overwrite-cities", None),
        ("overwrite-cities", True),
        ("notes-cities", None),
        ("notes-cities", True),
    ]
    assert before == {path: path.read_bytes() for cell in cells for path in cell.folder.iterdir()}


def test_a_folder_of_other_options_is_not_finished(world):
    world.go([world.cell("overwrite")])
    other = evolve(world.cell("overwrite"), request=world.cell("overwrite", seed=1).request)
    (result,) = world.go([other])
    assert (result.status, result.known) == ("failed", False)
    assert "holds another run: seed 0 (here 1)" in result.error
    assert "choose another folder" in result.hint


def test_a_killed_cell_resumes(world):
    cell = world.cell("overwrite", plan=Plan(size=2))
    world.go([cell])
    records = cell.folder / RECORDS
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:20]))
    for name in (SCORES, SEAL):
        (cell.folder / name).unlink()
    RunFolder.open(cell.folder).log("start")  # a process that never came to its end
    (result,) = world.go([cell])
    assert (result.status, result.known) == ("done", False)
    assert records.read_bytes().startswith(b"".join(lines[:20]))
    assert RunFolder.open(cell.folder).finished


def test_a_failed_cell_reports_its_reason_and_does_not_stop_the_others(world):
    cells = [world.cell(e, m) for e, m in (("bug", "fake:cities"), ("nobody", "fake:cities"), ("notes", "fake:cities"))]
    bug, nobody, notes = world.go(cells)
    assert (bug.status, bug.error) == ("failed", "ZeroDivisionError: a bug")
    assert "in edit" in bug.details
    assert (nobody.error, nobody.hint[:14]) == ("no editor called 'nobody'", "installed edit")
    assert notes.status == "done"
    ended = RunFolder.open(bug.cell.folder).logged()
    assert [(line["event"], line.get("ended")) for line in ended][-1] == ("end", "failed")
    (failure,) = [line for line in ended if line["event"] == "failure"]
    assert (failure["what"], failure["message"]) == ("ZeroDivisionError", "a bug")
    assert "in edit" in failure["traceback"]


def test_the_model_is_reloaded_after_a_failed_cell(world):
    vandal, after = world.go([world.cell("vandal"), world.cell("overwrite")])
    assert vandal.error.startswith("the editor left the model changed")
    assert after.status == "done"
    assert world.seen.loaded == ["cities", "cities"]


def test_a_model_that_cannot_be_loaded_is_tried_once(world):
    results = world.go([world.cell(e, m) for m in ("fake:gone", "fake:cities") for e in ("overwrite", "notes")])
    assert [(result.status, result.error) for result in results] == [
        ("failed", "no weights here"), ("failed", "no weights here"), ("done", ""), ("done", ""),
    ]  # fmt: skip
    assert world.seen.loaded == ["gone", "cities"]


def test_an_interrupt_stops_all_cells_and_is_logged(world, monkeypatch, fakes):
    monkeypatch.setattr(fakes.Overwrite, "edit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    cells = [world.cell("overwrite"), world.cell("notes")]
    with pytest.raises(KeyboardInterrupt):
        world.go(cells)
    assert RunFolder.open(cells[0].folder).logged()[-1]["ended"] == "interrupted"
    assert not cells[1].folder.exists()


def test_two_cells_in_one_folder_are_refused(world):
    with pytest.raises(BadRun, match="two cells have the same folder"):
        world.go([world.cell("overwrite"), evolve(world.cell("notes"), folder=world.cell("overwrite").folder)])


def test_failed_edits_are_logged_with_the_reason(world, monkeypatch, fakes):
    class Broken(fakes.Overwrite):
        def edit(self, session, edits):
            raise EditFailed("the update is larger than the weight")

    monkeypatch.setattr(fakes.Overwrite, "edit", Broken.edit)
    (result,) = world.go([world.cell("overwrite")])
    assert result.failures > 0
    lines = [line for line in RunFolder.open(result.cell.folder).logged() if line["event"] == "failure"]
    assert {(line["what"], line["message"]) for line in lines} == {
        ("batches failed", "the update is larger than the weight"),
        ("replies failed", "EditFailed: the update is larger than the weight"),
    }
