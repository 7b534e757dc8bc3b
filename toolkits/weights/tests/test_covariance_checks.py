"""What ``ke stats verify`` finds wrong with second moments on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_plugin_hf.testing import tiny_model
from ke_testing.fakes import make_session
from ke_weights import covariance_files
from ke_weights.corpus import read_corpus
from ke_weights.covariance import CovarianceCache, CovarianceSettings
from ke_weights.covariance_checks import comparable, faults
from ke_weights.covariance_files import StoredCovariance, stored
from ke_weights.modules import module_map

SETTINGS = CovarianceSettings(corpus="wordnet", tokens=3000, document_length=64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One sound statistic, of layer 1."""
    model = tiny_model("llama")
    CovarianceCache(SETTINGS).take(make_session(model, root=tmp_path), module_map(model.module), [1])
    return tmp_path / "moments"


def only(folder: Path) -> StoredCovariance:
    (one,) = stored(folder)
    return one


def test_a_statistic_that_was_just_made_is_sound(folder: Path) -> None:
    assert faults(only(folder)) == []


def skewed(matrix: Tensor) -> Tensor:
    matrix[3, 5] += float(matrix.abs().max())
    return matrix


def holed(matrix: Tensor) -> Tensor:
    matrix[0, 0] = float("nan")
    return matrix


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (skewed, "it is not symmetric"),
        (holed, "it contains NaN or infinity"),
        (lambda matrix: matrix - matrix.trace() * torch.eye(len(matrix)), "it is not positive definite"),
        (lambda matrix: matrix[:, :100], r"its shape is (176, 100), not square"),
    ],
    ids=["skewed", "nan", "negative", "shape"],
)
def test_numbers_that_no_second_moment_has_are_found(
    change: Callable[[Tensor], Tensor], why: str, folder: Path
) -> None:
    one = only(folder)
    assert not isinstance(one.origin, Exception)
    covariance_files.save(one.path, change(covariance_files.load(one.path)[0]), one.origin)
    assert any(fault.startswith(why) for fault in faults(only(folder)))


def test_too_few_tokens_are_found(folder: Path) -> None:
    one = only(folder)
    covariance_files.save(one.path, covariance_files.load(one.path)[0], evolve(one.origin, tokens=351))
    assert faults(only(folder)) == ["351 tokens are too few for 176 dimensions: at least 352 are needed"]


@pytest.mark.parametrize("keep", [0, 50, 90_000])
def test_a_truncated_file_is_one_line(keep: int, folder: Path) -> None:
    path = only(folder).path
    path.write_bytes(path.read_bytes()[:keep])
    (fault,) = faults(only(folder))
    assert fault.startswith("cannot be read as a key covariance: ")
    assert "\n" not in fault


def test_e7_metadata_that_differ_from_the_key_file_are_found(folder: Path) -> None:
    one = only(folder)
    covariance_files.save(
        one.path, covariance_files.load(one.path)[0], evolve(one.origin, model_digest="0", tokens_asked=9)
    )
    assert faults(only(folder)) == ["its metadata and its key file differ in model, tokens"]


def test_e7_a_file_under_the_name_of_another_key_is_found(folder: Path) -> None:
    one = only(folder)
    for path in (one.path, one.path.with_name(f"{one.path.stem}.key.json")):
        path.rename(path.with_name(path.name.replace(one.path.stem, "0" * 32)))
    assert faults(only(folder)) == ["its name is not the hash of its key"]


def test_a_file_without_its_key_or_its_words_is_found(folder: Path) -> None:
    from safetensors.torch import save_file

    one = only(folder)
    one.path.with_name(f"{one.path.stem}.key.json").unlink()
    assert faults(only(folder))[0].startswith("its key file ")
    save_file({"moment": torch.eye(4)}, one.path, metadata={"tokens": "9"})
    assert faults(only(folder)) == ["has no valid origin in its metadata"]


def test_a_key_file_names_what_the_numbers_depend_on(folder: Path) -> None:
    one = only(folder)
    key = json.loads(one.path.with_name(f"{one.path.stem}.key.json").read_text())
    assert set(key) == {"model", "module", "corpus", "tokens", "document_length", "dtype", "first_token"}


def test_the_models_own_keys_fit_and_those_of_another_do_not(folder: Path) -> None:
    own, other = tiny_model("llama"), tiny_model("llama", seed=1)
    for model, sound in ((own, True), (other, False)):
        session: Any = make_session(model, root=folder.parent)
        keys = comparable([only(folder)], session, module_map(model.module), read_corpus())
        (sample,) = keys.values()
        assert sample.shape == (1024, 176)
        found = faults(only(folder), sample)
        assert (found == []) == sound
        assert sound or found[0].startswith("the model's keys do not match it: mean k^T C^-1 k is ")


def test_a_statistic_of_another_text_is_not_compared(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "own.txt"
    text.write_text("something else", encoding="utf-8")
    model = tiny_model("llama")
    session: Any = make_session(model, root=tmp_path)
    assert comparable([only(folder)], session, module_map(model.module), read_corpus(str(text))) == {}


def test_keys_of_another_length_are_named(folder: Path) -> None:
    assert faults(only(folder), torch.ones(3, 5)) == ["the model's keys have 5 elements, not 176"]
