from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from ke_core.data.facts import Cloze
from ke_core.errors import KEError
from ke_core.testing.tiny import TEXT, tiny_tokenizer
from ke_core.whitebox.rewrites import Rewrite
from ke_core.whitebox.subject import batches, encode, locate, padded, target_ids

PLACES = [
    ("{} is a citizen of", "Ellie Kemper"),
    ("The capital of {} is", "France"),
    ("The mother tongue of {}", "Danielle Darrieux"),
    ("In {}, the capital is", "Italy"),
    ("{}'s capital is", "Japan"),
    ("Apple makes what {} eats: Apple", "Apple"),
    ("The city of {}-on-Sea is in", "São Paulo"),
]


def trained(kind: str, *, bos: bool = False, eos: bool = False, trim: bool = True) -> Any:
    special = ["<unk>", "<s>", "</s>"]
    initial = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>") if kind == "wordpiece" else models.BPE(unk_token="<unk>"))
    if kind == "bytes":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=trim)
        trainer: Any = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=initial, show_progress=False
        )
    elif kind == "prefix-space":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, trim_offsets=trim)
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=initial, show_progress=False
        )
    elif kind == "metaspace":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    elif kind == "sentencepiece":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*TEXT, "São Paulo-on-Sea, Apple's: 'eats' makes what"], trainer)
    form = f"{'<s> ' * bos}$A{' </s>' * eos}"
    tokenizer.post_processor = processors.TemplateProcessing(single=form, special_tokens=[("<s>", 1), ("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


TOKENIZERS: dict[str, dict[str, Any]] = {
    "bytes": {"kind": "bytes"},
    "bytes-bos": {"kind": "bytes", "bos": True},
    "bytes-bos-eos": {"kind": "bytes", "bos": True, "eos": True},
    "bytes-untrimmed": {"kind": "bytes", "trim": False},
    "prefix-space-bos": {"kind": "prefix-space", "bos": True},
    "prefix-space-untrimmed": {"kind": "prefix-space", "trim": False},
    "metaspace-bos": {"kind": "metaspace", "bos": True},
    "metaspace-eos": {"kind": "metaspace", "eos": True},
    "metaspace-bos-eos": {"kind": "metaspace", "bos": True, "eos": True},
    "wordpiece-bos-eos": {"kind": "wordpiece", "bos": True, "eos": True},
}


@pytest.fixture(params=TOKENIZERS, ids=list(TOKENIZERS))
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return trained(**TOKENIZERS[request.param])


@pytest.mark.parametrize(("template", "subject"), PLACES)
@pytest.mark.parametrize("left", ["", "The city was. "])
def test_e3_subject_token_is_the_last_of_the_text_up_to_the_subject(
    tokenizer: Any, template: str, subject: str, left: str
) -> None:
    """Against the two-part rule, which holds where no merge crosses the subject's end and specials are cut."""
    cloze = Cloze(template=left + template, subject=subject)
    row = locate(tokenizer, cloze.prompt, cloze.span)
    upto = encode(tokenizer, cloze.prompt[: cloze.span[1]])[0]
    assert list(row.ids[: len(upto)]) == upto
    assert row.index == len(upto) - 1


def test_e3_a_token_merged_over_the_border_is_the_subjects() -> None:
    tokenizer = trained("bytes")
    text = "Yahoo!'s chief"
    ids, offsets = encode(tokenizer, text)
    row = locate(tokenizer, text, (0, 5))
    assert list(row.ids) == ids
    assert offsets[row.index][0] < 5 <= offsets[row.index][1]


def test_v12_the_sum_of_separate_lengths_is_one_off_with_bos() -> None:
    tokenizer = tiny_tokenizer(bos=True)
    cloze = Cloze(template="The capital of {} is", subject="France")
    row = locate(tokenizer, cloze.prompt, cloze.span)
    parts = [tokenizer(part)["input_ids"] for part in ("The capital of", " France")]
    assert row.index + 1 == sum(map(len, parts)) - 1
    assert tokenizer.decode(row.ids[row.index]).strip() in "France"


def test_e2_a_subject_named_twice_is_found_where_its_slot_is() -> None:
    tokenizer = tiny_tokenizer()
    first = Cloze(template="{} is to Apple what", subject="Apple")
    second = Cloze(template="Apple is to {} what", subject="Apple")
    assert first.prompt == second.prompt
    assert locate(tokenizer, first.prompt, first.span).index < locate(tokenizer, second.prompt, second.span).index


def test_e4_indices_are_never_negative_and_point_at_real_tokens(rewrites: list[Rewrite]) -> None:
    tokenizer = tiny_tokenizer(bos=True)
    rows = [made.row(tokenizer) for made in rewrites]
    _ids, mask = padded([row.ids for row in rows], torch.device("cpu"))
    for at, row in enumerate(rows):
        assert row.index >= 1
        assert int(mask[at, row.index]) == 1


def test_v8_rows_are_padded_on_the_right(rewrites: list[Rewrite]) -> None:
    tokenizer = tiny_tokenizer()
    rows = [made.row(tokenizer).ids for made in rewrites]
    ids, mask = padded(rows, torch.device("cpu"))
    for at, row in enumerate(rows):
        assert ids[at, : len(row)].tolist() == list(row)
        assert mask[at].tolist() == [1] * len(row) + [0] * (ids.shape[1] - len(row))


def test_e1_a_target_gets_exactly_one_leading_space(tokenizer: Any) -> None:
    prompt = "The capital of France is"
    given = {target_ids(tokenizer, prompt, target) for target in ("Rome", " Rome", "  Rome ")}
    assert len(given) == 1
    together = encode(tokenizer, f"{prompt} Rome")[0]
    assert [*encode(tokenizer, prompt)[0], *given.pop()] == together


def test_e11_no_special_token_stands_in_a_target(tokenizer: Any) -> None:
    ids = target_ids(tokenizer, "The capital of France is", "the United States of America")
    assert not set(ids) & {1, 2}


def test_a_target_that_merges_with_the_prompt_is_encoded_alone() -> None:
    tokenizer = trained("sentencepiece", bos=True)  # its merges know no words
    prompt = "The capital of France is"
    prefix, together = (encode(tokenizer, text)[0] for text in (prompt, f"{prompt} Rome"))
    assert together[: len(prefix)] != prefix
    assert list(target_ids(tokenizer, prompt, "Rome")) == tokenizer(" Rome", add_special_tokens=False)["input_ids"]


def test_teacher_forcing_leaves_out_the_last_target_token_and_keeps_the_index(rewrites: list[Rewrite]) -> None:
    row = rewrites[0].row(tiny_tokenizer())
    longer = row.plus((7, 8, 9))
    assert longer.ids == (*row.ids, 7, 8)
    assert longer.index == row.index


def test_a_slow_tokenizer_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(KEError, match="offsets"):
        encode(Slow(), "a")


def test_a_subject_that_no_token_holds_is_refused() -> None:
    with pytest.raises(KEError, match="belongs to its subject"):
        locate(tiny_tokenizer(), "The capital is", (4, 4))


def test_batches_hold_every_row_once_and_respect_the_limit() -> None:
    lengths = [5, 9, 1, 9, 3, 40]
    found = batches(lengths, 20)
    assert sorted(at for batch in found for at in batch) == list(range(6))
    assert all(len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= 20 for batch in found)
