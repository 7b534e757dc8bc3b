"""Files of cases: search, prompts, default metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from ke_benchmarks import CaseHeader, read_cases, write_cases
from ke_benchmarks.soundness import problems
from ke_core.app import configure
from ke_core.plugin import EFFICACY, BadConfig, BadData, Dataset, Entity, FreeForm, Gold, distinct
from ke_plugin_cases.dataset import DEMONSTRATIONS, SHOWN
from ke_testing.dataset import DatasetContract
from ke_testing.toy import Toy

Make = Callable[..., Dataset]
Store = Callable[..., Path]


class TestCases(DatasetContract):
    name = "cases"

    @pytest.fixture
    def dataset(self, make: Callable[..., Dataset], stored: Callable[..., Path]) -> Dataset:
        return make(file=str(stored(license="CC0-1.0", source="made up", cases=2)))


class TestMasked(DatasetContract):
    name = "cases"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, make: Callable[..., Dataset], stored: Callable[..., Path]) -> Dataset:
        return make(file=str(stored()), mask="true")


def test_cases_are_read_from_the_file(make: Make, stored: Store) -> None:
    assert list(make(file=str(stored())).cases()) == list(Toy().cases())


def test_missing_option_file_has_instructions(make: Make) -> None:
    with pytest.raises(BadConfig, match="no file given") as wrong:
        make()
    assert "-o cases.file=FILE" in wrong.value.hint


def test_file_is_searched_in_the_data_folders(
    make: Make, stored: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    stored("elsewhere/toy.jsonl")
    assert len(list(make(file="runs/of/old/toy.jsonl", data_dir=str(tmp_path / "elsewhere")).cases())) == 2
    with pytest.raises(BadData, match=r"toy\.jsonl of cases is missing"):
        make(file="toy.jsonl")
    monkeypatch.setenv("KE_DATA_DIR", str(tmp_path / "elsewhere"))
    assert len(list(make(file="toy.jsonl").cases())) == 2


def test_invalid_line_is_named(make: Make, by_hand: Path) -> None:
    by_hand.write_text(by_hand.read_text() + '{"id": "2"}\n')
    with pytest.raises(BadData, match=r"keepers\.jsonl, line 3 \(case 2\): probes: missing"):
        list(make(file=str(by_hand)).cases())


def test_info_has_header_and_checksum_of_the_file(make: Make, stored: Store, by_hand: Path) -> None:
    about = make(file=str(stored(title="Toy", license="CC0-1.0", source="here", cite="nobody", cases=2))).info()
    assert (about.title, about.license, about.source, about.cite) == ("Toy", "CC0-1.0", "here", "nobody")
    assert about.published == {"cases": 2}
    short = make(file=str(by_hand)).info()
    assert (short.title, short.license, short.source) == ("keepers", "not stated in the file", "keepers.jsonl")
    assert short.published == {}
    assert len({about.sha256, short.sha256, ""}) == 3


@pytest.mark.parametrize(
    ("header", "judge", "metrics"),
    [
        ({}, "alias", ("multi-hop",)),
        ({"aspects": ("efficacy",)}, "alias", ("multi-hop",)),
        ({"aspects": ("efficacy", "instance", "multi-hop"), "metrics": ("multi-hop",)}, "alias", ("multi-hop",)),
        ({"aspects": ("efficacy", "paraphrase", "locality"), "metrics": ("multi-hop",)}, "alias", ("classic",)),
        ({"aspects": ("efficacy", "multi-hop", "efficacy-probability")}, "alias", ("multi-hop", "classic")),
        ({"aspects": ("relation",), "metrics": ("ripple",), "judge": "names"}, "names", ("ripple",)),
    ],
)
def test_default_metrics_follow_from_the_header(
    spec: Any, stored: Store, header: dict[str, Any], judge: str, metrics: tuple[str, ...]
) -> None:
    named = spec.for_config(configure(spec, {"file": str(stored(**header))}))
    assert (named.judge, named.metrics) == (judge, metrics)


def test_prompts_of_clozes_and_questions(make: Make, stored: Store) -> None:
    dataset = make(file=str(stored()))
    question = next(Toy().cases()).probes[0].queries[0]
    asked = dataset.prompt(question, "direct")
    stated = dataset.prompt(evolve(question, form="cloze", texts=("The tower stands in",)), "direct")
    assert asked is not None
    assert stated is not None
    assert asked.text == f"{DEMONSTRATIONS}Q: {question.texts[0]}\nA:"
    assert stated.text == "The tower stands in"
    assert dataset.prompt(question, "cot") is None


def test_demonstrations_have_short_answers_without_names() -> None:
    answers = [answer for _question, answer in SHOWN]
    assert all(answer == answer.casefold() for answer in answers)
    assert DEMONSTRATIONS.count("\n") == 2 * len(SHOWN)


def test_mask_hides_contradicting_edits(make: Make, stored: Store) -> None:
    path, (case, other) = str(stored()), tuple(Toy().cases())
    bank = {edit.id: edit for edit in distinct((*case.edits, *other.edits))}
    assert case.edits[0].before is not None
    back = evolve(case.edits[0], id="back", after=case.edits[0].before)
    assert make(file=path, mask="true").hides(case, {**bank, "back": back}, edited=True) == {"back"}
    assert make(file=path).hides(case, {**bank, "back": back}, edited=True) == frozenset()


def test_material_contains_oracle_tables(make: Make, stored: Store) -> None:
    material = make(file=str(stored())).material()
    assert material["answers"].value["1/multi-hop-1"] == "Italy"
    assert all(one.oracle for one in material.values())


def test_every_case_has_an_efficacy_probe(make: Make, stored: Store) -> None:
    for case in make(file=str(stored())).cases():
        assert EFFICACY in {probe.aspect for probe in case.probes}


FREE_FORM = {
    "id": "bees",
    "edits": [
        {
            "id": "bees",
            "statement": "How do bees find flowers? By color.\nBy scent.",
            "free_form": {"prompt": "How do bees find flowers?", "target": "By color.\nBy scent."},
        }
    ],
    "probes": [
        {
            "id": "efficacy",
            "aspect": "efficacy",
            "edits": ["bees"],
            "queries": [
                {
                    "id": "whole",
                    "texts": ["How do bees find flowers?"],
                    "edit": "bees",
                    "tags": {"language": "en"},
                    "gold": {"entities": [{"label": "By color.\nBy scent."}]},
                },
                {
                    "id": "which",
                    "texts": ["The bee saw the flower because _ was bright."],
                    "contexts": ["The bee saw the flower because the bee", "The bee saw the flower because the flower"],
                    "continuations": [" was bright.", " was bright."],
                    "gold": {"entities": [{"label": "The bee saw the flower because the flower"}]},
                },
                {"id": "text", "form": "cloze", "texts": [""], "continuations": ["A whole text.\n"], "gold": {}},
            ],
        }
    ],
}


def test_free_form_edits_contexts_whole_texts_and_tags(make: Make, by_hand: Path, tmp_path: Path) -> None:
    by_hand.write_text(f"{by_hand.read_text().splitlines()[0]}\n{json.dumps(FREE_FORM)}\n")
    dataset = make(file=str(by_hand))
    (case,) = dataset.cases()
    assert case.edits[0].free_form == FreeForm(prompt="How do bees find flowers?", target="By color.\nBy scent.")
    whole, which, text = case.probes[0].queries
    assert whole.tags == {"language": "en"}
    assert which.options == tuple(FREE_FORM["probes"][0]["queries"][1]["contexts"])
    assert text.is_whole_text
    prompt = dataset.prompt(text, "direct")
    assert prompt is not None
    assert prompt.text == ""
    again = tmp_path / "again.jsonl"
    write_cases(again, CaseHeader(name="again"), [case])
    assert list(read_cases(again)) == [case]
    assert problems([case]) == ()


def test_multi_line_answers_are_not_stopped_at_line_ends(make: Make, stored: Store) -> None:
    dataset = make(file=str(stored()))
    question = next(Toy().cases()).probes[0].queries[0]
    lines = evolve(question, gold=Gold(entities=(Entity(label="one\ntwo"),)))
    prompt = dataset.prompt(lines, "direct")
    assert prompt is not None
    assert (prompt.decoding.max_tokens, prompt.decoding.stop) == (512, ("\nQ:",))
    assert prompt.parse(" one\ntwo\nQ: What else?") == ("one\ntwo", True)
    stated = dataset.prompt(evolve(lines, form="cloze"), "direct")
    assert stated is not None
    assert (stated.decoding.stop, stated.parse("one\ntwo\n\nthree")) == ((), ("one\ntwo\n\nthree", True))


def test_token_limit_depends_on_the_answer(make: Make, stored: Store) -> None:
    dataset = make(file=str(stored()))
    question = next(Toy().cases()).probes[0].queries[0]
    long = evolve(question, gold=Gold(entities=(Entity(label="word " * 30),)))
    prompt, short = dataset.prompt(long, "direct"), dataset.prompt(question, "direct")
    assert prompt is not None
    assert short is not None
    assert (prompt.decoding.max_tokens, prompt.decoding.stop, prompt.several_lines) == (512, ("\n",), False)
    assert (short.decoding.max_tokens, short.decoding.stop, short.several_lines) == (32, ("\n",), False)
    before = evolve(question, pre_edit=Gold(entities=(Entity(label="word " * 30),)))
    assert dataset.prompt(before, "direct") == prompt
