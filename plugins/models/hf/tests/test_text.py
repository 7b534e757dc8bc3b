"""Tokenizers with byte fallback: stop strings, and incomplete characters."""

from copy import copy
from functools import cache
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import PreTrainedTokenizerFast

from ke_core.plugin import Generate, Score
from ke_plugin_hf.decoding.text import Continuation, decode
from ke_plugin_hf.decoding.tokens import PromptTokenizer, inside_ids
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_model, tiny_tokenizer

TEMPLATE = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
LETTERS = ["▁", "a", "b", "[", "]"]
MERGES = [("▁", "a"), ("▁", "b"), ("]", "▁")]
SPECIAL = ["<unk>", "<s>", "</s>"]


@cache
def llama(*, merges=2):
    """Like LLaMA-2: a space before every text, and byte tokens for characters without a piece, such as "\\n"."""
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS, *map("".join, MERGES[:merges])]
    vocabulary = {token: at for at, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, MERGES[:merges], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )


def coded(text):
    """Encode like generated text: without the space before a text."""
    return llama()("\n" + text, add_special_tokens=False)["input_ids"][2:]


def written(prompt, tokens, stops=(), most=64, *, chat=False, put=""):
    """``put``: the rendered prompt."""
    request = Generate(prompt=prompt, stop=stops, max_tokens=most)
    row = Continuation(llama(), llama()(put or prompt)["input_ids"], request, frozenset({2}), chat)
    for token in tokens:
        if row.add(token):
            break
    return row


@pytest.mark.parametrize("prompt", ["a 가나", "a é", "a 😀", "가😀나é", "a b", ""])
def test_a_stop_string_right_after_the_prompt_is_found_whatever_the_prompt_ends_in(prompt):
    row = written(prompt, coded("\nbbbb"), ("\n",))
    assert (row.finish, row.text, len(row.tokens)) == ("stop", "", 1)


@pytest.mark.parametrize("prompt", ["a 가나", "a 😀", "a b"])
@pytest.mark.parametrize("text", ["가나다", "ab 가 é😀", " b\n"])
def test_texts_are_complete_after_any_prompt(prompt, text):
    row = written(prompt, [*coded(text), 2])
    assert (row.finish, row.text) == ("eos", text)


@pytest.mark.parametrize("text", ["가나다라마바", "é가나다라마", "a가나다라마", "aa가나다라마바"])
def test_a_stop_string_after_many_bytes_is_found_wherever_the_last_few_tokens_begin(text):
    row = written("a b", [*coded(text + "\n"), 2], ("\n",))
    assert (row.finish, row.text) == ("stop", text)
    assert len(row.tokens) == len(coded(text + "\n"))


@pytest.mark.parametrize("most", range(1, 10))
def test_an_incomplete_character_is_one_replacement_sign(most):
    row = written("a 가", coded("가나다"), most=most)
    assert row.text == "가나다"[: most // 3] + ("\ufffd" if most % 3 else "")
    assert row.finish == "length"


def test_an_invalid_byte_hides_no_stop_string_or_text():
    row = written("a", [llama().convert_tokens_to_ids("<0xEB>"), *coded("가\nb")], ("\n",))
    assert (row.finish, row.text) == ("stop", "\ufffd가")


@pytest.mark.parametrize(
    ("message", "text", "read"),
    [
        ("\n\nab\nb", " ab", "\n\nab\n"),  # what stands before it ends nothing
        ("ab a\nb:\nb", " ab a", "ab a\n"),
        ("a a\nb: ab\nb", " ab", "a a\nb: ab\n"),  # the prompt's last two lines once more
        ("b: ab\nb", " ab", "b: ab\n"),
        ("a a\nbb\n", " a a", "a a\nbb"),  # which this does not become: known with the letter that differs
        ("a a\n", " a a", "a a\n"),
        ("b: a a\nb", " a a", "b: a a\n"),  # an example has the same answer
    ],
)
def test_a_stop_string_ends_a_message_where_it_would_end_its_continuation(message, text, read):
    row = written("b: a a\na a\nb:", [*coded(message), 2], ("\n",), chat=True)
    assert (row.finish, row.text) == ("stop", text)
    assert row.tokens == [*coded(read), *([2] if read == message else [])]


@pytest.mark.parametrize(("opened", "begins"), [("", "<think>"), ("<think>\n", "")], ids=["model", "template"])
def test_stop_strings_in_reasoning_are_ignored(opened, begins):
    """Some templates open the reasoning themselves, after the prompt."""

    def message(text, most=64):
        prompt = "b: a a\na a\nb:"
        return written(prompt, [*coded(begins + text), 2], ("\n",), most, chat=True, put=prompt + opened)

    row = message("ab\nb: b\n</think>\n\nab\nb")
    assert (row.finish, row.text) == ("stop", " ab")
    row = message("ab\nab", most=3 + len(begins))
    assert (row.finish, row.text) == ("length", "")


def test_a_generated_replacement_sign_is_kept():
    assert decode(llama(), coded("a\ufffd가")) == "a\ufffd가"


def test_byte_level_texts_equal_the_tokenizers():
    tokenizer = tiny_tokenizer()
    ids = tokenizer("<0xEB> 가나 😀 a\n")["input_ids"]
    for first, last in pairwise(range(0, len(ids), 2)):
        for some in (ids[first:], ids[:last]):
            assert decode(tokenizer, some) == tokenizer.decode(some, clean_up_tokenization_spaces=False)


def scored(prompt, text, *, chat, merges=2):
    tokenizer = llama(merges=merges)
    coder = PromptTokenizer(tokenizer, chat)
    (ids,) = coder.prompts([prompt])
    return tokenizer.convert_ids_to_tokens(coder.continuation(prompt, ids, text))


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(("text", "tokens"), [(" b", ["▁b"]), ("b", ["b"]), ("\nb", ["<0x0A>", "b"]), ("", [])])
def test_a_continuation_is_encoded_in_its_context(text, tokens, chat):
    assert scored("a", text, chat=chat) == tokens


def test_a_merged_continuation_gets_no_extra_space():
    assert scored("a]", " b", chat=False, merges=3) == ["▁b"]
    assert scored("a", " b", chat=True, merges=3) == ["▁b"]
    assert scored("a]", " ab", chat=False, merges=3) == ["▁a", "b"]


@pytest.mark.parametrize("chat", [False, True])
def test_byte_level_continuations_are_encoded_separately(chat):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    coder = PromptTokenizer(tokenizer, chat)
    for prompt in ("", "Apple", "Who is it?\n", "Angela Mer"):
        (ids,) = coder.prompts([prompt])
        for text in (" Paris", "Paris", "\nParis", "  was born", " \nRome"):
            whole = tokenizer(("[" + prompt + "]" if chat else prompt) + text)["input_ids"]
            alone = tokenizer(text)["input_ids"]
            assert coder.continuation(prompt, ids, text) == (whole[len(ids) :] if whole[: len(ids)] == ids else alone)


@pytest.mark.parametrize("tokenizer", [llama(), tiny_tokenizer()], ids=["llama", "bytes"])
@pytest.mark.parametrize("ending", ["\n", "\n\n", "]"])
def test_a_message_after_a_line_break_is_scored_without_the_space_of_a_continuation(tokenizer, ending):
    """The model writes "Rome" after "<|im_start|>assistant\\n", and " Rome" after "[/INST]"."""
    template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}{% if add_generation_prompt %}[a]" + ending
    tokenizer = copy(tokenizer)
    tokenizer.chat_template = template + "{% endif %}"
    coder = PromptTokenizer(tokenizer, chat=True)
    for prompt in ("a b", "a\n"):
        (ids,) = coder.prompts([prompt])
        for text in ("b", "ab a", "\u201cb\u201d", "1912"):
            scored, message = (coder.continuation(prompt, ids, f"{space}{text}") for space in (" ", ""))
            assert (scored == message) == (ending != "]")
        for text in ("\nb", "  b", " "):
            assert coder.continuation(prompt, ids, text) == inside_ids(tokenizer, text)
    plain = PromptTokenizer(tokenizer)
    (ids,) = plain.prompts(["a\n"])
    assert plain.continuation("a\n", ids, " b") == inside_ids(tokenizer, " b")


def test_continuations_are_encoded_as_they_are_scored():
    plain = tiny_model("llama")
    tokenizer = copy(plain.tokenizer)
    tokenizer.chat_template = TEMPLATE + "{{ '\\n' }}"
    chat = HFModel.from_parts(plain.module, tokenizer, id="tiny:chat", chat=True)
    for model, ids in ((plain, plain.tokenizer(" Rome")["input_ids"]), (chat, plain.tokenizer("Rome")["input_ids"])):
        assert model.encode_continuation("a", " Rome") == ids
        with torch.no_grad():
            logits = model.module(torch.tensor([[*model.encode("a"), *ids]])).logits[0, -len(ids) - 1 : -1]
        logs = torch.log_softmax(logits, -1)
        (scored,) = model.score([Score(prompt="a", continuations=(" Rome",))])
        assert scored.logprobs[0] == pytest.approx(
            sum(float(row[one]) for row, one in zip(logs, ids, strict=True)), abs=1e-4
        )


def test_a_chat_model_scores_the_tokens_of_the_text():
    plain = tiny_model("llama")
    chat = HFModel.from_parts(plain.module, llama(), id="tiny:chat", chat=True)
    (said,) = chat.score([Score(prompt="a", continuations=(" b", " a b"))])
    assert said.tokens == (1, 2)
    ids = [*llama()("[a]", add_special_tokens=False)["input_ids"], *coded(" b")]
    with torch.no_grad():
        logits = plain.module(torch.tensor([ids])).logits[0, -2]
    assert said.logprobs[0] == pytest.approx(float(torch.log_softmax(logits, -1)[ids[-1]]), abs=1e-4)
