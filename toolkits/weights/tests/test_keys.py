from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ke_plugin_hf.testing import Family, tiny_model
from ke_weights.corpus import read_corpus
from ke_weights.keys import average_keys, bare_keys, bare_values, key_rows, project, state_rms, subject_states
from ke_weights.modules import module_map
from ke_weights.rewrites import Rewrite
from ke_weights.subject import SubjectTokens, locate


def plain(module: torch.nn.Module, name: str, row: SubjectTokens, *, inputs: bool) -> Tensor:
    """Return a module's input or output at the row's index, from a pass over that row only."""
    kept: list[Tensor] = []

    def hook(_module: object, args: tuple[Tensor, ...], output: object) -> None:
        seen = args[0] if inputs else output[0] if isinstance(output, tuple) else output
        assert isinstance(seen, Tensor)
        kept.append(seen.reshape(len(row.ids), -1)[row.index])

    handle = module.get_submodule(name).register_forward_hook(hook)
    with torch.no_grad():
        module(input_ids=torch.tensor([row.ids]))
    handle.remove()
    return kept[0]


@pytest.mark.parametrize("family", ["gpt2", "gptneox", "qwen2"])
def test_keys_are_the_mean_of_the_bare_prompt_and_of_the_mean_of_contexts(
    family: Family, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    model = tiny_model(family, dtype="float64")
    modules = module_map(model.module)
    name = modules.layers[2].projection_name
    found = average_keys(modules, key_rows(model.tokenizer, rewrites, templates), 2)
    for column, edit in enumerate(rewrites):
        bare = plain(model.module, name, edit.row(model.tokenizer), inputs=True)
        others = []
        for template in templates[1:]:
            left = len(template) - 2
            text = template.replace("{}", edit.prompt)
            row = locate(model.tokenizer, text, (left + edit.span[0], left + edit.span[1]))
            others.append(plain(model.module, name, row, inputs=True))
        expected = bare / 2 + sum(others) / (2 * len(others))
        assert float((found[:, column] - expected).norm() / expected.norm()) < 1e-6
    assert found.shape == (176, 5)


def test_romes_keys_are_the_mean_over_all_templates(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules, rows = module_map(model.module), key_rows(model.tokenizer, rewrites, templates)
    bare, grouped = bare_keys(modules, rows, 2), average_keys(modules, rows, 2)
    contexts = 2 * grouped - bare
    count = len(templates) - 1
    uniform = average_keys(modules, rows, 2, uniform=True)
    assert float((uniform - (bare + count * contexts) / (count + 1)).norm() / uniform.norm()) < 1e-12
    assert uniform.shape == (176, 5)


@pytest.mark.parametrize("family", ["gpt2", "gptj", "opt", "llama"])
def test_projection_of_the_key_equals_the_value(
    family: Family, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    """Includes the bias, for both storage orders."""
    model = tiny_model(family, dtype="float64")
    modules, rows = module_map(model.module), key_rows(model.tokenizer, rewrites, templates)
    keys, values = bare_keys(modules, rows, 1), bare_values(modules, rows, 1)
    assert values.shape == (64, 5)
    for column, edit in enumerate(rewrites):
        said = project(modules, 1, keys[:, column])
        name = modules.layers[1].projection_name
        seen = plain(model.module, name, edit.row(model.tokenizer), inputs=False)
        assert float((said - values[:, column]).norm() / said.norm()) < 1e-12
        assert float((said - seen).norm() / said.norm()) < 1e-6


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_states_are_the_blocks_output_at_the_subject_of_the_bare_prompt(
    family: Family, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    model = tiny_model(family, dtype="float64")
    modules = module_map(model.module)
    found = subject_states(modules, key_rows(model.tokenizer, rewrites, templates), 3)
    for column, edit in enumerate(rewrites):
        expected = plain(model.module, modules.layers[3].name, edit.row(model.tokenizer), inputs=False)
        assert float((found[:, column] - expected).norm() / expected.norm()) < 1e-6


def test_average_of_a_bare_prompt_is_its_key(rewrites: list[Rewrite]) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules = module_map(model.module)
    found = average_keys(modules, key_rows(model.tokenizer, rewrites[:1], ("{}",)), 1)
    expected = plain(model.module, modules.layers[1].projection_name, rewrites[0].row(model.tokenizer), inputs=True)
    assert float((found[:, 0] - expected).norm()) < 1e-9


def test_rows_end_at_the_subject(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    rows = key_rows(tiny_model("gpt2").tokenizer, rewrites, templates)
    every = [*rows.bare, *(row for group in rows.contexts for row in group)]
    assert all(row.index == len(row.ids) - 1 for row in every)
    assert {len(group) for group in rows.contexts} == {len(templates) - 1}


def test_keys_of_half_precision_models_are_float32(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    model = tiny_model("llama", dtype="bfloat16")
    found = average_keys(module_map(model.module), key_rows(model.tokenizer, rewrites, templates), 1)
    assert found.dtype == torch.float32


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_state_scale_is_that_of_a_typical_token(family: Family) -> None:
    model = tiny_model(family)
    modules = module_map(model.module)
    found = state_rms(modules, model.tokenizer, 2)
    ids = model.encode(read_corpus().documents[0])[:32]
    with torch.no_grad():
        states = model.module(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[3][0, 1:]
    sizes = states.pow(2).mean(1).sqrt().sort().values
    assert float(sizes[0]) < found < float(sizes[-1])
    assert found == pytest.approx(float(sizes[len(sizes) // 2]), rel=0.06)
