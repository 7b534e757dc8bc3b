"""``ke show NAME --model M``: an editor's hyperparameters for a model, with reasons."""

import json

import pytest
from attrs import frozen

from ke_core.plugin import EditorSpec, KEError, hookimpl
from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.hyperparameters import MultiLayerConfig, multi_layer_settings

GPT_J = {
    "model_type": "gptj", "architectures": ["GPTJForCausalLM"], "n_layer": 28, "n_embd": 4096, "n_head": 16,
    "n_inner": None, "vocab_size": 50400, "n_positions": 2048,
}  # fmt: skip


@frozen(kw_only=True)
class Config(MultiLayerConfig):
    pass


class Choosy:
    def check(self, session, edits):
        if session.model.module.config.model_type == "gemma2":
            raise KEError("it has norms after its MLPs", hint="choose another model")
        return {}

    def edit(self, session, edits):
        raise NotImplementedError


class Spreader:
    @hookimpl
    def ke_editors(self):
        return [
            EditorSpec(
                name="spreader",
                summary="spreads",
                config=Config,
                build=lambda _config: Choosy(),
                settings=multi_layer_settings,
            )
        ]


@pytest.fixture
def plugins(plugins):
    plugins.register(Spreader(), "spreader")
    return plugins


@pytest.fixture
def tiny(tmp_path):
    return str(saved(tiny_model("llama"), tmp_path / "tiny"))


def test_published_values_need_only_the_configuration(ke, tmp_path):
    (tmp_path / "gpt-j").mkdir()
    (tmp_path / "gpt-j" / "config.json").write_text(json.dumps(GPT_J))
    status, out, _err = ke("show", "spreader", "--model", str(tmp_path / "gpt-j"))
    assert status == 0
    assert "3,4,5,6,7,8" in out
    assert "published for GPT-J" in out


def test_derived_values_have_a_reason(ke, tiny):
    status, out, _err = ke("show", "spreader", "--model", tiny)
    assert status == 0
    assert "27% of 4 blocks" in out
    assert "RMSNorm" in out


def test_quantized_model_is_refused_with_its_dtype(ke, tiny, tmp_path):
    other = str(saved(tiny_model("gemma2"), tmp_path / "other"))
    status, out, _err = ke("show", "spreader", "--model", other)
    assert status == 0
    assert "27% of 4 blocks" in out
    assert "it cannot edit the model: it has norms after its MLPs" in out
    assert "hint: choose another model" in out
    assert "cannot edit" not in ke("show", "spreader", "--model", tiny)[1]


def test_given_values_have_the_reason_given(ke, tiny):
    status, out, _err = ke("show", "spreader", "--model", tiny, "-o", "spreader.layers=0,1", "-o", "spreader.lr=0.3")
    assert status == 0
    assert out.count(" given ") == 2


def test_missing_trace_is_an_error(ke, tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    status, _out, err = ke("show", "spreader", "--model", tiny, "-o", "spreader.layers=trace")
    assert status == 2
    assert "no causal trace of this model was found" in err
    assert "ke trace" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("editor", "sayer", "--model", "TINY"), "no option of sayer depends on the model"),
        (("metric", "accuracy", "--model", "TINY"), "--model is for editors"),
        (("editor", "spreader", "-o", "spreader.lr=1"), "-o sets options of an editor for --model"),
        (("editor", "spreader", "--model", "TINY", "-o", "other.lr=1"), "which this run does not use"),
        (("editor", "spreader", "--model", "no-such-folder/model/at/all"), "no-such-folder"),
    ],
)
def test_show_model_errors_are_one_line(ke, tiny, words, why):
    status, _out, err = ke("show", *(tiny if word == "TINY" else word for word in words))
    assert status == 2
    assert why in err
