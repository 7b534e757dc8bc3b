from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.errors import BadData, EditFailed, KEError
from ke_core.testing.fakes import make_session
from ke_core.testing.tiny import FAMILIES, TEXT, Family, tiny_model
from ke_core.whitebox.corpus import read_corpus
from ke_core.whitebox.modules import module_map
from ke_core.whitebox.moments import Moments, MomentSettings, second_moments, token_rows

SETTINGS = MomentSettings(corpus="wordnet", tokens=1500, document_length=64)


def session_of(model: Any, root: Path) -> Any:
    return make_session(model, root=root)


def rows_of(model: Any, tokens: int = 1500) -> list[tuple[int, ...]]:
    return token_rows(model.tokenizer, read_corpus().documents, evolve(SETTINGS, tokens=tokens), model.context)


def keys_by_hand(model: Any, rows: list[tuple[int, ...]], name: str) -> Tensor:
    """Every key of one projection, [tokens, f], document by document, without padding."""
    kept: list[Tensor] = []
    handle = model.module.get_submodule(name).register_forward_pre_hook(
        lambda _module, args: kept.append(args[0].reshape(-1, args[0].shape[-1]).double())
    )
    with torch.no_grad():
        for row in rows:
            model.module(input_ids=torch.tensor([row]))
    handle.remove()
    return torch.cat(kept)


@pytest.mark.parametrize("family", FAMILIES)
def test_c_is_the_mean_of_k_k_over_every_real_token(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64", bos=True)
    modules, rows = module_map(model.module), rows_of(model)
    found = second_moments(modules, rows, [2], session_of(model, tmp_path))[2]
    keys = keys_by_hand(model, rows, modules.layers[2].projection_name)
    assert found.tokens == len(keys) == 1500
    assert float((found.matrix - keys.T @ keys / 1500).norm() / found.matrix.norm()) < 1e-6
    assert float(found.matrix.trace()) == pytest.approx(float(keys.pow(2).sum(1).mean()), rel=1e-6)


def test_one_pass_for_all_layers_equals_a_pass_for_each(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    modules, rows, session = module_map(model.module), rows_of(model), session_of(model, tmp_path)
    together = second_moments(modules, rows, [0, 1, 3], session)
    for layer in (0, 1, 3):
        assert torch.equal(second_moments(modules, rows, [layer], session)[layer].matrix, together[layer].matrix)


def test_order_of_documents_and_padding_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2", dtype="float64")
    modules, rows, session = module_map(model.module), rows_of(model), session_of(model, tmp_path)
    rows = [row[: 1 + at % 50] for at, row in enumerate(rows * 3)]
    padded = second_moments(modules, rows, [1], session)[1].matrix
    monkeypatch.setattr("ke_core.whitebox.moments.PASS_TOKENS", 1)
    alone = second_moments(modules, rows[::-1], [1], session)[1].matrix
    assert float((padded - alone).norm() / alone.norm()) < 1e-12


def test_the_pass_ends_after_the_highest_layer(tmp_path: Path) -> None:
    model = tiny_model("llama")
    modules = module_map(model.module)
    ran: list[int] = []
    handles = [
        layer.block.register_forward_hook(lambda *_args, n=layer.index: ran.append(n)) for layer in modules.layers
    ]
    second_moments(modules, rows_of(model), [0, 1], session_of(model, tmp_path))
    for handle in handles:
        handle.remove()
    assert set(ran) == {0}  # block 1 is left from inside, at its projection


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_e10_half_precision_keys_are_summed_in_float32(dtype: str, tmp_path: Path) -> None:
    model = tiny_model("llama", dtype=dtype)
    found = second_moments(module_map(model.module), rows_of(model), [1], session_of(model, tmp_path))[1]
    exact = tiny_model("llama")
    full = second_moments(module_map(exact.module), rows_of(exact), [1], session_of(exact, tmp_path))[1]
    assert found.matrix.dtype == torch.float32
    assert float((found.matrix - full.matrix).norm() / full.matrix.norm()) < 0.05


def test_fewer_tokens_than_twice_the_dimension_are_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with pytest.raises(EditFailed, match="176 dimensions from 300 tokens are singular") as caught:
        Moments(evolve(SETTINGS, tokens=300)).of(session_of(model, tmp_path), module_map(model.module), [1])
    assert "352" in caught.value.hint


def test_activations_that_overflow_are_an_error(tmp_path: Path) -> None:
    model = tiny_model("llama")
    modules = module_map(model.module)
    with torch.no_grad():
        model.module.get_parameter("model.layers.0.mlp.up_proj.weight").fill_(float("inf"))
    with pytest.raises(EditFailed, match="second moments of layer 0 hold NaN"):
        second_moments(modules, rows_of(model), [0], session_of(model, tmp_path))


def test_nothing_of_the_model_changes(tmp_path: Path, snapshot: Any) -> None:
    model = tiny_model("gptneox")
    before = snapshot(model.module)
    second_moments(module_map(model.module), rows_of(model), [1, 2], session_of(model, tmp_path))
    assert before == snapshot(model.module)


def test_exactly_the_tokens_asked_for_in_the_order_of_the_text() -> None:
    model = tiny_model("gpt2")
    rows = rows_of(model, 700)
    assert sum(map(len, rows)) == 700
    assert all(len(row) == 64 for row in rows[:-1])
    more = rows_of(model, 1500)
    assert rows[:-1] == more[: len(rows) - 1]
    assert rows[-1] == more[len(rows) - 1][: len(rows[-1])]


def test_a_known_moment_is_not_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    first = Moments(SETTINGS)
    made = first.of(session, modules, [1, 2])
    monkeypatch.setattr("ke_core.whitebox.moments.second_moments", None)
    assert first.of(session, modules, [2])[2].matrix is made[2].matrix
    again = Moments(SETTINGS).of(session, modules, [1, 2])
    assert torch.equal(again[1].matrix, made[1].matrix)
    assert again[1].tokens == made[1].tokens == 1500


@pytest.mark.parametrize(
    "other",
    [{"tokens": 1600}, {"document_length": 32}, {"corpus": "own.txt"}],
    ids=["tokens", "document-length", "corpus"],
)
def test_e7_another_statistic_has_another_file(other: dict[str, Any], tmp_path: Path) -> None:
    if "corpus" in other:
        own = tmp_path / "own.txt"
        own.write_text("\n".join(TEXT) * 20, encoding="utf-8")
        other = {"corpus": str(own)}
    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    one = Moments(SETTINGS)._path(session, modules, 1)
    assert one != Moments(evolve(SETTINGS, **other))._path(session, modules, 1)
    assert one != Moments(SETTINGS)._path(session, modules, 2)


def test_e7_two_models_of_one_name_do_not_share_a_statistic(tmp_path: Path) -> None:
    paths = set()
    for seed, dtype in ((0, "float32"), (1, "float32"), (0, "float64")):
        model = tiny_model("llama", seed=seed, dtype=dtype)
        model.id = "hf:checkpoint"
        paths.add(Moments(SETTINGS)._path(session_of(model, tmp_path), module_map(model.module), 1))
    assert len(paths) == 3


def test_e7_an_edited_model_does_not_share_its_own_statistic(tmp_path: Path) -> None:
    from ke_core.weights import Dense

    model = tiny_model("llama")
    modules, session = module_map(model.module), session_of(model, tmp_path)
    moments = Moments(SETTINGS)
    before = moments.of(session, modules, [2])[2].matrix
    with model.patch() as weights:
        weights.add(modules.layers[0].weight_name, Dense(delta=torch.ones(64, 176) * 0.1))
        assert not torch.equal(moments.of(session, modules, [2])[2].matrix, before)
    assert torch.equal(moments.of(session, modules, [2])[2].matrix, before)


def test_the_default_corpus_holds_a_hundred_thousand_tokens_and_its_licence() -> None:
    corpus = read_corpus()
    assert corpus.name == "wordnet"
    assert 70_000 < sum(len(document.split()) for document in corpus.documents) < 90_000
    from importlib.resources import files

    licence = files("ke_core.whitebox").joinpath("wordnet.LICENCE").read_text(encoding="utf-8")
    assert "Princeton University" in licence


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("one\n two \n\tthree\n", ("one", "two", "three")),
        ("one\nstill one\n\n\ntwo\r\n\r\nthree", ("one still one", "two", "three")),
    ],
)
def test_a_text_file_is_read_by_lines_or_by_paragraphs(text: str, documents: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(text.encode())
    assert read_corpus(str(path)).documents == documents


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot read corpus .*no such file"), (b" \n\n", "holds no text"), (b"caf\xe9", "not UTF-8 text: byte 3")],
)
def test_a_corpus_that_cannot_be_read_is_named(content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadData, match=why):
        read_corpus(str(path))


def test_e13_a_layer_that_is_not_there_is_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with pytest.raises(KEError, match="4 layers"):
        Moments(SETTINGS).of(session_of(model, tmp_path), module_map(model.module), [13])
