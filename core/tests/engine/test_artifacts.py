"""Artifacts are identified by their key only."""

import json

import pytest

from ke_core.spec.errors import KEError
from ke_core.storage.files import ArtifactStore
from ke_testing.process import under_hash_seeds

KEY = {"model": "d1", "layers": [4, 5], "tokens": 100_000, "corpus": "é"}


def test_artifact_paths_are_stable_and_store_their_key(tmp_path):
    store = ArtifactStore(tmp_path)
    path = store.path("moments", KEY, ".safetensors")
    assert path == store.path("moments", dict(reversed(KEY.items())), ".safetensors")
    assert path.parent == tmp_path / "moments"
    assert path.suffix == ".safetensors"
    assert not path.exists()
    (beside,) = path.parent.iterdir()
    assert json.loads(beside.read_text(encoding="utf-8")) == KEY
    assert beside.name == f"{path.stem}.key.json"


def test_checkpoints_with_the_same_folder_name_have_different_artifacts(tmp_path):
    store = ArtifactStore(tmp_path)
    one = store.path("moments", KEY | {"model": "digest of /a/llama"}, ".safetensors")
    two = store.path("moments", KEY | {"model": "digest of /b/llama"}, ".safetensors")
    assert one != two


def test_corpus_sample_count_and_dtype_are_in_the_key(tmp_path):
    store = ArtifactStore(tmp_path)
    keys = [KEY, KEY | {"corpus": "other"}, KEY | {"tokens": 1000}, KEY | {"dtype": "float16"}]
    assert len({store.path("moments", key, ".safetensors") for key in keys}) == 4
    assert store.path("z", KEY, ".safetensors") != store.path("moments", KEY, ".safetensors")


def test_the_name_does_not_depend_on_the_hash_seed(tmp_path):
    code = (
        "import pathlib, ke_core.storage.files as a; "
        f"print(a.ArtifactStore(pathlib.Path({str(tmp_path)!r})).path('k', {{'b': 1, 'a': [2]}}, '.x').name)"
    )
    assert len(set(under_hash_seeds(code))) == 1


def test_a_key_that_is_not_json_raises_type_error(tmp_path):
    with pytest.raises(TypeError):
        ArtifactStore(tmp_path).path("k", {"model": object()}, ".x")


def test_an_unwritable_artifact_folder_gives_a_one_line_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(KEError, match="cannot write"):
        ArtifactStore(tmp_path / "file").path("k", {}, ".x")
