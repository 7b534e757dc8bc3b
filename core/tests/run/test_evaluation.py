"""Runs from names and options, through a catalog as on the command line."""

import json
from types import SimpleNamespace

import pytest
from attrs import evolve

from ke_core.plugin import hookimpl
from ke_core.plugins.catalog import read_catalog
from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate, judge_folder, prepare, score_folder
from ke_core.runner.prepare import resolve_run
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice
from ke_core.spec.errors import BadConfig, BadRun, ModelUnavailable, NeedsWeights, UnknownComponent
from ke_core.spec.queries import Probe
from ke_core.spec.records import Replied
from ke_core.spec.runspec import Plan
from ke_core.spec.specs import ModelRequest, ModelSpec
from ke_plugin_reproduce.cells import finished
from ke_plugin_reproduce.estimate import workload_of
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import EchoModel, SilentProgress


@pytest.fixture
def catalog(fakes, ke_cache_dir):
    loaded = []

    def build(request):
        loaded.append(request)
        return EchoModel() if request.id == "echo" else fakes.CityModel(40)

    spec = ModelSpec(name="fake", summary="cities", config=ModelRequest, build=build)
    plugin = SimpleNamespace(
        __name__="fakes",
        ke_editors=hookimpl(lambda: [fakes.OVERWRITE, fakes.NOTES], specname="ke_editors"),
        ke_datasets=hookimpl(lambda: [fakes.TOWERS], specname="ke_datasets"),
        ke_judges=hookimpl(lambda: [fakes.EXACT], specname="ke_judges"),
        ke_metrics=hookimpl(lambda: [fakes.SHARE, again_of(fakes)], specname="ke_metrics"),
        ke_models=hookimpl(lambda: [spec, evolve(spec, name="hf")], specname="ke_models"),
    )
    found = read_catalog(plugins_of(plugin))
    assert not found.broken
    return SimpleNamespace(catalog=found, loaded=loaded)


def again_of(fakes):
    """Return a metric that asks the first question of each case again, after the number of cases in the dataset."""

    def derive(_config, cases):
        every = [*cases]

        def probes(case):
            query = case.probes[0].queries[0]
            text = f"One of {len(every)}: {query.texts[0]}"
            again = evolve(query, id="again/question", texts=(text,), edit=None, cloze=None)
            return (Probe(id="again/probe", aspect="again", queries=(again,)),)

        return probes

    return evolve(fakes.SHARE, name="again", probes=derive)


def request(**changes):
    base = EvalRequest(editor="overwrite", dataset="towers", model=ModelChoice(reference="fake:cities@main"))
    return evolve(base, **changes)


def prepared(catalog, **changes):
    return prepare(request(**changes), catalog.catalog, SilentProgress())


def test_a_run_is_prepared_evaluated_and_scored(catalog, tmp_path):
    job = prepared(catalog, plan=Plan(size=2), options={"towers": {"n": "5"}, "overwrite": {"layers": "3,4"}})
    finished = evaluate(job, RunFolder.create(tmp_path / "run", job.spec))
    assert (finished.failures, finished.skipped, len(job.cases)) == (0, 0, 5)
    assert all(s.value == 1.0 for s in finished.scores)
    assert job.spec.editor.options == {"gold": False, "layers": [3, 4]}
    assert job.spec.styles == ("direct", "cot")
    assert job.spec.edited_form == "cloze"
    assert job.spec.model.id == "cities"
    assert (job.spec.model.revision, job.spec.model.digest) == ("main", job.session.model.digest)
    assert catalog.loaded[0].revision == "main"
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["id"] == job.spec.id


def test_control_requests_are_counted_in_advance(catalog):
    found = resolve_run(request(editor="notes"), catalog.catalog)
    own = evolve(found, method=evolve(found.method, spec=evolve(found.editor_spec, own_before=True)))
    model = request().model.reference
    assert (
        workload_of(own, model, set()).unedited - workload_of(found, model, set()).unedited == 2 * len(found.cases) > 0
    )


def test_a_recorded_run_is_judged_and_scored_again_without_the_model(catalog, tmp_path):
    job = prepared(catalog, options={"towers": {"n": "3"}})
    folder = RunFolder.create(tmp_path / "run", job.spec)
    finished = evaluate(job, folder)
    loaded = len(catalog.loaded)
    assert judge_folder(folder, catalog.catalog) == 0
    assert score_folder(folder, catalog.catalog) == list(finished.scores)
    assert len(catalog.loaded) == loaded


def test_settings_that_change_replies_change_the_run_id(catalog):
    job = prepared(catalog)
    others = [
        prepared(catalog, plan=Plan(size=2)),
        prepared(catalog, plan=Plan(protocol="sample", size=1)),
        prepared(catalog, seed=1),
        prepared(catalog, styles=("cot",)),
        prepared(catalog, edited_form="question"),
        prepared(catalog, options={"towers": {"n": "7"}}),
        prepared(catalog, options={"overwrite": {"gold": "yes"}}),
        prepared(catalog, model=ModelChoice(reference="fake:cities@main", how=ModelRequest(id="", chat=True))),
    ]
    assert len({job.spec.id, *(other.spec.id for other in others)}) == 1 + len(others)
    assert prepared(catalog).spec.id == job.spec.id


def test_the_data_folder_is_not_part_of_the_run_id(catalog, tmp_path):
    here = prepared(catalog, data_dir="/somewhere")
    assert here.spec.id == prepared(catalog).spec.id
    assert "/somewhere" not in str(here.spec)


def test_flags_without_a_dataset_option_are_refused(catalog):
    with pytest.raises(BadConfig, match="dataset towers takes no --prompts"):
        prepared(catalog, prompts="paper")
    with pytest.raises(BadConfig, match=r"--data-dir and -o towers\.data_dir"):
        prepared(catalog, data_dir="a", options={"towers": {"data_dir": "b"}})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"editor": "overwrit"}, "no editor called 'overwrit'"),
        ({"dataset": "x"}, "no dataset called 'x'"),
        ({"judge": "x"}, "no judge called 'x'"),
        ({"metrics": ("x",)}, "no metric called 'x'"),
        ({"model": ModelChoice(reference="opnai:x")}, "no model called 'opnai'"),
    ],
)
def test_unknown_names_are_refused(catalog, changes, says):
    with pytest.raises(UnknownComponent, match=says):
        prepared(catalog, **changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"styles": ("haiku",)}, "no style 'haiku'"),
        ({"options": {"overwrite": {"layer": "1"}}}, "no option 'layer'"),
        ({"options": {"mello": {"hops": "1"}}}, "which this run does not use"),
        ({"options": {"towers": {"mask": "true"}}}, "cannot hide"),
        ({"plan": Plan(protocol="sample", size=99)}, "99 cases cannot be edited"),
        ({"model": ModelChoice(reference="fake:")}, "no model in"),
    ],
)
def test_inconsistent_requests_are_refused(catalog, changes, says):
    with pytest.raises((BadConfig, ModelUnavailable), match=says):
        prepared(catalog, **changes)


def test_a_weight_editor_on_a_model_without_weights(catalog):
    with pytest.raises(NeedsWeights):
        prepared(catalog, model=ModelChoice(reference="fake:echo"))


def test_gold_material_is_given_only_if_the_editor_spec_asks_for_it(catalog):
    job = prepared(catalog)
    assert set(job.session.material) == {"shots"}
    assert job.spec.oracle == ()
    job = prepared(catalog, options={"overwrite": {"gold": "true"}})
    assert set(job.session.material) == {"answers", "shots"}
    assert job.spec.oracle == ("answers",)


def test_one_model_serves_several_editors(catalog):
    job = prepared(catalog)
    other = prepare(request(editor="notes"), catalog.catalog, SilentProgress(), model=job.session.model)
    assert len(catalog.loaded) == 1
    assert other.spec.model == job.spec.model


def test_a_changed_dataset_is_detected(catalog, fakes, tmp_path, monkeypatch):
    job = prepared(catalog)
    folder = RunFolder.create(tmp_path / "run", job.spec)
    evaluate(job, folder)
    info = evolve(job.dataset.info(), sha256="changed")
    monkeypatch.setattr(fakes.Towers, "info", lambda self: info)
    with pytest.raises(BadRun, match="towers is not what"):
        score_folder(folder, catalog.catalog)


def test_duplicate_case_ids_are_refused(catalog, fakes, monkeypatch):
    monkeypatch.setattr(fakes.Towers, "cases", lambda self: iter((*self.made, self.made[0])))
    with pytest.raises(Exception, match="two cases called 1"):
        prepared(catalog)


def test_moving_a_model_folder_keeps_the_run_id(catalog, fakes, tmp_path):
    for place in ("a", "b"):
        (tmp_path / place / "model").mkdir(parents=True)
    refs = [
        ModelChoice(reference=str(tmp_path / place / "model")).describe(catalog.catalog, fakes.CityModel(2))
        for place in ("a", "b")
    ]
    assert refs[0] == refs[1]
    assert refs[0].id == "model"


def test_run_files_contain_no_secrets_of_the_environment(catalog, fakes, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijkl")
    reply = lambda ask: fakes.Failure(
        error="HTTPError", message=f"401 for {fakes.tower_of(ask)}: Bearer hf_abcdefghijkl"
    )
    job = prepared(catalog, editor="notes")
    job = evolve(job, method=fakes.as_method(fakes.Notes([], reply), job.editor_spec))
    evaluate(job, RunFolder.create(tmp_path / "run", job.spec))
    for file in (tmp_path / "run").iterdir():
        assert b"hf_abcdefghijkl" not in file.read_bytes()
    assert b"Bearer [HF_TOKEN]" in (tmp_path / "run" / "records.jsonl").read_bytes()
    job = prepared(catalog, data_dir="", model=ModelChoice(reference="fake:x-hf_abcdefghijkl"))
    with pytest.raises(BadConfig, match="environment variable HF_TOKEN"):
        RunFolder.create(tmp_path / "other", job.spec)
    assert not (tmp_path / "other").exists()


def test_dependencies_of_an_editor_are_part_of_the_specification(catalog, fakes, tmp_path, monkeypatch):
    """A retrained network or another encoder is another run."""
    monkeypatch.setattr(fakes.Overwrite, "dependencies", lambda _self, _session: {"encoder": "one"}, raising=False)
    job = prepared(catalog)
    assert job.spec.editor.dependencies == {"encoder": "one"}
    assert prepared(catalog).spec.id == job.spec.id
    evaluate(job, RunFolder.create(tmp_path / "run", job.spec))
    assert finished(resolve_run(request(), catalog.catalog), tmp_path / "run")
    monkeypatch.setattr(fakes.Overwrite, "dependencies", lambda _self, _session: {"encoder": "other"})
    assert prepared(catalog).spec.id != job.spec.id
    with pytest.raises(BadRun, match="another run"):
        RunFolder.create(tmp_path / "run", prepared(catalog).spec)


def test_file_options_are_recorded_by_content(catalog, tmp_path, monkeypatch):
    from attrs import field, frozen

    from ke_core.plugins.catalog import Registration
    from ke_core.runner.resolve import _chosen
    from ke_core.spec.specs import EditorSpec

    @frozen(kw_only=True)
    class Config:
        corpus: str = field(default="built-in", metadata={"file": True})
        prompts: str = field(default="", metadata={"file": True, "words": ("dataset",)})

    spec = EditorSpec(name="x", summary="x", config=Config, build=lambda config: config)
    registration = Registration(spec=spec, plugin=catalog.catalog.registration("editor", "overwrite").plugin)
    assert _chosen(catalog.catalog, registration, Config()).component.options == {"corpus": "built-in", "prompts": ""}
    seen = []
    for folder, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "decompose.txt").write_text(text)
        options = _chosen(catalog.catalog, registration, Config(prompts=str(tmp_path / folder))).component.options
        assert str(tmp_path) not in options["prompts"]
        seen.append(options["prompts"])
    assert seen[0] == seen[1] != seen[2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "decompose.txt").write_text("nobody's")
    assert _chosen(catalog.catalog, registration, Config(prompts="dataset")).component.options["prompts"] == "dataset"


def test_questions_that_a_metric_derives_are_asked_judged_and_scored_again(catalog, tmp_path):
    job = prepared(catalog, metrics=("share", "again"), plan=Plan(limit=2), options={"towers": {"n": "5"}})
    folder = RunFolder.create(tmp_path / "run", job.spec)
    evaluate(job, folder)
    asked = [line.replies.get("again/question") for line in folder.read() if isinstance(line, Replied)]
    assert len([reply for reply in asked if reply is not None]) == 2 * len(job.spec.styles)
    assert all(case.probes[-1].queries[0].texts[0].startswith("One of 5: ") for case in job.cases)
    (ref,) = job.spec.requests
    assert ref.component.name == "again"
    before = json.loads((folder.path / "scores.json").read_text())
    assert judge_folder(folder, catalog.catalog) == 0
    score_folder(folder, catalog.catalog)
    after = json.loads((folder.path / "scores.json").read_text())
    assert [metric["component"]["name"] for metric in after["metrics"]] == ["share", "again"]
    assert after["metrics"] == before["metrics"]
    without = prepared(catalog, metrics=("share",), plan=Plan(limit=2), options={"towers": {"n": "5"}})
    assert without.spec.id != job.spec.id
    assert all(len(case.probes) < len(other.probes) for case, other in zip(without.cases, job.cases, strict=True))
