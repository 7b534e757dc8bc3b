"""``ke stats`` computes and lists key covariances."""

import json
import sys
from pathlib import Path

import pytest
from attrs import frozen

from ke_core.plugin import BadConfig, ModelSpec, hookimpl
from ke_plugin_hf.testing import TEXT, tiny_model
from ke_testing.fakes import make_session
from ke_weights import gram
from ke_weights.cli.stats import parse_layers, ranges
from ke_weights.covariance import CovarianceCache, CovarianceSettings
from ke_weights.modules import module_map


@frozen(kw_only=True)
class NoConfig:
    pass


class Tiny:
    """A model source with a tiny LLaMA; its id is the seed of its weights."""

    @hookimpl
    def ke_models(self):
        def build(request):
            return tiny_model("llama", dtype=request.dtype, seed=int(request.id))

        return [ModelSpec(name="tiny", summary="random", config=NoConfig, build=build, known=lambda: ())]


@pytest.fixture
def stats(ke, plugins):
    plugins.register(Tiny(), "tiny")

    def run(verb, *arguments):
        return ke("stats", verb, *arguments)

    return run


COMPUTE = ("compute", "--model", "tiny:0", "--tokens", "1500", "--document-length", "64")


def instead(more):
    """Return ``COMPUTE`` with the option values of ``more``."""
    own = dict(zip(COMPUTE[1::2], COMPUTE[2::2], strict=True)) | dict(zip(more[::2], more[1::2], strict=True))
    return (COMPUTE[0], *(word for pair in own.items() for word in pair))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "artifacts" / "moments"


def files(folder):
    return sorted(folder.glob("*.safetensors"))


def test_all_layers_are_computed_and_listed_in_one_row(stats, folder):
    status, out, err = stats(*COMPUTE)
    assert status == 0
    assert "4 computed, 0 in the cache" in err
    row = " ".join(out.split())
    assert "tiny:llama-float32-0 0-3 wordnet, documents of 64 1,500 0.5 MB 4 20" in row
    assert len(files(folder)) == 4


def test_cached_layers_are_not_computed_again(stats, monkeypatch):
    stats(*COMPUTE, "--layers", "1")
    status, _out, err = stats(*COMPUTE, "--layers", "1-2")
    assert (status, "1 computed, 1 in the cache" in err) == (0, True)
    monkeypatch.setattr("ke_weights.covariance.gram_sums", None)
    assert "0 computed, 2 in the cache" in stats(*COMPUTE, "--layers", "1,2")[2]


def test_editor_with_the_same_settings_uses_cached_covariances(stats, tmp_path, monkeypatch):
    stats(*COMPUTE, "--layers", "1-2")
    monkeypatch.setattr("ke_weights.covariance.gram_sums", None)
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path / "cache" / "artifacts")
    moments = CovarianceCache(CovarianceSettings(corpus="wordnet", tokens=1500, document_length=64))
    assert sorted(moments.of(session, module_map(model.module), [1, 2])) == [1, 2]


def test_json_lists_each_file_with_its_path(stats, folder):
    assert json.loads(stats("list", "--json")[1]) == []
    made = json.loads(stats(*COMPUTE, "--layers", "1-2", "--json")[1])
    assert [one["layer"] for one in made] == [1, 2]
    assert sorted(Path(one["path"]) for one in made) == files(folder)
    assert made[0]["model_id"] == "tiny:llama-float32-0"
    assert json.loads(stats("list", "--json")[1]) == made


@pytest.mark.filterwarnings("always::ke_core.plugin.KEWarning")
def test_list_groups_by_model_and_text_and_warns_about_damaged_files(stats, tmp_path, folder):
    stats(*COMPUTE)
    stats(*instead(("--model", "tiny:1", "--layers", "0,2-3")))
    text = tmp_path / "own.txt"
    text.write_text("\n".join(TEXT) * 20, encoding="utf-8")
    stats(*COMPUTE, "--text", str(text), "--layers", "3")
    (folder / "broken.safetensors").write_bytes(b"12")
    (folder / "begun.partial").write_bytes(b"1" * 3_000_000)
    status, out, err = stats("list")
    rows = " ".join(out.split())
    assert status == 0
    assert "tiny:llama-float32-0 0-3 wordnet" in rows
    assert "tiny:llama-float32-0 3 own.txt, documents of 64" in rows
    assert "tiny:llama-float32-1 0, 2-3 wordnet" in rows
    assert f"in {folder}" in out
    assert "broken.safetensors cannot be read as a key covariance" in err
    assert "1 unfinished (3 MB)" in err


def test_empty_list_names_the_command_to_compute(stats):
    status, out, err = stats("list")
    assert (status, out) == (0, "")
    assert "ke stats compute computes them" in err


def test_several_passes_are_reported(stats, monkeypatch, folder):
    monkeypatch.setattr(gram, "free_bytes", lambda _device: 5.1 * 8 * 176 * 176)
    err = stats(*COMPUTE)[2]
    assert "memory holds 2 of 4 layers at a time: 2 passes\n" in err
    assert len(files(folder)) == 4


def test_few_tokens_per_dimension_give_a_warning(stats):
    """LLaMA-3-8B's keys have 14,336 elements: the default of 100,000 tokens is 7 per dimension."""
    warned = stats(*COMPUTE, "--layers", "1")[2]
    assert "warning: 1,500 tokens are few for a key covariance of 176 dimensions (8.5 per dimension)" in warned
    assert "warning" not in stats(*COMPUTE, "--layers", "1", "--tokens", "3520")[2]


def test_text_with_too_few_tokens_is_reported(stats, tmp_path):
    text = tmp_path / "own.txt"
    text.write_text("\n".join(TEXT) * 20, encoding="utf-8")
    status, _out, err = stats(*instead(("--text", str(text), "--tokens", "1000000", "--layers", "1")))
    assert status == 0
    assert " of the 1,000,000 requested tokens" in err


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (("--tokens", "300"), "the key covariance of 176 dimensions from 300 tokens is singular"),
        (("--text", "nowhere.txt"), "cannot read corpus nowhere.txt: no such file or directory"),
        (("--text", "picture"), "corpus picture is not UTF-8 text: byte 0"),
        (("--text", "blank"), "corpus blank is empty"),
        (
            ("--text", "wikimedia/wikipedia:20231101.en"),
            "corpus not found: wikimedia/wikipedia:20231101.en is not a file, and",
        ),
        (("--layers", "2-9"), "layers 4, 5, 6, 7, 8, 9 do not fit a model of 4 layers"),
        (("--layers", "most"), "--layers cannot be 'most'"),
        (("--layers", "2,8-4"), "--layers 2,8-4: the range 8-4 is empty"),
        (("--model", "echo:1"), "the weights of fake:echo are not in this process"),
        (("--tokens", "0"), "invalid value for '--tokens': 0 is not in the range x>=1"),
    ],
)
def test_bad_input_is_a_one_line_error_and_leaves_no_file(more, error, stats, tmp_path, monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as where it is not installed
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    (tmp_path / "blank").write_bytes(b"\n \n")
    status, out, err = stats(*instead(more))
    assert (status, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith("hint:")]
    assert lines[-1].startswith(f"error: {error}")
    assert files(folder) == []


def test_ctrl_c_prints_the_command_to_resume(stats, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(gram, "add_products", interrupted)
    status, _out, err = stats(*COMPUTE)
    assert status == 130
    assert f"Progress is saved. To resume: ke stats {' '.join(COMPUTE)}" in err


@pytest.mark.parametrize(
    ("text", "layers"),
    [("all", ()), ("4-8", (4, 5, 6, 7, 8)), ("4,5,6", (4, 5, 6)), ("7", (7,)), ("9,2-4,3", (2, 3, 4, 9))],
)
def test_layers_are_a_range_or_numbers(text, layers):
    assert parse_layers(text) == layers


@pytest.mark.parametrize("text", ["", "4-", "-4", "4,,5", "4 5", "a", "4-8-9", "8-4", "2,8-4"])
def test_invalid_layer_lists_are_refused(text):
    with pytest.raises(BadConfig, match=r"cannot be|is empty"):
        parse_layers(text)


def test_layer_numbers_are_shown_as_ranges():
    assert ranges([5, 0, 1, 2, 7]) == "0-2, 5, 7"
