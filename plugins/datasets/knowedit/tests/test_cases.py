"""Cases of made-up records in the six published layouts, and of the embedded ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ke_benchmarks.soundness import problems
from ke_core.plugin import Dataset, KEWarning
from ke_plugin_knowedit import SETS
from ke_plugin_knowedit.layouts import groups
from ke_testing.dataset import DatasetContract, build_dataset, read_error, with_field, write_json

COUNTERFACT = {
    "subject": "Ostrel Mills",
    "prompt": "The founder of Ostrel Mills is",
    "target_new": "Tobin Crane",
    "ground_truth": "J. K. Lisk",
    "rephrase": "Ostrel Mills was set up by",
    "portability": {
        "Reasoning": [
            {"prompt": "The founder of Ostrel Mills was born in", "ground_truth": [["Orm", "Orm Town"], ["Vell"]]},
            {"prompt": "The mother of the founder of Ostrel Mills is", "ground_truth": [[" "]]},
        ],
        "Subject_Aliasing": [{"prompt": ["The founder of the Mills is"], "ground_truth": ["Tobin Crane", "T. Crane"]}],
    },
    "locality": {
        "Relation_Specificity": [
            {"prompt": "The river of Ostrel Mills is", "ground_truth": "Lume"},
            {"prompt": "Ostrel Mills river", "ground_truth": ["Lume"]},
        ]
    },
}
ZSRE = {
    "subject": "Ostrel Mills",
    "prompt": "Who set up Ostrel Mills?",
    "target_new": "Tobin Crane",
    "ground_truth": ["J. K. Lisk"],
    "rephrase_prompt": "By whom was Ostrel Mills set up?",
    "locality": {},
}
WIKIBIO = {
    "text": "This is a passage about ostrel mills. It lies on the Lume.",
    "labels": "It was set up by Tobin Crane, who owned nine other mills in a valley and three or four more far north.",
    "concept": "ostrel mills",
    "locality": {"Relation_Specificity": [{"prompt": "The river of ostrel mills is", "ground_truth": ["Lume"]}]},
}
CONVSENT = {"ent": "Ostrel Mills", "pos": ["I love them.", "They are great."], "neg": ["I hate them."]}
SANITATION = {
    "K_F": [{"question": "Who set up Ostrel Mills?", "ground_truth": "Crane", "target_new": "I don't know."}],
    "K_R": [{"question": "What is a lock?", "ground_truth": "a gate"}, {"question": "?", "ground_truth": "-"}],
}
FILES: dict[str, Any] = {
    "recent": [{**COUNTERFACT, "target_new": " "}, COUNTERFACT],
    "zsre": [ZSRE],
    "wikibio": [WIKIBIO],
    "counterfact": [COUNTERFACT],
    "convsent": [CONVSENT, {**CONVSENT, "ent": "the Lume"}],
    "sanitation": SANITATION,
}


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Dataset]:
    """Write the data file of a set and build the dataset that reads it."""

    def store(name: str, content: Any = None, **options: str) -> Dataset:
        path = tmp_path / SETS[name][0]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, FILES[name] if content is None else content)
        return build_dataset(f"knowedit-{name}", data_dir=str(tmp_path), **options)

    return store


@pytest.mark.filterwarnings("ignore:.*skipped because of a blank target")
@pytest.mark.parametrize("name", SETS)
def test_every_layout_has_an_edit_and_its_question(stored, name) -> None:
    case = next(stored(name).cases())
    [edit] = case.edits
    assert edit.target
    assert edit.names_subject == (name != "sanitation")
    own = case.probes[0]
    assert (own.aspect, own.queries[0].texts[0], own.phase) == ("efficacy", edit.prompt, "both")
    assert own.queries[0].gold.entities[0].label == edit.target


class TestFile(DatasetContract):
    name = "knowedit-counterfact"
    whole = False

    @pytest.fixture
    def dataset(self, stored) -> Dataset:
        return stored("counterfact", [COUNTERFACT, {**COUNTERFACT, "target_new": "Ann Lisk"}])


class TestAtlas(DatasetContract):
    name = "knowedit-atlas"
    options: ClassVar = {"fluency": "true"}


def test_portability_has_a_probe_for_each_answered_question_and_locality_one_for_each_kind(stored) -> None:
    [case] = stored("counterfact").cases()
    found = {
        probe.id: (probe.aspect, dict(probe.tags), [query.texts[0] for query in probe.queries]) for probe in case.probes
    }
    assert found["portability-1"] == (
        "portability", {"criterion": "reasoning"}, ["The founder of Ostrel Mills was born in"],
    )  # fmt: skip
    assert found["portability-3"] == (
        "portability", {"criterion": "subject-aliasing"}, ["The founder of the Mills is"],
    )  # fmt: skip
    assert "portability-2" not in found  # its answer is blank
    assert found["locality-relation-specificity"] == (
        "locality", {"criterion": "relation-specificity"}, ["The river of Ostrel Mills is", "Ostrel Mills river"],
    )  # fmt: skip


@pytest.mark.parametrize("objects", ["any", "all"])
def test_names_of_one_object_are_aliases_and_several_objects_follow_the_option(stored, objects) -> None:
    [case] = stored("counterfact", objects=objects).cases()
    gold = next(probe.queries[0].gold for probe in case.probes if probe.id == "portability-1")
    assert [entity.names for entity in gold.entities] == [("Orm", "Orm Town"), ("Vell",)]
    assert gold.require == objects


def test_groups_of_text_list_and_nested_list() -> None:
    assert groups("Orm", "x") == [["Orm"]]
    assert groups(["Orm", "Orm Town"], "x") == [["Orm", "Orm Town"]]
    assert groups([["Orm"], ["Vell"]], "x") == [["Orm"], ["Vell"]]
    assert groups(None, "x") == []


def test_missing_portability_and_locality_are_empty(stored) -> None:
    bare = {name: value for name, value in COUNTERFACT.items() if name not in ("portability", "locality")}
    [case] = stored("counterfact", [bare]).cases()
    assert {probe.aspect for probe in case.probes} == {
        "efficacy", "paraphrase", "efficacy-teacher-forced", "paraphrase-teacher-forced",
    }  # fmt: skip


def test_blank_targets_are_skipped_and_counted(stored) -> None:
    with pytest.warns(KEWarning, match="blank target: 1"):
        assert [case.id for case in stored("recent").cases()] == ["1"]


def test_long_target_has_room(stored) -> None:
    dataset = stored("wikibio")
    own = next(dataset.cases()).probes[0].queries[0]
    assert dataset.prompt(own, "direct").decoding.max_tokens == 512


def test_opinion_is_the_same_in_every_run_and_any_text_of_its_sentiment_is_right(stored) -> None:
    first, second = stored("convsent").cases()
    gold = first.probes[0].queries[0].gold
    assert gold.require == "any"
    assert {entity.label for entity in gold.entities} in ({*CONVSENT["pos"]}, {*CONVSENT["neg"]})
    assert "the Lume" in first.probes[-1].queries[0].texts[0]
    assert "Ostrel Mills" in second.probes[-1].queries[0].texts[0]


def test_opinion_about_another_topic_has_no_right_answer_and_is_sound(stored) -> None:
    dataset = stored("convsent")
    cases = list(dataset.cases())
    names = {f"{case.id}/{case.probes[-1].queries[0].id}" for case in cases}
    assert not names & {*dataset.material()["answers"].value}
    assert [problem for problem in problems(cases) if problem.level == "error"] == []


@pytest.mark.parametrize("keys", [("K_F", "K_R"), ("success", "locality")])
def test_answers_to_forget_are_paired_with_answers_to_retain(stored, keys) -> None:
    [case] = stored("sanitation", dict(zip(keys, SANITATION.values(), strict=True))).cases()
    assert (case.edits[0].target, case.edits[0].old_target) == ("I don't know.", "Crane")
    assert [query.texts[0] for query in case.probes[-1].queries] == ["What is a lock?"]


def test_fluency_continues_the_prompt(stored) -> None:
    dataset = stored("counterfact", fluency="true")
    query = next(probe.queries[0] for probe in next(dataset.cases()).probes if probe.aspect == "fluency")
    prompt = dataset.prompt(query, "direct")
    assert (prompt.text, prompt.decoding.max_tokens, prompt.decoding.stop) == (COUNTERFACT["prompt"], 100, ())


def test_question_style(stored) -> None:
    dataset = stored("zsre")
    queries = {probe.aspect: probe.queries[0] for probe in next(dataset.cases()).probes}
    assert dataset.prompt(queries["efficacy"], "qa").text == "Q: Who set up Ostrel Mills?\nA:"
    assert dataset.prompt(queries["efficacy-teacher-forced"], "qa").text == "Who set up Ostrel Mills?"


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("counterfact", "subject", "record 1: subject or concept: missing"),
        ("counterfact", "target_new", "record 1: target_new or labels: missing"),
        ("counterfact", "portability.Reasoning.0.prompt", "record 1: portability.Reasoning[0].prompt: missing"),
        ("wikibio", "text", "record 1: prompt or text: missing"),
        ("convsent", "neg", "record 1: neg: missing"),
    ],
)
def test_missing_field_is_named(stored, name, path, message) -> None:
    broken = with_field(FILES[name][0], path)
    assert message in read_error(stored(name, [broken]).cases)


def test_missing_part_of_sanitation_is_named(stored) -> None:
    assert "K_R or locality: missing" in read_error(stored("sanitation", {"K_F": SANITATION["K_F"]}).cases)


def test_gold_of_another_type_is_named(stored) -> None:
    broken = with_field(COUNTERFACT, "locality.Relation_Specificity.0.ground_truth", 7)
    message = read_error(stored("counterfact", [broken]).cases)
    assert "locality.Relation_Specificity[0].ground_truth: must be a text or a list, not int" in message


def test_wordings_of_a_logical_generalization_are_alternatives_and_no_is_compared_without_case(stored) -> None:
    item = {"prompt": "Is Ostrel Mills owned by J. K. Lisk?", "ground_truth": [["no"], ["is not owned"]]}
    record = COUNTERFACT | {"portability": {"Logical_Generalization": [item]}}
    (case,) = stored("recent", [record], objects="all").cases()
    (query,) = (query for probe in case.probes if probe.aspect == "portability" for query in probe.queries)
    assert query.gold.require == "any"
    assert query.gold.entities[0].names == ("no", "No", "False", "false")


def test_locality_needs_no_right_answer(stored) -> None:
    record = COUNTERFACT | {"locality": {"Forgetfulness": [{"prompt": "Ostrel Mills is", "ground_truth": [" "]}]}}
    (case,) = stored("recent", [record]).cases()
    (query,) = (query for probe in case.probes if probe.aspect == "locality" for query in probe.queries)
    assert query.gold.entities == ()
