"""The documentation matches the code: hooks are documented with their arguments, and examples run."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import click
import pytest
from attrs import fields
from click.testing import CliRunner

from ke_core.app import installed_catalog
from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import empty_manager
from ke_core.plugins.options import configure, describe
from ke_core.spec import hookspecs
from ke_core.spec.errors import NoLikelihood
from ke_core.spec.requests import Generate, Question, Score
from ke_core.spec.results import CaseRecord, Outcome
from ke_core.spec.specs import ModelRequest
from ke_plugin_reproduce.sweep import cells_of
from ke_plugin_reproduce.sweep_file import SweepFile, read_sweep
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import EchoModel, make_session
from ke_testing.judge import JudgeContract

pytestmark = pytest.mark.docs

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("ke_")}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def catalog() -> Catalog:
    plugins = empty_manager()
    for path in EXAMPLES:
        plugins.register(load(path), path.stem)
    return read_catalog(plugins)


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_documented_with_its_arguments(name: str) -> None:
    signature = f"{name}({', '.join(inspect.signature(HOOKS[name]).parameters)})"
    assert f"\n## {signature}\n" in (DOCS / "hooks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_has_an_example_that_implements_it(name: str) -> None:
    section = (DOCS / "hooks.md").read_text(encoding="utf-8").split(f"\n## {name}(")[1].split("\n## ")[0]
    named = re.findall(r"Example:\s\[`\S+`\]\(examples/(\w+\.py)\)", section)
    assert len(named) == 1
    assert f"\ndef {name}(" in (DOCS / "examples" / named[0]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HOOKS)
def test_every_argument_of_a_hook_is_explained(name: str) -> None:
    hook = HOOKS[name]
    for argument in inspect.signature(hook).parameters:
        assert f":param {argument}:" in (hook.__doc__ or "")
    if inspect.signature(hook).return_annotation not in ("None", None):
        assert ":return:" in (hook.__doc__ or "")


def test_examples_register_one_component_of_each_kind(catalog: Catalog) -> None:
    assert {kind: catalog.names(kind) for kind in catalog.registrations} == {
        "editor": ["recall"],
        "dataset": ["teams"],
        "metric": ["accuracy"],
        "judge": ["first-word"],
        "model": ["reverse"],
        "encoder": ["letters"],
    }
    assert [option.help for option in describe(catalog.spec("editor", "recall"))] == [
        "ignore case when matching the subject"
    ]


def test_example_of_a_composed_name_uses_the_options_of_its_editor(catalog: Catalog, tmp_path: Path) -> None:
    registration = catalog.registration("editor", "recall+last")
    assert (registration.spec.prefix, [part.name for part in registration.parts]) == ("recall", ["composed"])
    editor = registration.spec.build(configure(registration.spec, {"ignore_case": "false"}))
    with editor.edit(make_session(EchoModel(), root=tmp_path), (MOVE_TOWER, MOVE_GATE)) as edited:
        assert list(edited.edits) == [MOVE_GATE.id]


def test_example_editor_judge_and_metric_score_the_example_dataset(catalog: Catalog, tmp_path: Path) -> None:
    dataset, editor, judge, metric = (
        (spec := catalog.spec(kind, catalog.names(kind)[0])).build(configure(spec))
        for kind in ("dataset", "editor", "judge", "metric")
    )
    session = make_session(EchoModel(), root=tmp_path)
    values = []
    for case in dataset.cases():
        queries = [query for probe in case.probes for query in probe.queries]
        asks = [
            Question(
                id=query.id,
                case=case.id,
                query=query.id,
                texts=query.texts,
                form=query.form,
                prompt=dataset.prompt(query, "zero-shot"),
            )
            for query in queries
        ]
        with editor.edit(session, case.edits) as edited:
            replies = edited.answer(asks)
        judgments = judge.judge(None, [_item(q, r) for q, r in zip(queries, replies, strict=True)])
        outcomes = {
            ("after", "zero-shot", query.id): Outcome(reply=reply, judgment=judgment)
            for query, reply, judgment in zip(queries, replies, judgments, strict=True)
        }
        values += metric.values(CaseRecord(case=case, batch="0", outcomes=outcomes))
    assert [value.value for value in values] == [1.0] * 6


def test_example_judge_rejects_one_of_two_required_names(catalog: Catalog) -> None:
    spec = catalog.spec("judge", "first-word")
    JudgeContract().test_one_of_two_required_names_is_never_right(spec.build(configure(spec)), None)


def test_example_model_answers(catalog: Catalog) -> None:
    model = catalog.spec("model", "reverse").build(ModelRequest(id="x"))
    assert model.generate([Generate(prompt="one two three", max_tokens=2)])[0].text == "three two"
    with pytest.raises(NoLikelihood, match="log-probabilities"):
        model.score([Score(prompt="a", continuations=("b",))])


def test_example_command_runs() -> None:
    group = click.Group("ke")
    load(DOCS / "examples/command.py").ke_commands(group)
    assert CliRunner().invoke(group, ["hello", "world"]).output == "hello world\n"


def test_example_comparison_finds_the_published_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ke_plugin_memit")
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    found = load(DOCS / "examples/compare_with_reference.py").main()
    assert list(found) == [1, 2]
    assert max(found.values()) < 1e-12


def test_the_documented_sweep_has_the_documented_number_of_cells(tmp_path: Path) -> None:
    for name in ("memit", "mello", "none", "atlas"):
        pytest.importorskip(f"ke_plugin_{name}")
    page = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "layers.toml").write_text(block)
    cells = cells_of(read_sweep(tmp_path / "layers.toml"), installed_catalog(), tmp_path)
    assert f"This makes {len(cells)} cells:" in page
    assert len({cell.folder for cell in cells}) == len({cell.name for cell in cells}) == len(cells)


def test_every_sweep_key_is_documented() -> None:
    table = (DOCS / "sweeps.md").read_text(encoding="utf-8").split("## The file")[1].split("\n\nOptions go")[0]
    for key in fields(SweepFile):
        assert re.search(rf"[`\[]{key.name}[`.\]]", table), key.name


def _item(query: object, reply: object) -> object:
    from ke_core.plugin import Item

    return Item(query=query, reply=reply)  # type: ignore[arg-type]
