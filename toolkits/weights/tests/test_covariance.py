from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from safetensors import safe_open

from ke_core.plugin import EditFailed, KEError, locked
from ke_core.spec.errors import DamagedArtifact
from ke_plugin_hf.tensor_files import damage
from ke_plugin_hf.testing import TEXT, tiny_model
from ke_testing.fakes import make_session
from ke_weights import covariance_files, gram
from ke_weights.corpus import read_corpus
from ke_weights.covariance import CovarianceCache, CovarianceSettings, token_rows
from ke_weights.modules import module_map

SETTINGS = CovarianceSettings(corpus="wordnet", tokens=1500, document_length=64)


def session_of(model: Any, root: Path) -> Any:
    return make_session(model, root=root)


def rows_of(model: Any, tokens: int = 1500) -> list[tuple[int, ...]]:
    return token_rows(model.tokenizer, read_corpus().documents, evolve(SETTINGS, tokens=tokens), model.context)


def no_pass(*_args: Any) -> Any:
    raise AssertionError("a pass over the text")


def test_exact_number_of_tokens_in_the_order_of_the_text() -> None:
    model = tiny_model("gpt2")
    rows = rows_of(model, 700)
    assert sum(map(len, rows)) == 700
    assert all(len(row) == 64 for row in rows[:-1])
    more = rows_of(model, 1500)
    assert rows[:-1] == more[: len(rows) - 1]
    assert rows[-1] == more[len(rows) - 1][: len(rows[-1])]


def test_cached_covariance_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    first = CovarianceCache(SETTINGS)
    made = first.of(session, modules, [1, 2])
    monkeypatch.setattr("ke_weights.covariance.gram_sums", no_pass)
    assert first.of(session, modules, [2])[2].matrix is made[2].matrix
    again = CovarianceCache(SETTINGS).of(session, modules, [1, 2])
    assert torch.equal(again[1].matrix, made[1].matrix)
    assert again[1].tokens == made[1].tokens == 1500


@pytest.mark.parametrize(
    "other",
    [{"tokens": 1600}, {"document_length": 32}, {"corpus": "own.txt"}],
    ids=["tokens", "document-length", "corpus"],
)
def test_different_covariances_have_different_files(other: dict[str, Any], tmp_path: Path) -> None:
    if "corpus" in other:
        own = tmp_path / "own.txt"
        own.write_text("\n".join(TEXT) * 20, encoding="utf-8")
        other = {"corpus": str(own)}
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    one = CovarianceCache(SETTINGS).paths(session, modules, [1])[1]
    assert one != CovarianceCache(evolve(SETTINGS, **other)).paths(session, modules, [1])[1]
    assert one != CovarianceCache(SETTINGS).paths(session, modules, [2])[2]


def test_models_with_the_same_name_share_no_covariance(tmp_path: Path) -> None:
    paths = set()
    for seed, dtype in ((0, "float32"), (1, "float32"), (0, "float64")):
        model = tiny_model("llama", seed=seed, dtype=dtype)
        model.id = "hf:checkpoint"
        paths |= set(
            CovarianceCache(SETTINGS).paths(session_of(model, tmp_path), module_map(model.module), [1]).values()
        )
    assert len(paths) == 3


def test_edited_model_has_its_own_covariance(tmp_path: Path) -> None:
    from ke_weights.plugin import Dense

    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    moments = CovarianceCache(SETTINGS)
    before = moments.of(session, modules, [2])[2].matrix
    with model.patch() as weights:
        weights.add(modules.layers[0].weight_name, Dense(delta=torch.ones(64, 176) * 0.1))
        assert not torch.equal(moments.of(session, modules, [2])[2].matrix, before)
    assert torch.equal(moments.of(session, modules, [2])[2].matrix, before)


def test_missing_layer_is_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with pytest.raises(KEError, match="4 layers"):
        CovarianceCache(SETTINGS).of(session_of(model, tmp_path), module_map(model.module), [13])


@pytest.mark.parametrize("layers", [[], [2, 1], [1, 1], [-1, 2]])
def test_layers_must_be_distinct_and_ascending(layers: list[int], tmp_path: Path) -> None:
    model = tiny_model("llama")
    with pytest.raises(KEError, match="do not fit a model of 4 layers"):
        CovarianceCache(SETTINGS).of(session_of(model, tmp_path), module_map(model.module), layers)


def test_fewer_tokens_than_twice_the_dimension_are_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with pytest.raises(EditFailed, match="176 dimensions from 300 tokens is singular") as caught:
        CovarianceCache(evolve(SETTINGS, tokens=300)).of(session_of(model, tmp_path), module_map(model.module), [1])
    assert "352" in caught.value.hint


def test_overflow_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    with torch.no_grad():
        model.module.get_parameter("model.layers.0.mlp.up_proj.weight").fill_(float("inf"))
    with pytest.raises(EditFailed, match="key covariance of layer 0 contains NaN"):
        CovarianceCache(SETTINGS).take(session, modules, [0])
    assert {path.suffix for path in (tmp_path / "moments").iterdir()} == {".json", ".lock"}


def test_precomputed_covariance_equals_the_editors_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    CovarianceCache(SETTINGS).take(session, modules, [0, 1, 2, 3])
    monkeypatch.setattr("ke_weights.covariance.gram_sums", no_pass)
    found = CovarianceCache(SETTINGS).of(session, modules, [1, 2])
    assert found[1].factor.shape == (176, 176)
    assert CovarianceCache(SETTINGS).missing(session, modules, [0, 1, 2, 3]) == []


def test_only_missing_layers_are_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    moments = CovarianceCache(SETTINGS)
    moments.take(session, modules, [1])
    asked: list[list[int]] = []

    def seen(modules: Any, rows: Any, files: Any, progress: Any) -> Any:
        asked.append(list(files))
        return gram.gram_sums(modules, rows, files, progress)

    monkeypatch.setattr("ke_weights.covariance.gram_sums", seen)
    moments.take(session, modules, [0, 1, 2])
    assert asked == [[0, 2]]


@pytest.mark.parametrize("keep", [0, 7, 200, 60_000, None], ids=["empty", "header", "few", "half", "flipped"])
def test_damaged_file_is_computed_again_with_a_warning(
    keep: int | None, tmp_path: Path, flip: Callable[[Path], None]
) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    made = CovarianceCache(SETTINGS).of(session, modules, [1])[1].matrix
    path = CovarianceCache(SETTINGS).paths(session, modules, [1])[1]
    if keep is None:
        flip(path)
    else:
        path.write_bytes(path.read_bytes()[:keep])
    with pytest.warns(DamagedArtifact, match="is damaged: it.* checksum.*; it will be computed again") as told:
        assert torch.equal(CovarianceCache(SETTINGS).of(session, modules, [1])[1].matrix, made)
    assert {str(one.message).count(str(path)) for one in told} == {1}
    assert damage(path) == ""


def test_covariance_file_contains_its_origin(tmp_path: Path) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    moments = CovarianceCache(SETTINGS)
    moments.take(session, modules, [2])
    with safe_open(moments.paths(session, modules, [2])[2], framework="pt") as found:
        told = found.metadata()
        assert found.get_tensor("moment").dtype == torch.float32
    assert told.pop("date").count("-") == 2
    assert told.pop("ke_version")
    assert len(told.pop("file_sha256")) == 64
    assert told == {
        "model_id": "tiny:llama-float32-0",
        "model_digest": model.digest,
        "module": "model.layers.2.mlp.down_proj",
        "layer": "2",
        "corpus": "wordnet",
        "corpus_sha256": read_corpus().sha256,
        "tokens_asked": "1500",
        "tokens": "1500",
        "document_length": "64",
        "dtype": "torch.float32",
        "first_token": "kept",
    }


def test_short_text_records_its_number_of_tokens(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("\n".join(TEXT) * 20, encoding="utf-8")
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    moments = CovarianceCache(evolve(SETTINGS, corpus=str(own), tokens=1_000_000))
    found = moments.of(session, modules, [1])[1]
    origin = covariance_files.origin_of(moments.paths(session, modules, [1])[1])
    assert (origin.tokens, origin.tokens_asked) == (found.tokens, 1_000_000)
    assert found.tokens < 10_000


def test_concurrent_processes_compute_layers_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    asked: list[list[int]] = []

    def seen(modules: Any, rows: Any, files: Any, progress: Any) -> Any:
        asked.append(list(files))
        return gram.gram_sums(modules, rows, files, progress)

    monkeypatch.setattr("ke_weights.covariance.gram_sums", seen)
    foremost = min(CovarianceCache(SETTINGS).paths(session, modules, [1, 2]).values()).with_suffix(".lock")
    here = threading.Barrier(2)

    def both_here(path: Path) -> Any:
        if path == foremost:  # neither begins before both have looked: what one begins hooks the model that they share
            here.wait(60)
        return locked(path)

    monkeypatch.setattr("ke_weights.covariance.locked", both_here)
    two = [threading.Thread(target=CovarianceCache(SETTINGS).take, args=(session, modules, [1, 2])) for _ in range(2)]
    for one in two:
        one.start()
    for one in two:
        one.join()
    assert asked == [[1, 2]]
    assert CovarianceCache(SETTINGS).missing(session, modules, [1, 2]) == []
