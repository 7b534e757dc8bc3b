"""The value of ``--model`` and the model that it selects."""

import pytest

from ke_core.engine.models import Reference, open_model, parse_reference
from ke_core.plugins.catalog import Catalog, Registration
from ke_core.plugins.manager import Installed
from ke_core.spec.errors import ModelUnavailable, UnknownComponent
from ke_core.spec.specs import ModelRequest, ModelSpec
from ke_plugin_hf import spec
from ke_plugin_hf.spec import hf_spec
from ke_testing.fakes import EchoModel
from ke_testing.process import imported_by

HERE = Installed(name="ke-core", module="ke_core.builtin")


def catalog(*specs: ModelSpec) -> Catalog:
    none: dict = {kind: {} for kind in ("editor", "dataset", "metric", "judge")}
    return Catalog(registrations=none | {"model": {each.name: Registration(spec=each, plugin=HERE) for each in specs}})


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("smollm2-135m", Reference("hf", "smollm2-135m")),
        ("meta-llama/Llama-3.1-8B", Reference("hf", "meta-llama/Llama-3.1-8B")),
        ("hf:org/name@main", Reference("hf", "org/name", "main")),
        ("org/name@v1.0", Reference("hf", "org/name", "v1.0")),
        ("openai:gpt-x", Reference("openai", "gpt-x")),
        ("openai:@cf/meta/llama@v1", Reference("openai", "@cf/meta/llama", "v1")),
        ("./nowhere", Reference("hf", "./nowhere")),
        (r"C:\models\mine", Reference("hf", r"C:\models\mine")),
    ],
)
def test_a_reference_has_three_parts(written, means):
    assert parse_reference(written) == means


@pytest.mark.parametrize("written", ["", "hf:", "hf:@main", " "])
def test_a_reference_without_a_name_is_refused(written):
    with pytest.raises(ModelUnavailable, match="no model in"):
        parse_reference(written)


def test_an_existing_folder_takes_precedence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("hf:odd@name", "smollm2-135m", "x@y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        assert parse_reference(name) == Reference("hf", name)
    assert parse_reference("hf:x@y") == Reference("hf", "x@y")
    monkeypatch.setattr(spec, "pull", None)  # a folder with the name of a known model is not downloaded
    assert spec._where(ModelRequest(id="smollm2-135m")) == "smollm2-135m"


def test_names_inside_a_path_have_no_meaning(tmp_path):
    for name in ("t5-gpt", "openai", "smollm2-135m"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        assert parse_reference(str(tmp_path / name)) == Reference("hf", str(tmp_path / name))


def test_the_source_gets_the_complete_request():
    asked = []

    def build(request):
        asked.append(request)
        return EchoModel()

    other = ModelSpec(name="other", summary="", config=type(hf_spec.config()), build=build)
    how = ModelRequest(id="", dtype="bfloat16", device="cuda:1", device_map="auto", chat=True, trust_remote_code=True)
    open_model("other:m@r", how, catalog=catalog(other))
    assert asked == [
        ModelRequest(
            id="m",
            revision="r",
            dtype="bfloat16",
            device="cuda:1",
            device_map="auto",
            chat=True,
            trust_remote_code=True,
        )
    ]


def test_trust_in_remote_code_is_off_unless_asked_for():
    assert ModelRequest(id="m").trust_remote_code is False


def test_unknown_sources_are_named_in_the_error():
    with pytest.raises(UnknownComponent, match="no model called 'hff'") as wrong:
        open_model("hff:m", catalog=catalog(hf_spec))
    assert "did you mean 'hf'?" in wrong.value.hint or "hf" in wrong.value.hint


def test_encoders_are_refused_as_language_models():
    with pytest.raises(ModelUnavailable, match="minilm-l6 is a sentence encoder, not a language model") as wrong:
        open_model("minilm-l6", catalog=catalog(hf_spec))
    assert "smollm2-135m" in wrong.value.hint


def test_a_known_model_has_no_other_revision(monkeypatch):
    monkeypatch.setattr(spec, "pull", None)
    with pytest.raises(ModelUnavailable, match="no revision 'main'"):
        open_model("smollm2-135m@main", catalog=catalog(hf_spec))


def test_a_known_model_is_pulled_with_progress_before_it_is_loaded(monkeypatch):
    from attrs import evolve

    said = []
    fetched = evolve(
        hf_spec, pull=lambda name, progress: said.append((name, progress)), build=lambda _request: EchoModel()
    )
    open_model("smollm2-135m", catalog=catalog(fetched), progress="bars")
    assert said == [("smollm2-135m", "bars")]


def test_the_spec_loads_no_torch():
    assert imported_by("import ke_plugin_hf, ke_plugin_hf.spec", "torch", "transformers", "numpy") == []


def test_errors_suggest_similar_known_names(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from ke_plugin_hf import loading

    def offline(_request, _where):
        raise ModelUnavailable("cannot load the configuration of hf:smollm2-153m: offline", hint="no network?")

    monkeypatch.setattr(loading, "load", offline)
    with pytest.raises(ModelUnavailable, match="cannot load") as wrong:
        open_model("smollm2-153m", catalog=catalog(hf_spec))
    assert wrong.value.hint == "did you mean 'smollm2-135m'?"
    with pytest.raises(ModelUnavailable) as wrong:
        open_model("org/something-else", catalog=catalog(hf_spec))
    assert wrong.value.hint == "no network?"


def test_a_revision_is_part_of_the_name_or_a_setting():
    seen = []
    known = ModelSpec(
        name="seen",
        summary="s",
        config=type(hf_spec.config()),
        build=lambda how: seen.append(how.revision) or EchoModel(),
    )
    open_model("seen:m@v2", ModelRequest(id=""), catalog=catalog(known))
    open_model("seen:m", ModelRequest(id="", revision="v1"), catalog=catalog(known))
    assert seen == ["v2", "v1"]
