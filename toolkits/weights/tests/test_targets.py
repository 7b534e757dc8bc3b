"""Cache keys of templates and targets contain everything that determines them, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from safetensors.torch import save_file

from ke_core.plugin import BadConfig, EditFailed, Generate, Generated, KEError, locked
from ke_core.spec.errors import DamagedArtifact
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_model
from ke_testing.fakes import make_session
from ke_testing.interrupts import Interrupter, ctrl_c, points_of
from ke_weights import targets
from ke_weights.covariance import CovarianceCache, CovarianceSettings
from ke_weights.facts import model_facts
from ke_weights.modules import module_map
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import Rewrite
from ke_weights.targets import optimized_targets
from ke_weights.templates import as_template, context_templates, explicit_templates
from ke_weights.trace.suggestion import Suggestion, store

MEMIT = ((10, 5),)
ROME = ((5, 10), (10, 10))
SETTINGS = TargetSettings(layer=1, steps=3, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75)


SUGGESTION = Suggestion(rome_layer=1, memit_layers=(0, 1), rule="not traced (8 facts, and 50 are needed)", facts=8)


def chatty() -> HFModel:
    """Return ``tiny_model("llama")`` with a chat template."""
    model = tiny_model("llama")
    model.tokenizer.chat_template = "{% for turn in messages %}Q: {{ turn['content'] }}\nA:{% endfor %}"
    return HFModel.from_parts(model.module, model.tokenizer, id="tiny:chat", chat=True)


def names(root: Path) -> Iterator[str]:
    """Return the artifacts in ``root``, without keys and locks."""
    return (
        path.name
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith((".key.json", ".lock"))
    )


def session_of(model: Any, root: Path, seed: int = 0) -> Any:
    return make_session(model, root=root, seed=seed)


def test_templates_are_reproducible_and_cached(tmp_path: Path) -> None:
    lists = [context_templates(session_of(tiny_model("llama"), tmp_path / name), lengths=MEMIT) for name in ("a", "b")]
    assert lists[0] == lists[1]
    assert lists[0][0] == "{}"
    assert len(lists[0]) == 6
    kept = [path for path in (tmp_path / "a" / "templates").iterdir() if not path.name.endswith(".key.json")]
    assert json.loads(kept[0].read_text(encoding="utf-8"))["content"] == list(lists[0])


def test_templates_depend_on_model_seed_and_length(tmp_path: Path) -> None:
    model = tiny_model("llama")
    lists = {
        context_templates(session_of(model, tmp_path), lengths=MEMIT),
        context_templates(session_of(tiny_model("llama", seed=1), tmp_path), lengths=MEMIT),
        context_templates(session_of(model, tmp_path, seed=1), lengths=MEMIT),
        context_templates(session_of(model, tmp_path), lengths=((7, 5),)),
    }
    assert len(lists) == 4


def test_templates_have_their_first_word_and_length(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    found = context_templates(session_of(model, tmp_path), lengths=MEMIT)
    for word, template in zip(("The", "Therefore", "Because", "I", "You"), found[1:], strict=True):
        assert template.startswith(word)
        assert template.endswith(". {}")
        assert template.count("{") == template.count("}") == 1


def test_rome_uses_ten_texts_of_each_of_two_lengths(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    found = context_templates(session_of(model, tmp_path), lengths=ROME)
    assert len(found) == len(set(found)) == 21
    words = [one.split(" ")[0] for one in found[1:]]
    assert all(
        word.startswith(first)
        for word, first in zip(words, 4 * ["The", "Therefore", "Because", "I", "You"], strict=True)
    )


def test_braces_and_empty_lines_in_sampled_text_are_removed() -> None:
    written = Generated(text=" {x}\n\ny ﬁn", finish="length")
    assert as_template("The", written) == "The  x  y fin. {}"


def test_failed_template_sampling_is_an_error() -> None:
    with pytest.raises(EditFailed, match="from 'The'"):
        as_template("The", RuntimeError("no"))


def test_given_templates_must_end_in_their_slot() -> None:
    assert explicit_templates(["So. {}", "{}", "So. {}"]) == ("{}", "So. {}")
    for bad in ("So.", "{} so", "{} {}"):
        with pytest.raises(BadConfig, match="needs exactly one"):
            explicit_templates([bad])


def test_templates_are_sampled_without_chat_template(tmp_path: Path) -> None:
    plain, chat = tiny_model("llama"), chatty()
    lists = [context_templates(session_of(one, tmp_path / one.id), lengths=MEMIT) for one in (plain, chat)]
    assert lists[0] == lists[1]
    assert list(names(tmp_path / plain.id)) == list(names(tmp_path / chat.id))


def test_artifacts_of_plain_text_use_the_plain_digest(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    """Covariances, targets and traces. Cached completions use the digest with the chat template."""
    plain, chat = tiny_model("llama"), chatty()
    assert plain.digest == plain.plain.digest == chat.plain.digest != chat.digest
    store(make_session(plain, root=tmp_path).artifacts, plain.digest, SUGGESTION)
    for model in (plain, chat):
        session, modules = session_of(model, tmp_path), module_map(model.module)
        CovarianceCache(CovarianceSettings(corpus="wordnet", tokens=800, document_length=64)).of(session, modules, (1,))
        optimized_targets(session, modules, rewrites[:1], templates, SETTINGS)
        trace = model_facts(session, modules).trace()
        assert trace is not None
        assert (trace.layer, trace.traced) == (1, False)
    assert counted == [1]
    assert len(list(names(tmp_path))) == 3


def test_plain_digest_of_an_edited_chat_model_has_the_edited_weights() -> None:
    model, chat = tiny_model("llama"), chatty()
    before = chat.plain.digest
    for one in (model, chat):
        with torch.no_grad():
            one.module.get_parameter("model.layers.0.mlp.up_proj.weight").add_(0.01)
    assert chat.plain.digest == model.digest != before


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of optimized edits of each call."""
    calls: list[int] = []
    real = targets.optimize_targets

    def counting(modules: Any, plans: Any, settings: Any) -> Any:
        calls.append(len(plans))
        return real(modules, plans, settings)

    monkeypatch.setattr(targets, "optimize_targets", counting)
    return calls


def test_cached_target_is_bit_identical(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    model = tiny_model("llama")
    session, modules = session_of(model, tmp_path), module_map(model.module)
    first = optimized_targets(session, modules, rewrites, templates, SETTINGS)
    again = optimized_targets(session, modules, rewrites[::-1], templates, SETTINGS)[::-1]
    assert sum(counted) == len(rewrites)
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.z, other.z)
        assert evolve(one, z=other.z).steps == other.steps
        assert (one.loss, one.nll, one.kl, one.change) == (other.loss, other.nll, other.kl, other.change)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other", "flipped"])
def test_damaged_target_is_optimized_again(
    damage: str, tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int], flip: Any
) -> None:
    model = tiny_model("llama")
    session, modules = session_of(model, tmp_path), module_map(model.module)
    first = optimized_targets(session, modules, rewrites, templates, SETTINGS)
    path = min((tmp_path / "targets").glob("*.safetensors"))
    whole = path.read_bytes()
    if damage == "other":
        save_file({"z": torch.zeros(64)}, path)
    elif damage == "flipped":
        flip(path)
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"no tensors"}[damage])
    with pytest.warns(DamagedArtifact, match="is damaged: it.* checksum"):
        again = optimized_targets(session, modules, rewrites, templates, SETTINGS)
    assert counted == [len(rewrites), 1]
    assert all(torch.allclose(one.z, other.z, rtol=1e-4, atol=1e-4) for one, other in zip(first, again, strict=True))
    optimized_targets(session, modules, rewrites, templates, SETTINGS)
    assert len(counted) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "flipped"])
def test_damaged_templates_are_sampled_again(damage: str, tmp_path: Path) -> None:
    session = session_of(tiny_model("llama"), tmp_path)
    first = context_templates(session, lengths=MEMIT)
    path = next(path for path in (tmp_path / "templates").iterdir() if not path.name.endswith(".key.json"))
    whole = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(whole.replace(b"Therefore", b"Therefors"))
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "other": b'{"a": 1}'}[damage])
    with pytest.warns(DamagedArtifact, match="is damaged: its checksum does not match"):
        assert context_templates(session, lengths=MEMIT) == first
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "change",
    ["layer", "steps", "lr", "kl", "weight_decay", "clamp", "stop_loss", "templates", "target", "model", "edited"],
)
def test_cache_key_contains_everything_that_determines_a_target(
    change: str, tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    model = tiny_model("llama")
    edits, settings = rewrites[:1], SETTINGS
    optimized_targets(session_of(model, tmp_path), module_map(model.module), edits, templates, settings)
    if change == "templates":
        templates = templates[:2]
    elif change == "target":
        edits = [evolve(edits[0], target="Tokyo")]
    elif change == "model":
        model = tiny_model("llama", seed=1)
    elif change == "edited":
        with torch.no_grad():
            model.module.get_parameter("model.layers.0.mlp.up_proj.weight").add_(0.01)
    else:
        settings = evolve(settings, **{change: 2 if change in ("layer", "steps") else 0.3})
    optimized_targets(session_of(model, tmp_path), module_map(model.module), edits, templates, settings)
    assert counted == [1, 1]


def test_cache_key_of_a_target_has_no_edit_id(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    model = tiny_model("llama")
    session, modules = session_of(model, tmp_path), module_map(model.module)
    one = optimized_targets(session, modules, [evolve(rewrites[0], id="0")], templates, SETTINGS)[0]
    other = optimized_targets(session, modules, [evolve(rewrites[1], id="0")], templates, SETTINGS)[0]
    assert counted == [1, 1]
    assert not torch.equal(one.z, other.z)


def test_many_edits_are_optimized_in_groups(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int], monkeypatch: Any
) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules = module_map(model.module)
    whole = optimized_targets(session_of(model, tmp_path / "a"), modules, rewrites, templates, SETTINGS)
    monkeypatch.setitem(targets.TOGETHER, "cpu", 120)
    parts = optimized_targets(session_of(model, tmp_path / "b"), modules, rewrites, templates, SETTINGS)
    assert counted[0] == 5
    assert len(counted) > 2
    for one, other in zip(whole, parts, strict=True):
        assert float((one.z - other.z).norm() / one.z.norm()) < 1e-12


def test_templates_are_sampled_with_seeds() -> None:
    asked: list[Generate] = []

    class Recording:
        digest, tokenizer = "0", tiny_model("gpt2").tokenizer

        @property
        def plain(self) -> Recording:
            return self

        def generate(self, requests: list[Generate]) -> list[Generated]:
            asked.extend(requests)
            return [Generated(text=" so", finish="length") for _ in requests]

    session: Any = make_session(Recording())
    context_templates(session, lengths=MEMIT)
    assert [request.prompt for request in asked] == ["The", "Therefore", "Because", "I", "You"]
    assert all((request.temperature, request.top_k) == (1.0, 5) for request in asked)
    assert len({request.seed for request in asked}) == 5
    once = [request.seed for request in asked]
    asked.clear()
    context_templates(session, lengths=ROME)
    assert [request.prompt for request in asked] == 4 * ["The", "Therefore", "Because", "I", "You"]
    assert [request.max_tokens for request in asked[:10]] < [request.max_tokens for request in asked[10:]]
    assert len({(request.seed, request.max_tokens) for request in asked}) == 20
    assert [request.seed for request in asked[:5]] == once


@pytest.mark.usefixtures("nothing_kept")
def test_out_of_memory_halves_a_group_of_edits(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules, tried = module_map(model.module), []
    whole = optimized_targets(session_of(model, tmp_path / "a"), modules, rewrites, templates, SETTINGS)
    real = targets.optimize_targets

    def cramped(modules: Any, plans: Any, settings: Any) -> Any:
        tried.append(len(plans))
        if len(plans) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(modules, plans, settings)

    most = 2
    monkeypatch.setattr(targets, "optimize_targets", cramped)
    parts = optimized_targets(session_of(model, tmp_path / "b"), modules, rewrites, templates, SETTINGS)
    assert tried == [5, 2, 3, 1, 2]
    for one, other in zip(whole, parts, strict=True):
        assert float((one.z - other.z).norm() / one.z.norm()) < 1e-12
    most = 0
    with pytest.raises(KEError, match=r"(?m)^out of memory for a single edit's target$"):
        optimized_targets(session_of(model, tmp_path / "c"), modules, rewrites, templates, SETTINGS)


def test_concurrent_processes_optimize_targets_once(
    tmp_path: Path,
    rewrites: list[Rewrite],
    templates: tuple[str, ...],
    counted: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uses threads: both look for the targets, then both wait for the lock."""
    model = tiny_model("llama")
    session, modules = session_of(model, tmp_path), module_map(model.module)
    here = threading.Barrier(2)

    def both_here(path: Path) -> Any:
        here.wait(60)
        return locked(path)

    monkeypatch.setattr(targets, "locked", both_here)
    two = [
        threading.Thread(target=optimized_targets, args=(session, modules, rewrites, templates, SETTINGS))
        for _ in range(2)
    ]
    for one in two:
        one.start()
    for one in two:
        one.join()
    assert sum(counted) == len(rewrites)
    assert not list(tmp_path.rglob("*.lock"))


def test_ctrl_c_while_reading_a_target_keeps_the_target(tmp_path: Path) -> None:
    """torch turns an interrupt while reading into a ValueError, which a damaged file also raises."""
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    rewrite = Rewrite(id="one", prompt="The tower stands in", span=(4, 9), target=" Rome")

    def read() -> None:
        optimized_targets(session, modules, [rewrite], ["{}"], SETTINGS)

    with ctrl_c():
        points = points_of(read, frozenset({"torch"}))
        moments = [at for at, (file, _line, _event) in enumerate(points) if file.endswith("storage.py")]
        assert moments
        for at in moments:
            assert Interrupter(packages=frozenset({"torch"}), at=at).interrupts(read)
