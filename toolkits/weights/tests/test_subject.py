from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from ke_core.plugin import Cloze, KEError
from ke_plugin_hf.decoding.tokens import PromptTokenizer
from ke_plugin_hf.testing import TEXT, tiny_tokenizer
from ke_weights.rewrites import Rewrite
from ke_weights.subject import batches, encode, locate, padded, target_ids

PLACES = [
    ("{} is a citizen of", "Ellie Kemper"),
    ("The capital of {} is", "France"),
    ("The mother tongue of {}", "Danielle Darrieux"),
    ("In {}, the capital is", "Italy"),
    ("{}'s capital is", "Japan"),
    ("Apple makes what {} eats: Apple", "Apple"),
    ("The city of {}-on-Sea is in", "São Paulo"),
    ("{}, whose capital is", "France"),
    ("{}", "Steve Jobs"),
    ("{} is a singer", "Beyoncé"),
    ("The capital of {}'s state, Rome, is", "Café de São"),
    ("The capital of {} is", "日本"),
    ("The author of '{}' was born in 1903 in", "1984"),
]


SPECIAL = ["<unk>", "<s>", "</s>"]
SENTENCES = (*TEXT, "São Paulo-on-Sea, Apple's: 'eats' makes what")
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"


def by_bytes(pre_tokenizer: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    initial = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=initial, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def by_letters(*, words: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if words:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def with_byte_fallback(normalizer: Any, pre_tokenizer: Any = None) -> Tokenizer:
    """SentencePiece's BPE as in LLaMA and Gemma: unknown characters (here é and 日) become bytes."""
    written = json.loads(by_letters().to_str())
    for byte in range(256):
        written["model"]["vocab"][f"<0x{byte:02X}>"] = len(written["model"]["vocab"])
    written["model"] |= {"byte_fallback": True, "fuse_unk": True}
    written |= {"pre_tokenizer": None}
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def wordpiece(*, uncased: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=uncased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


BUILDERS: dict[str, Callable[[], Tokenizer]] = {
    "bytes": lambda: by_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "bytes-untrimmed": lambda: by_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)),
    "prefix-space": lambda: by_bytes(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "prefix-space-untrimmed": lambda: by_bytes(pre_tokenizers.ByteLevel(add_prefix_space=True, trim_offsets=False)),
    "tiktoken": lambda: by_bytes(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    ),
    "metaspace": by_letters,
    "wordless": lambda: by_letters(words=False),
    "llama": lambda: with_byte_fallback(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    ),
    "gemma": lambda: with_byte_fallback(
        normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous")
    ),
    "unigram": unigram,
    "wordpiece": lambda: wordpiece(uncased=False),
    "uncased": lambda: wordpiece(uncased=True),
}


@cache
def trained(kind: str, *, bos: bool = False, eos: bool = False) -> Any:
    tokenizer = BUILDERS[kind]()
    form = f"{'<s> ' * bos}$A{' </s>' * eos}"
    tokenizer.post_processor = processors.TemplateProcessing(single=form, special_tokens=[("<s>", 1), ("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


TOKENIZERS: dict[str, dict[str, Any]] = {
    "bytes": {"kind": "bytes"},  # GPT-2, GPT-J, NeoX, Qwen
    "bytes-bos": {"kind": "bytes", "bos": True},
    "bytes-bos-eos": {"kind": "bytes", "bos": True, "eos": True},
    "bytes-untrimmed": {"kind": "bytes-untrimmed"},
    "prefix-space-bos": {"kind": "prefix-space", "bos": True},
    "prefix-space-untrimmed": {"kind": "prefix-space-untrimmed"},
    "tiktoken": {"kind": "tiktoken"},  # GPT-4o, Qwen2
    "tiktoken-bos": {"kind": "tiktoken", "bos": True},  # LLaMA 3
    "metaspace-bos": {"kind": "metaspace", "bos": True},
    "metaspace-eos": {"kind": "metaspace", "eos": True},
    "metaspace-bos-eos": {"kind": "metaspace", "bos": True, "eos": True},
    "llama-bos": {"kind": "llama", "bos": True},  # LLaMA 1 and 2, Mistral, Phi-3
    "gemma-bos": {"kind": "gemma", "bos": True},
    "unigram-eos": {"kind": "unigram", "eos": True},  # T5, XLM
    "unigram-bos": {"kind": "unigram", "bos": True},
    "wordpiece-bos-eos": {"kind": "wordpiece", "bos": True, "eos": True},  # BERT
    "uncased-bos-eos": {"kind": "uncased", "bos": True, "eos": True},
}


@pytest.fixture(params=TOKENIZERS, ids=list(TOKENIZERS))
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return trained(**TOKENIZERS[request.param])


@pytest.mark.parametrize(("template", "subject"), PLACES)
@pytest.mark.parametrize("left", ["", "The city was. "])
def test_subject_token_is_the_last_token_up_to_the_subjects_end(
    tokenizer: Any, template: str, subject: str, left: str
) -> None:
    """Compared with the two-part rule, which is correct if no merge crosses the subject's end."""
    cloze = Cloze(template=left + template, subject=subject)
    row = locate(tokenizer, cloze.prompt, cloze.span)
    upto = encode(tokenizer, cloze.prompt[: cloze.span[1]])[0]
    assert list(row.ids[: len(upto)]) == upto
    assert row.index == len(upto) - 1


def test_token_across_the_border_belongs_to_the_subject() -> None:
    tokenizer = trained("bytes")
    text = "Yahoo!'s chief"
    ids, offsets = encode(tokenizer, text)
    row = locate(tokenizer, text, (0, 5))
    assert list(row.ids) == ids
    assert offsets[row.index][0] < 5 <= offsets[row.index][1]


@pytest.mark.parametrize("kind", ["bytes", "tiktoken"])
@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize(
    ("template", "subject"),
    [place for place in PLACES if place[0].find("{}") > 0 and place[0][place[0].find("{}") - 1] == " "],
)
def test_sum_of_separate_lengths_is_wrong_with_bos(kind: str, template: str, subject: str, *, bos: bool) -> None:
    """The published rule encodes the text before the subject and the subject separately, each with a BOS."""
    tokenizer = trained(kind, bos=bos)
    cloze = Cloze(template=template, subject=subject)
    row = locate(tokenizer, cloze.prompt, cloze.span)
    parts = [tokenizer(part)["input_ids"] for part in (template[: template.index(" {}")], f" {subject}")]
    assert sum(map(len, parts)) - 1 == row.index + bos


def test_bos_is_outside_the_subject_and_eos_is_removed(tokenizer: Any) -> None:
    row = locate(tokenizer, "Apple makes what", (0, 5))
    assert row.ids[-1] != 2
    if tokenizer("")["input_ids"][:1] == [1]:
        assert row.ids[0] == 1
        assert row.index >= 1


def test_subject_of_one_token_is_located(tokenizer: Any) -> None:
    """Each word is one token for some of the tokenizers, and each tokenizer has one of them."""
    ones = 0
    for word in ("capital", "state", "country", "France", "of", "is"):
        text = f"The head {word} the"
        ids, offsets = encode(tokenizer, text)
        within = [at for at, (low, high) in enumerate(offsets) if low < 9 + len(word) and high > 9]
        row = locate(tokenizer, text, (9, 9 + len(word)))
        assert row.index == within[-1]
        if len(within) == 1:
            ones += 1
            assert tokenizer.decode([ids[row.index]]).strip(" ▁").casefold() == word.casefold()
    assert ones


def test_split_letter_ends_with_its_last_byte() -> None:
    for kind in ("bytes", "tiktoken", "llama", "gemma"):
        tokenizer = trained(kind)
        row = locate(tokenizer, "The song of Beyoncé is", (12, 19))
        assert tokenizer.decode(row.ids[: row.index + 1]).endswith("Beyoncé")
        assert not tokenizer.decode(row.ids[: row.index]).endswith("é")
        assert len(tokenizer.tokenize("é")) >= 2


def test_repeated_subject_is_located_at_its_slot(tokenizer: Any) -> None:
    first = Cloze(template="{} is to Apple what", subject="Apple")
    second = Cloze(template="Apple is to {} what", subject="Apple")
    assert first.prompt == second.prompt
    one, other = (locate(tokenizer, cloze.prompt, cloze.span) for cloze in (first, second))
    assert one.ids == other.ids
    assert one.index < other.index
    assert one.index == len(encode(tokenizer, "Apple")[0]) - 1
    assert other.index == len(encode(tokenizer, "Apple is to Apple")[0]) - 1


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_truncation_settings_of_the_tokenizer_are_ignored(side: str) -> None:
    plain, set_up = (PreTrainedTokenizerFast(tokenizer_object=by_letters(), unk_token="<unk>") for _ in range(2))
    set_up.padding_side = set_up.truncation_side = side
    set_up.pad_token = "</s>"
    set_up.backend_tokenizer.enable_padding(direction=side, length=40)
    set_up.backend_tokenizer.enable_truncation(4, direction=side)
    text = "The mother tongue of Danielle Darrieux is"
    assert locate(set_up, text, (21, 38)) == locate(plain, text, (21, 38))


def test_indices_point_at_real_tokens(rewrites: list[Rewrite]) -> None:
    tokenizer = tiny_tokenizer(bos=True)
    rows = [made.row(tokenizer) for made in rewrites]
    _ids, mask = padded([row.ids for row in rows], torch.device("cpu"))
    for at, row in enumerate(rows):
        assert row.index >= 1
        assert int(mask[at, row.index]) == 1


def test_rows_are_padded_on_the_right(rewrites: list[Rewrite]) -> None:
    tokenizer = tiny_tokenizer()
    rows = [made.row(tokenizer).ids for made in rewrites]
    ids, mask = padded(rows, torch.device("cpu"))
    for at, row in enumerate(rows):
        assert ids[at, : len(row)].tolist() == list(row)
        assert mask[at].tolist() == [1] * len(row) + [0] * (ids.shape[1] - len(row))


def test_target_has_exactly_one_leading_space(tokenizer: Any) -> None:
    prompt = "The capital of France is"
    given = {target_ids(tokenizer, prompt, target) for target in ("Rome", " Rome", "  Rome ")}
    assert len(given) == 1
    together = encode(tokenizer, f"{prompt} Rome")[0]
    assert [*encode(tokenizer, prompt)[0], *given.pop()] == together


def test_targets_have_no_special_tokens(tokenizer: Any) -> None:
    ids = target_ids(tokenizer, "The capital of France is", "the United States of America")
    assert not set(ids) & {1, 2}


TARGETS = ("Rome", "the United States of America", "W. G. Sebald")


@pytest.mark.parametrize("target", TARGETS)
def test_target_ids_continue_prompt_ids(tokenizer: Any, target: str) -> None:
    """Ids are concatenated, never text."""
    prompt = "The capital of France is"
    ids = target_ids(tokenizer, prompt, target)
    assert [*encode(tokenizer, prompt)[0], *ids] == encode(tokenizer, f"{prompt} {target}")[0]


@pytest.mark.parametrize(
    ("kind", "holds"), [("bytes", True), ("tiktoken", True), ("metaspace", False), ("llama", False)]
)
def test_decoding_all_but_the_last_id_differs_for_sentencepiece(kind: str, *, holds: bool) -> None:
    """Decoding drops the mark of a word's start, so the piece would be appended without a space."""
    tokenizer = trained(kind, bos=True)
    prompt = "The capital of France is"
    kept = []
    for target in TARGETS:
        ids = list(target_ids(tokenizer, prompt, target))
        through_text = encode(tokenizer, prompt + tokenizer.decode(ids[:-1]))[0]
        kept.append(through_text == encode(tokenizer, prompt)[0] + ids[:-1])
    assert all(kept) == any(kept) == holds


def test_target_that_merges_with_the_prompt_is_encoded_separately_as_in_scoring() -> None:
    tokenizer = trained("wordless", bos=True)  # its merges know no words
    prompt = "The capital of France is"
    prefix, together = (encode(tokenizer, text)[0] for text in (prompt, f"{prompt} Rome"))
    assert together[: len(prefix)] != prefix
    ids = list(target_ids(tokenizer, prompt, "Rome"))
    assert ids == PromptTokenizer(tokenizer).continuation(prompt, prefix, " Rome")


def test_teacher_forcing_omits_the_last_target_token(rewrites: list[Rewrite]) -> None:
    row = rewrites[0].row(tiny_tokenizer())
    longer = row.plus((7, 8, 9))
    assert longer.ids == (*row.ids, 7, 8)
    assert longer.index == row.index


def test_slow_tokenizer_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(KEError, match="offsets"):
        encode(Slow(), "a")


def test_subject_without_tokens_is_refused() -> None:
    with pytest.raises(KEError, match="belongs to its subject"):
        locate(tiny_tokenizer(), "The capital is", (4, 4))


def test_batches_contain_every_row_once_within_the_limit() -> None:
    lengths = [5, 9, 1, 9, 3, 40]
    found = batches(lengths, 20)
    assert sorted(at for batch in found for at in batch) == list(range(6))
    assert all(len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= 20 for batch in found)
