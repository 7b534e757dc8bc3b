"""``ke trace`` on a tiny model: output, files, errors and resuming."""

import json
import sys

import pytest
from attrs import frozen

import ke_plugin_hf
from ke_core.plugin import ArtifactStore, ModelSpec, hookimpl
from ke_plugin_hf.testing import tiny_model
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import EchoModel
from ke_weights import hookimpls
from ke_weights.cli.trace import CommaList
from ke_weights.trace import tracer
from ke_weights.trace.suggestion import suggested

pytestmark = pytest.mark.integration

PROMPTS = (
    ("France", "The capital of France is"),
    ("Apple", "Apple was created in the country of"),
    ("Angela Merkel", "Angela Merkel is a citizen of"),
    ("Ellie Kemper", "Ellie Kemper is married to"),
)
TRACE = (
    "trace",
    "--model",
    "tiny:llama",
    "--facts",
    "facts.json",
    "--filter",
    "published",
    "--samples",
    "2",
    "--out",
    "t",
)


class Tiny:
    """Models with random weights, and one that is not in this process."""

    @hookimpl
    def ke_models(self):
        def build(request):
            return EchoModel() if request.id == "echo" else tiny_model(request.id)

        return [ModelSpec(name="tiny", summary="tiny", config=Empty, build=build)]


@frozen(kw_only=True)
class Empty:
    pass


@pytest.fixture
def plugins():
    return plugins_of(hookimpls, ke_plugin_hf, Tiny())


@pytest.fixture(autouse=True)
def _no_pictures(request, monkeypatch):
    """Hide matplotlib from tests without plots: plotting is slow."""
    if not request.node.name.endswith(("_plots", "_svg_and_png")):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


@pytest.fixture
def facts(ke, tmp_path):
    """Three facts that the model knows, and one that it answers differently."""
    model = tiny_model("llama")
    raw = []
    for number, (subject, prompt) in enumerate(PROMPTS):
        said = model.decode([int(model.module(**model.tokenizer(prompt, return_tensors="pt")).logits[0, -1].argmax())])
        raw.append({"known_id": number, "prompt": prompt, "subject": subject, "attribute": said.strip() or "?"})
    raw[1]["attribute"] = "Nowhere"
    (tmp_path / "facts.json").write_text(json.dumps(raw))
    return raw


def lines(folder):
    return [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]


def test_output_has_heat_maps_peaks_and_skipped_facts(ke, facts, tmp_path):
    status, out, err = ke(*TRACE)
    assert status == 0, err
    flat = " ".join(out.split())
    assert "3 facts of facts.json traced, 1 skipped (1 answered otherwise)" in flat
    assert "noise s3 (sigma " in flat
    assert "2 samples" in flat
    for words in (
        "states of single layers restored",
        "MLP outputs restored",
        "attention outputs restored",
        "severed-mlp",
    ):
        assert words in flat
    for role in ("first subject token", "last subject token", "next token", "last token"):
        assert role in out
    assert "not traced (3 facts, fewer than 50)" in flat
    assert "saved in t" in err


def test_trace_file_is_reproducible(ke, facts, tmp_path):
    assert ke(*TRACE)[0] == 0
    raw = json.loads((tmp_path / "t/trace.json").read_text())
    model = tiny_model("llama")
    model.state()
    assert raw["spec"]["model"]["digest"] == model.digest
    assert raw["spec"]["settings"] == {
        "kinds": ["states", "mlp", "attention"], "sever": ["mlp"], "tokens": "all", "filter": "published",
        "noise": "s3", "samples": 2, "window": 10, "seed": 1, "exact": False,
    }  # fmt: skip
    assert raw["spec"]["attention"] == "sdpa"
    assert raw["sigma"] > 0
    assert raw["skipped"] == {"answered otherwise": 1}
    assert raw["exact"] is False
    line = raw["average_indirect_effect"]["states"]["last subject"]
    assert (len(line["effect"]), line["count"]) == (4, 3)
    records = lines(tmp_path / "t")
    assert [record["correct_prediction"] for record in records] == [True, False, True, True]
    assert records[1]["low_score"] is None
    assert len(records[0]["scores"]["severed-mlp"]) == len(records[0]["input_ids"]) == len(records[0]["input_tokens"])


def test_its_layers_are_kept_for_editors(ke, facts, tmp_path):
    assert ke(*TRACE)[0] == 0
    raw = json.loads((tmp_path / "t/trace.json").read_text())
    found = suggested(ArtifactStore(tmp_path / "cache/artifacts"), raw["spec"]["model"]["digest"])
    assert list(found.memit_layers) == raw["suggestion"]["memit_layers"]
    assert found.rome_layer == raw["suggestion"]["rome_layer"]


def test_without_the_curves_it_needs_no_layers_are_suggested(ke, facts):
    status, out, _err = ke(*TRACE, "--kinds", "states", "--sever", "none", "--tokens", "subject-last")
    assert status == 0
    assert "no suggested layers: they need --kinds states,mlp and --sever mlp" in out


def test_interrupted_trace_resumes_with_the_same_result(ke, facts, tmp_path, monkeypatch):
    assert ke(*TRACE)[0] == 0
    (tmp_path / "t").rename(tmp_path / "whole")
    once = tracer.Tracer.trace
    seen = []

    def until_the_third(self, fact):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(fact.id)
        return once(self, fact)

    monkeypatch.setattr(tracer.Tracer, "trace", until_the_third)
    assert ke(*TRACE)[0] == 130
    assert len(lines(tmp_path / "t")) == 2
    with (tmp_path / "t/facts.jsonl").open("a") as stream:
        stream.write('{"known_id": "2", "torn')
    monkeypatch.setattr(tracer.Tracer, "trace", lambda self, fact: seen.append(fact.id) or once(self, fact))
    assert ke(*TRACE)[0] == 0
    assert seen == ["0", "1", "2", "3"]
    for name in ("facts.jsonl", "trace.json"):
        assert (tmp_path / "t" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_limit_counts_known_facts_and_can_be_raised(ke, facts, tmp_path):
    assert ke(*TRACE, "--limit", "2")[0] == 0
    assert [record["known_id"] for record in lines(tmp_path / "t")] == ["0", "1", "2"]
    assert ke(*TRACE)[0] == 0
    assert json.loads((tmp_path / "t/trace.json").read_text())["traced"] == 3
    assert ke(*TRACE, "--limit", "1")[0] == 0
    assert json.loads((tmp_path / "t/trace.json").read_text())["traced"] == 1
    assert len(lines(tmp_path / "t")) == 4


def test_other_options_in_the_same_folder_are_refused(ke, facts):
    assert ke(*TRACE)[0] == 0
    status, _out, err = ke(*TRACE, "--seed", "2")
    assert status == 2
    assert "t contains another trace: its settings.seed is 1, here it is 2" in err


def test_folder_with_other_files_is_refused(ke, facts, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/letter.txt").write_text("dear")
    status, _out, err = ke(*TRACE)
    assert status == 2
    assert "t contains other files, not a trace" in err


def test_saved_facts_must_match_the_file(ke, facts, tmp_path):
    assert ke(*TRACE)[0] == 0
    text = (tmp_path / "t/facts.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "t/facts.jsonl").write_text("".join(reversed(text)))
    status, _out, err = ke(*TRACE)
    assert status == 2
    assert "are not those of facts.json in its order" in err


def test_model_without_known_facts_is_an_error_with_counts(ke, facts, tmp_path):
    (tmp_path / "facts.json").write_text(json.dumps([record | {"attribute": "Nowhere"} for record in facts]))
    status, out, err = ke(*TRACE)
    assert (status, out) == (2, "")
    assert "knows none of the 4 facts of facts.json: 4 answered otherwise" in err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot read facts facts.json: no such file or directory"),
        ("{", "facts facts.json is cut off"),
        ("[]", "facts facts.json are not a non-empty list"),
        ('[{"prompt": "a b", "subject": "a"}]', "record 1 of facts.json: field 'attribute' is missing"),
        ('[{"prompt": "a b", "subject": 3, "attribute": "c"}]', "field 'subject' is not a non-empty string"),
        ('[{"prompt": "a b", "subject": "c", "attribute": "d"}]', "record 1 of facts.json: subject 'c' is not in its"),
        ("[3]", "record 1 of facts.json is not an object"),
    ],
)  # fmt: skip
def test_invalid_file_error_names_record_and_field(ke, tmp_path, content, told):
    if content is not None:
        (tmp_path / "facts.json").write_text(content)
    status, _out, err = ke(*TRACE)
    assert status == 2
    assert told in " ".join(err.split())
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--noise", "m"), "--noise m: not a noise rule"),
        (("--kinds", "states,heads"), "'heads' is not one of states, mlp, attention"),
        (("--sever", ","), "',' is not one of mlp, attention, none"),
        (("--chat",), "ke trace uses plain prompts"),
        (("--model", "tiny:echo"), "tracing needs the model's weights, and fake:echo is not in this process"),
    ],
)
def test_invalid_options_are_refused_before_tracing(ke, facts, tmp_path, options, told):
    usual = [] if "--model" in options else ["--model", "tiny:llama"]
    status, _out, err = ke("trace", *usual, *TRACE[3:], *options)
    assert status == 2
    assert told in err
    assert not (tmp_path / "t").exists()


def test_only_plots_need_matplotlib(ke, facts, tmp_path):
    status, _out, err = ke(*TRACE)
    assert status == 0
    assert "cannot plot: matplotlib is not installed: pip install 'ke-weights[plot]'" in err
    assert (tmp_path / "t/trace.json").exists()


def test_plots_are_written_as_svg_and_png(ke, facts, tmp_path):
    pytest.importorskip("matplotlib")
    assert ke(*TRACE)[0] == 0
    for name in ("heat-states", "heat-mlp", "heat-attention", "heat-severed-mlp", "last-subject"):
        assert (tmp_path / f"t/{name}.svg").read_bytes().startswith(b"<?xml")
        assert (tmp_path / f"t/{name}.png").read_bytes().startswith(b"\x89PNG")


def test_suggested_layers_are_marked_in_the_terminal_and_in_plots(ke, facts, tmp_path):
    pytest.importorskip("matplotlib")
    _status, out, _err = ke(*TRACE)
    found = json.loads((tmp_path / "t/trace.json").read_text())["suggestion"]
    layers = sorted({found["rome_layer"], *found["memit_layers"]})
    pointers = [line for line in out.splitlines() if line.startswith("suggested layers")]
    assert pointers
    assert {line.count("^") for line in pointers} == {2 * len(layers)}
    for name in ("heat-states", "last-subject"):
        text = (tmp_path / f"t/{name}.svg").read_text()
        assert f"<!-- layer (suggested: {', '.join(map(str, layers))}) -->" in text


def test_without_a_suggestion_no_layer_is_marked(ke, facts):
    _status, out, _err = ke(*TRACE, "--kinds", "states", "--sever", "none")
    assert "no suggested layers" in out
    assert "^" not in out


def test_comma_list_is_sorted():
    assert CommaList(("a", "b", "c")).convert("c, a", None, None) == ("a", "c")
    assert CommaList(("a",), none=True).convert("none", None, None) == ()
