"""Thresholds (published, calibrated, a number), options, and prompts."""

from __future__ import annotations

import numpy as np
import pytest

from ke_core.plugin import BadConfig, Material
from ke_plugin_gwalk import GwalkConfig, ke_editors
from ke_plugin_gwalk.editor import Gwalk
from ke_plugin_gwalk.threshold import fixed, of_entities, of_relations
from ke_testing.fakes import ScriptedModel, WordEncoder, make_session

NUMBERS = [f"word{n}" for n in range(10)]
PAIRS = "\n".join(f"{n} thing | {n} name | {{}} has {n} as" for n in NUMBERS)


@pytest.mark.parametrize("threshold", ["paper", "0.845"])
@pytest.mark.parametrize("encoder", ["minilm-l6", "facebook/contriever", "some/folder"])
def test_published_threshold_is_refused_with_another_encoder(threshold, encoder, edits) -> None:
    editor = Gwalk(config=GwalkConfig(threshold=threshold, encoder=encoder))
    session = make_session(ScriptedModel([]))
    with pytest.raises(BadConfig, match=r"0\.845 is for the encoder contriever-msmarco") as refused:
        editor.check(session, [])
    assert "gwalk.threshold=calibrated" in (refused.value.hint or "")
    with pytest.raises(BadConfig):
        editor.edit(session, edits)


@pytest.mark.parametrize("encoder", ["facebook/contriever-msmarco", "contriever-msmarco", "models/contriever-msmarco"])
def test_published_threshold_is_accepted_with_its_encoder(encoder) -> None:
    assert fixed(GwalkConfig(encoder=encoder)) == 0.845


def test_published_threshold_is_refused_with_unit_vectors(edits) -> None:
    editor = Gwalk(config=GwalkConfig(encoder="models/contriever-msmarco"))
    with pytest.raises(BadConfig, match=r"0\.845 is for the encoder contriever-msmarco"):
        editor.edit(make_session(ScriptedModel([]), encoder=WordEncoder()), edits)


def test_number_is_used_and_recorded(edits) -> None:
    with Gwalk(config=GwalkConfig(threshold="0.7")).edit(make_session(ScriptedModel([])), edits) as edited:
        assert edited.details["threshold"] == 0.7
        assert (edited.details["facts"], edited.details["encoder"]) == (2, "fake:words-256")
        assert "calibration" not in edited.details


@pytest.mark.parametrize("text", ["", "high", "nan", "inf", "0,7"])
def test_invalid_threshold_is_refused(text) -> None:
    with pytest.raises(ValueError, match="paper, calibrated or a number"):
        GwalkConfig(threshold=text)


def test_calibration_runs_once_and_is_recorded(edits) -> None:
    class Counting(WordEncoder):
        calls = 0

        def embed(self, texts):
            Counting.calls += "architect" in texts
            return super().embed(texts)

    editor = Gwalk(config=GwalkConfig(threshold="calibrated"))
    session = make_session(ScriptedModel([]), encoder=Counting())
    with editor.edit(session, edits) as one, editor.edit(session, []) as two:
        assert one.details["threshold"] == two.details["threshold"]
        assert one.details["calibration"]["pairs"] == 52
        assert 0 <= one.details["calibration"]["balanced_accuracy"] <= 1
    assert Counting.calls == 1


@pytest.mark.parametrize("released", [False, True])
def test_calibrated_threshold_separates_relations(released) -> None:
    found = of_relations(WordEncoder(), PAIRS, released=released)
    assert (found.accuracy, found.pairs) == (1.0, 10)
    assert 0 < found.threshold < 1
    assert found == of_relations(WordEncoder(), PAIRS, released=released)


def test_accuracy_is_leave_one_out() -> None:
    """Own scores are 0.9 (the first: 0.5), all others 0.4, so 0.45 separates all; without the first it is 0.65."""

    class Given:
        id = "given"

        def embed(self, texts):
            rows = np.zeros((len(texts), 11), dtype=np.float32)
            for row, text in zip(rows, texts, strict=True):
                phrase, at = text.endswith("thing"), NUMBERS.index(next(n for n in NUMBERS if n in text))
                row[at], row[10] = (0.1 if at == 0 else 0.5, 0.4) if phrase else (1, 1)
            return rows

    found = of_relations(Given(), PAIRS, released=False)
    assert found.threshold == pytest.approx(0.45)
    assert found.accuracy == pytest.approx((0.9 + 1) / 2)


def test_threshold_scales_with_the_encoder() -> None:
    class Longer(WordEncoder):
        def embed(self, texts):
            return 10 * super().embed(texts)

    plain, longer = of_relations(WordEncoder(), PAIRS, released=False), of_relations(Longer(), PAIRS, released=False)
    assert longer.threshold == pytest.approx(100 * plain.threshold, rel=0.01)


def test_encoder_without_information_gets_a_threshold() -> None:
    class Blind:
        id = "blind"

        def embed(self, texts):
            return np.ones((len(texts), 2), dtype=np.float32)

    found = of_relations(Blind(), PAIRS, released=False)
    assert (found.threshold, found.accuracy) == (2.0, 0.5)


@pytest.mark.parametrize(
    "line", ["only words", "a | b", "a | b | c", "a | b | {} c {}", " | b | {} c", "a | b | {} c | d"]
)
def test_malformed_line_is_named(line) -> None:
    with pytest.raises(BadConfig, match="line 11"):
        of_relations(WordEncoder(), f"{PAIRS}\n{line}", released=False)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(BadConfig, match=r"pairs\.txt has only 7 lines"):
        of_relations(WordEncoder(), "\n".join(PAIRS.splitlines()[:7]), released=False)


@pytest.mark.parametrize("line", ["only one", "a | b | c", " | b"])
def test_malformed_line_of_names_is_named(line) -> None:
    names = "\n".join(f"the {n} | {n} thing" for n in NUMBERS)
    assert of_entities(WordEncoder(), names).accuracy == 1.0
    with pytest.raises(BadConfig, match=r"names\.txt, line 11"):
        of_entities(WordEncoder(), f"{names}\n{line}")


@pytest.mark.parametrize("profile", ["default", "algorithm-1"])
def test_only_the_printed_profile_calibrates_entities(edits, profile) -> None:
    config = GwalkConfig(threshold="calibrated", profile=profile)
    with Gwalk(config=config).edit(make_session(ScriptedModel([]), encoder=WordEncoder()), edits) as edited:
        found = edited.details
    assert ("entity_threshold" in found) == ("entity_calibration" in found) == (profile == "algorithm-1")


def test_default_options_use_no_gold_material() -> None:
    (spec,) = ke_editors()
    assert (spec.config().profile, spec.config().aliases) == ("default", "none")
    assert spec.oracle(GwalkConfig()) == ()
    assert spec.oracle(GwalkConfig(aliases="oracle")) == ("aliases",)
    assert spec.masks


def test_aliases_are_used_only_with_aliases_oracle(edits) -> None:
    material = {"aliases": Material(value={"Boland": ("Old Boland",)}, oracle=True)}
    session = make_session(ScriptedModel([]), material=material)
    for aliases, held in (("none", 0), ("oracle", 5)):
        with Gwalk(config=GwalkConfig(threshold="0.5", aliases=aliases)).edit(session, edits) as edited:
            assert len(edited.walk.graph.entities) == held


# --- prompts ---------------------------------------------------------------------------------------------


def test_prompts_are_read_from_a_folder(tmp_path, ask, edits) -> None:
    for name in ("subject", "relations", "question", "walk"):
        (tmp_path / f"{name}.txt").write_text(f"mine: {name}\n", encoding="utf-8")
    model = ScriptedModel([" [Mira Toll]", "(colour)->answer", " Which?", " It is {}. red"])
    config = GwalkConfig(threshold="0.6", prompts=str(tmp_path))
    with Gwalk(config=config).edit(make_session(model), edits) as edited:
        edited.answer([ask])
    assert [prompt.split("\n")[0] for prompt in model.prompts] == [
        f"mine: {name}" for name in ("subject", "relations", "question", "walk")
    ]
    (tmp_path / "walk.txt").unlink()
    with pytest.raises(BadConfig, match=r"walk\.txt"):
        Gwalk(config=config).edit(make_session(model), edits)


def test_worked_examples_can_be_parsed() -> None:
    from ke_core.plugin import Generated, prompt_text
    from ke_plugin_gwalk import reading

    def examples(name: str, label: str) -> list[Generated]:
        text = prompt_text("ke_plugin_gwalk", f"{name}.txt", "own", option="gwalk.prompts")
        lines = [line.removeprefix(label) for line in text.splitlines() if line.startswith(label)]
        return [Generated(text=line, finish="stop") for line in lines]

    subjects = examples("subject", "Subject:")
    assert len(subjects) == 4
    assert all(reading.bracketed(line) == reading.named(line) != "" for line in subjects)
    paths = [Generated(text=line.text.partition("->")[2], finish="stop") for line in examples("relations", "Path:")]
    assert [len(reading.relations(path, 4)) for path in paths] == [2, 2, 1, 4]
    answers = examples("walk", "Generated answer:")
    assert all(reading.after_slot(line) == reading.after_first_period(line) for line in answers)
    assert len(answers) == 9
    assert len(examples("question", "Question:")) == 4
