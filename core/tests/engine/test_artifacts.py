"""Artifacts are found by what determines them, and by nothing else."""

import json
import subprocess
import sys

import pytest

from ke_core.spec.errors import KEError
from ke_core.storage.files import ArtifactStore

KEY = {"model": "d1", "layers": [4, 5], "tokens": 100_000, "corpus": "é"}


def test_a_path_is_the_same_again_and_its_key_is_readable_beside_it(tmp_path):
    store = ArtifactStore(tmp_path)
    path = store.path("moments", KEY, ".safetensors")
    assert path == store.path("moments", dict(reversed(KEY.items())), ".safetensors")
    assert path.parent == tmp_path / "moments"
    assert path.suffix == ".safetensors"
    assert not path.exists()
    (beside,) = path.parent.iterdir()
    assert json.loads(beside.read_text(encoding="utf-8")) == KEY
    assert beside.name == f"{path.stem}.key.json"


def test_e7_two_checkpoints_of_one_basename_have_two_artifacts(tmp_path):
    store = ArtifactStore(tmp_path)
    one = store.path("moments", KEY | {"model": "digest of /a/llama"}, ".safetensors")
    two = store.path("moments", KEY | {"model": "digest of /b/llama"}, ".safetensors")
    assert one != two


def test_e7_corpus_sample_count_and_dtype_are_part_of_the_key(tmp_path):
    store = ArtifactStore(tmp_path)
    keys = [KEY, KEY | {"corpus": "other"}, KEY | {"tokens": 1000}, KEY | {"dtype": "float16"}]
    assert len({store.path("moments", key, ".safetensors") for key in keys}) == 4
    assert store.path("z", KEY, ".safetensors") != store.path("moments", KEY, ".safetensors")


def test_the_name_does_not_depend_on_the_hash_seed(tmp_path):
    code = (
        "import sys, pathlib, ke_core.storage.files as a; "
        "print(a.ArtifactStore(pathlib.Path(sys.argv[1])).path('k', {'b': 1, 'a': [2]}, '.x').name)"
    )
    names = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(names) == 1


def test_a_key_that_is_not_json_is_a_mistake(tmp_path):
    with pytest.raises(TypeError):
        ArtifactStore(tmp_path).path("k", {"model": object()}, ".x")


def test_a_root_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(KEError, match="cannot write"):
        ArtifactStore(tmp_path / "file").path("k", {}, ".x")
