"""Sums of k k^T: accuracy, independence of grouping, and bit-identical resuming."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import KEError
from ke_core.spec.errors import DamagedArtifact
from ke_plugin_hf.testing import FAMILIES, Family, tiny_model
from ke_testing.fakes import SilentProgress, make_session
from ke_weights import covariance_files, gram
from ke_weights.corpus import read_corpus
from ke_weights.covariance import CovarianceCache, CovarianceSettings, token_rows
from ke_weights.modules import module_map

SETTINGS = CovarianceSettings(corpus="wordnet", tokens=1500, document_length=64)


def rows_of(model: Any, tokens: int = 1500) -> list[tuple[int, ...]]:
    return token_rows(model.tokenizer, read_corpus().documents, evolve(SETTINGS, tokens=tokens), model.context)


def moments_of(modules: Any, rows: Any, layers: list[int], root: Path) -> dict[int, Tensor]:
    """C of each layer, float64."""
    files = {layer: root / f"{layer}.partial" for layer in layers}
    count = sum(len(row) for row in rows)
    return {layer: total / count for layer, total in gram.gram_sums(modules, rows, files, SilentProgress()).items()}


def keys_by_hand(model: Any, rows: list[tuple[int, ...]], name: str) -> Tensor:
    """Return every key of one projection, [tokens, f], document by document, without padding."""
    kept: list[Tensor] = []
    handle = model.module.get_submodule(name).register_forward_pre_hook(
        lambda _module, args: kept.append(args[0].reshape(-1, args[0].shape[-1]).double())
    )
    with torch.no_grad():
        for row in rows:
            model.module(input_ids=torch.tensor([row]))
    handle.remove()
    return torch.cat(kept)


def off(found: Tensor, true: Tensor) -> float:
    """Relative error in the Frobenius norm."""
    return float((found.double() - true.double()).norm() / true.double().norm())


@pytest.mark.parametrize("family", FAMILIES)
def test_covariance_is_the_mean_over_all_real_tokens(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64", bos=True)
    modules, rows = module_map(model.module), rows_of(model)
    found = moments_of(modules, rows, [2], tmp_path)[2]
    keys = keys_by_hand(model, rows, modules.layers[2].projection_name)
    assert len(keys) == 1500
    assert off(found, keys.T @ keys / 1500) < 1e-6
    assert float(found.trace()) == pytest.approx(float(keys.pow(2).sum(1).mean()), rel=1e-6)


def test_one_pass_for_all_layers_equals_a_pass_for_each(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    modules, rows = module_map(model.module), rows_of(model)
    together = moments_of(modules, rows, [0, 1, 3], tmp_path)
    for layer in (0, 1, 3):
        assert torch.equal(moments_of(modules, rows, [layer], tmp_path)[layer], together[layer])


def test_order_of_documents_and_padding_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules, rows = module_map(model.module), rows_of(model)
    rows = [row[: 1 + at % 50] for at, row in enumerate(rows * 3)]
    padded = moments_of(modules, rows, [1], tmp_path)[1]
    monkeypatch.setattr(gram, "PASS_TOKENS", 1)
    assert off(padded, moments_of(modules, rows[::-1], [1], tmp_path)[1]) < 1e-12


def test_pass_ends_after_the_highest_layer(tmp_path: Path) -> None:
    model = tiny_model("llama")
    modules = module_map(model.module)
    ran: list[int] = []
    handles = [
        layer.block.register_forward_hook(lambda *_args, n=layer.index: ran.append(n)) for layer in modules.layers
    ]
    moments_of(modules, rows_of(model), [0, 1], tmp_path)
    for handle in handles:
        handle.remove()
    assert set(ran) == {0}  # block 1 is left from inside, at its projection


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_keys_are_summed_in_float32(dtype: str, tmp_path: Path) -> None:
    model = tiny_model("llama", dtype=dtype)
    modules, rows = module_map(model.module), rows_of(model)
    found = moments_of(modules, rows, [1], tmp_path)[1]
    keys = keys_by_hand(model, rows, modules.layers[1].projection_name)
    assert off(found, keys.T @ keys / len(keys)) < 0.01  # keys of other batch shapes differ by a rounding of theirs
    exact = tiny_model("llama")
    assert off(found, moments_of(module_map(exact.module), rows_of(exact), [1], tmp_path)[1]) < 0.05


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_float32_products_differ_from_float64_by_less_than_a_millionth(family: Family, tmp_path: Path) -> None:
    single, double = tiny_model(family), tiny_model(family, dtype="float64")
    rows = rows_of(single, 6000)  # more than one pass
    found = moments_of(module_map(single.module), rows, [0, 3], tmp_path)
    true = moments_of(module_map(double.module), rows, [0, 3], tmp_path)
    for layer in (0, 3):
        assert off(found[layer], true[layer]) < 1e-6
        assert float((found[layer] - found[layer].T).abs().max() / found[layer].abs().max()) < 1e-6


def test_padding_is_not_in_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules = module_map(model.module)
    rows = [row[: 5 + at] for at, row in enumerate(rows_of(model))]
    clean = moments_of(modules, rows, [1], tmp_path)[1]
    masks: list[Tensor] = []

    def remembered(rows: Any, device: Any) -> Any:
        ids, mask = padded(rows, device)
        masks.append(mask)
        return ids, mask

    def poison(_module: Any, args: Any) -> Any:
        return (args[0].masked_fill(masks[-1][..., None] == 0, float("nan")),)

    padded = gram.padded
    monkeypatch.setattr(gram, "padded", remembered)
    handle = modules.layers[1].projection.register_forward_pre_hook(poison)
    try:
        poisoned = moments_of(modules, rows, [1], tmp_path)[1]
    finally:
        handle.remove()
    assert any(bool((mask == 0).any()) for mask in masks)
    assert torch.equal(poisoned, clean)


def test_model_is_unchanged(tmp_path: Path, snapshot: Any) -> None:
    model = tiny_model("gptneox")
    before = snapshot(model.module)
    moments_of(module_map(model.module), rows_of(model), [1, 2], tmp_path)
    assert before == snapshot(model.module)


# --- killed and resumed ----------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
import torch
from ke_testing.fakes import make_session
from ke_plugin_hf.testing import tiny_model
from ke_weights import gram
from ke_weights.modules import module_map
from ke_weights.covariance import CovarianceCache, CovarianceSettings

torch.set_num_threads(1)
gram.PASS_TOKENS, gram.SAVE_SECONDS, gram.SAVE_SHARE = 64, 0.0, 1e9
model = tiny_model("llama")
settings = CovarianceSettings(corpus="wordnet", tokens=30_000, document_length=64)
CovarianceCache(settings).take(make_session(model, root=Path(sys.argv[1])), module_map(model.module), [1, 2])
"""


@pytest.mark.integration
def test_killed_sum_resumes_bit_identically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(killed)], env=dict(os.environ))
    deadline = time.monotonic() + 120
    begun: list[Path] = []
    while len(begun) < 2 and child.poll() is None and time.monotonic() < deadline:
        begun = list((killed / "moments").glob(f"*{covariance_files.PARTIAL}"))
        time.sleep(0.005)
    time.sleep(0.05)
    child.kill()  # SIGKILL
    child.wait()
    assert child.returncode == -9, "it was over before it was killed"

    monkeypatch.setattr(gram, "PASS_TOKENS", 64)
    model = tiny_model("llama")
    modules, settings = module_map(model.module), evolve(SETTINGS, tokens=30_000)
    began: list[int] = []

    class Watched(SilentProgress):
        def advance(self, label: str, done: int, total: int | None = None) -> None:
            began.append(done)

    found = {}
    for root in (killed, whole):
        session = evolve(make_session(model, root=root), progress=Watched())
        CovarianceCache(settings).take(session, modules, [1, 2])
        paths = CovarianceCache(settings).paths(session, modules, [1, 2])
        found[root] = {layer: covariance_files.load(path)[0] for layer, path in paths.items()}
    assert began[0] > 0, "it began again"
    assert began.count(0) == 1  # the uninterrupted one
    for layer in (1, 2):
        assert torch.equal(found[killed][layer], found[whole][layer])
    assert not list((killed / "moments").glob(f"*{covariance_files.PARTIAL}"))


def interrupted(modules: Any, rows: Any, files: dict[int, Path], monkeypatch: pytest.MonkeyPatch, passes: int) -> None:
    """Run a pass that is interrupted after this number of batches."""
    left = [passes]

    class Impatient(SilentProgress):
        def advance(self, label: str, done: int, total: int | None = None) -> None:
            if done >= left[0]:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gram, "SAVE_SECONDS", 0.0)
        patch.setattr(gram, "SAVE_SHARE", 1e9)
        with pytest.raises(KeyboardInterrupt):
            gram.gram_sums(modules, rows, files, Impatient())


def test_layers_with_different_progress_resume_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram, "PASS_TOKENS", 64)
    model = tiny_model("gpt2")
    modules, rows = module_map(model.module), rows_of(model)
    whole = moments_of(modules, rows, [0, 1, 2], tmp_path / "whole")
    files = {layer: tmp_path / f"{layer}.partial" for layer in (0, 1, 2)}
    interrupted(modules, rows, {1: files[1]}, monkeypatch, 15)
    interrupted(modules, rows, {0: files[0], 2: files[2]}, monkeypatch, 4)
    found = moments_of(modules, rows, [0, 1, 2], tmp_path)
    for layer in (0, 1, 2):
        assert torch.equal(found[layer], whole[layer])


@pytest.mark.parametrize("harm", ["truncated", "flipped", "other batches", "not a file of ours"])
def test_unusable_partial_sum_is_computed_again(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flip: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(gram, "PASS_TOKENS", 64)
    model = tiny_model("gpt2")
    modules, rows = module_map(model.module), rows_of(model)
    path = tmp_path / "1.partial"
    interrupted(modules, rows, {1: path}, monkeypatch, 5)
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif harm == "flipped":
        flip(path)
    elif harm == "other batches":
        monkeypatch.setattr(gram, "PASS_TOKENS", 128)
    else:
        path.write_bytes(b"something else")
    new = moments_of(modules, rows, [1], tmp_path / "new")[1]
    with nullcontext() if harm == "other batches" else pytest.warns(DamagedArtifact, match="1.partial is damaged"):
        assert off(moments_of(modules, rows, [1], tmp_path)[1], new) == 0


# --- memory ------------------------------------------------------------------------------------------------


def test_layers_that_exceed_memory_need_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules = module_map(model.module)
    one = 8 * 176 * 176
    together, apart = (make_session(model, root=tmp_path / name) for name in ("together", "apart"))
    CovarianceCache(SETTINGS).take(together, modules, [0, 1, 2])
    monkeypatch.setattr(gram, "free_bytes", lambda _device: 5.1 * one)  # four fifths of it, less two, hold two sums
    assert gram.passes(modules, [0, 1, 2]) == [[0, 1], [2]]
    CovarianceCache(SETTINGS).take(apart, modules, [0, 1, 2])
    for layer in (0, 1, 2):
        paths = [CovarianceCache(SETTINGS).paths(session, modules, [layer])[layer] for session in (together, apart)]
        assert torch.equal(*(covariance_files.load(path)[0] for path in paths))


def test_memory_for_no_layer_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = module_map(tiny_model("llama").module)
    monkeypatch.setattr(gram, "free_bytes", lambda _device: 100_000)
    with pytest.raises(KEError, match=r"176 dimensions needs 0.000743 GB of memory, and 0.0001 GB are free"):
        gram.passes(modules, [1])


@pytest.mark.parametrize("at", ["at once", "after some layers"])
@pytest.mark.usefixtures("nothing_kept")
def test_halved_pass_counts_every_key_once(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama", dtype="float64")
    modules, rows = module_map(model.module), rows_of(model)
    whole = moments_of(modules, rows, [0, 1, 3], tmp_path / "whole")
    failed: list[int] = []

    def cramped(_module: Any, args: Any) -> None:
        count = len(args[0])
        if count > 3:
            failed.append(count)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    place = modules.layers[0 if at == "at once" else 3].block
    handle = place.register_forward_pre_hook(cramped, prepend=True)
    try:
        found = moments_of(modules, rows, [0, 1, 3], tmp_path)
    finally:
        handle.remove()
    assert failed
    for layer in (0, 1, 3):
        assert off(found[layer], whole[layer]) < 1e-12


def test_single_text_too_large_for_memory_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules, rows = module_map(model.module), rows_of(model)

    def full(*_args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(gram, "see_keys", full)
    with pytest.raises(KEError, match=r"(?m)^out of memory for a single text of the corpus$"):
        moments_of(modules, rows, [0], tmp_path)
