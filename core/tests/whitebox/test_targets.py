"""Context templates and targets are found again by everything that determines them, and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve

from ke_core.errors import BadConfig, EditFailed
from ke_core.requests import Generate, Generated
from ke_core.testing.fakes import make_session
from ke_core.testing.tiny import tiny_model
from ke_core.whitebox import targets
from ke_core.whitebox.modules import module_map
from ke_core.whitebox.optimise import ZSettings
from ke_core.whitebox.rewrites import Rewrite
from ke_core.whitebox.targets import optimised
from ke_core.whitebox.templates import as_template, context_templates, explicit_templates

MEMIT = ((10, 5),)
ROME = ((5, 10), (10, 10))
SETTINGS = ZSettings(layer=1, steps=3, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75)


def session_of(model: Any, root: Path, seed: int = 0) -> Any:
    return make_session(model, root=root, seed=seed)


def test_e5_templates_are_the_same_in_every_process_and_kept(tmp_path: Path) -> None:
    lists = [context_templates(session_of(tiny_model("llama"), tmp_path / name), lengths=MEMIT) for name in ("a", "b")]
    assert lists[0] == lists[1]
    assert lists[0][0] == "{}"
    assert len(lists[0]) == 6
    kept = [path for path in (tmp_path / "a" / "templates").iterdir() if not path.name.endswith(".key.json")]
    assert json.loads(kept[0].read_text(encoding="utf-8")) == list(lists[0])


def test_e5_another_model_or_seed_or_length_has_templates_of_its_own(tmp_path: Path) -> None:
    model = tiny_model("llama")
    lists = {
        context_templates(session_of(model, tmp_path), lengths=MEMIT),
        context_templates(session_of(tiny_model("llama", seed=1), tmp_path), lengths=MEMIT),
        context_templates(session_of(model, tmp_path, seed=1), lengths=MEMIT),
        context_templates(session_of(model, tmp_path), lengths=((7, 5),)),
    }
    assert len(lists) == 4


def test_templates_begin_with_their_words_and_are_as_long_as_asked(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    found = context_templates(session_of(model, tmp_path), lengths=MEMIT)
    for word, template in zip(("The", "Therefore", "Because", "I", "You"), found[1:], strict=True):
        assert template.startswith(word)
        assert template.endswith(". {}")
        assert template.count("{") == template.count("}") == 1


def test_rome_takes_ten_texts_of_each_of_two_lengths(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    found = context_templates(session_of(model, tmp_path), lengths=ROME)
    assert len(found) == len(set(found)) == 21
    words = [one.split(" ")[0] for one in found[1:]]
    assert all(
        word.startswith(first)
        for word, first in zip(words, 4 * ["The", "Therefore", "Because", "I", "You"], strict=True)
    )


def test_braces_and_empty_lines_in_sampled_text_are_neutralised() -> None:
    written = Generated(text=" {x}\n\ny ﬁn", finish="length")
    assert as_template("The", written) == "The  x  y fin. {}"


def test_a_template_that_cannot_be_sampled_is_an_error() -> None:
    with pytest.raises(EditFailed, match="from 'The'"):
        as_template("The", RuntimeError("no"))


def test_templates_given_by_hand_must_end_in_their_slot() -> None:
    assert explicit_templates(["So. {}", "{}", "So. {}"]) == ("{}", "So. {}")
    for bad in ("So.", "{} so", "{} {}"):
        with pytest.raises(BadConfig, match="needs exactly one"):
            explicit_templates([bad])


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many edits were really optimised, call by call."""
    calls: list[int] = []
    real = targets.optimise

    def counting(modules: Any, plans: Any, settings: Any) -> Any:
        calls.append(len(plans))
        return real(modules, plans, settings)

    monkeypatch.setattr(targets, "optimise", counting)
    return calls


def test_e6_a_known_target_is_found_again_bit_for_bit(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    model = tiny_model("llama")
    session, modules = session_of(model, tmp_path), module_map(model.module)
    first = optimised(session, modules, rewrites, templates, SETTINGS)
    again = optimised(session, modules, rewrites[::-1], templates, SETTINGS)[::-1]
    assert sum(counted) == len(rewrites)
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.z, other.z)
        assert evolve(one, z=other.z).steps == other.steps
        assert (one.loss, one.nll, one.kl, one.change) == (other.loss, other.nll, other.kl, other.change)


@pytest.mark.parametrize(
    "change",
    ["layer", "steps", "lr", "kl", "weight_decay", "clamp", "stop_loss", "templates", "target", "model", "edited"],
)
def test_e6_whatever_determines_a_target_makes_a_new_one(
    change: str, tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    model = tiny_model("llama")
    edits, settings = rewrites[:1], SETTINGS
    optimised(session_of(model, tmp_path), module_map(model.module), edits, templates, settings)
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
    optimised(session_of(model, tmp_path), module_map(model.module), edits, templates, settings)
    assert counted == [1, 1]


def test_s8_an_edits_number_is_no_part_of_what_its_target_is_kept_under(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int]
) -> None:
    model = tiny_model("llama")
    session, modules = session_of(model, tmp_path), module_map(model.module)
    one = optimised(session, modules, [evolve(rewrites[0], id="0")], templates, SETTINGS)[0]
    other = optimised(session, modules, [evolve(rewrites[1], id="0")], templates, SETTINGS)[0]
    assert counted == [1, 1]
    assert not torch.equal(one.z, other.z)


def test_many_edits_are_optimised_in_groups(
    tmp_path: Path, rewrites: list[Rewrite], templates: tuple[str, ...], counted: list[int], monkeypatch: Any
) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules = module_map(model.module)
    whole = optimised(session_of(model, tmp_path / "a"), modules, rewrites, templates, SETTINGS)
    monkeypatch.setattr(targets, "TOGETHER", 120)
    parts = optimised(session_of(model, tmp_path / "b"), modules, rewrites, templates, SETTINGS)
    assert counted[0] == 5
    assert len(counted) > 2
    for one, other in zip(whole, parts, strict=True):
        assert float((one.z - other.z).norm() / one.z.norm()) < 1e-12


def test_templates_are_asked_of_the_model_with_seeds() -> None:
    asked: list[Generate] = []

    class Recording:
        chat, digest, tokenizer, context = False, "0", tiny_model("gpt2").tokenizer, 100

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
