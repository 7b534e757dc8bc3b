"""All backends equal transformers' own generation, and the fastest correct one is used."""

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    GPTNeoConfig,
    MambaConfig,
    MistralConfig,
    OPTConfig,
)

from ke_core.plugin import Generate, ModelUnavailable
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.groups import common, grouped
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import FAMILIES, randomize, tiny_model, tiny_tokenizer

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 12
ENDS = [
    "Question: Who is Tim Cook? Answer:",
    "Who is Angela Merkel of Germany",
    "he",
    "Question: the author of Misery?\n",
]
PROMPTS = [HEAD + end for end in ENDS]
SMALL = {"vocab_size": 400, "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0}
GROUPED = {**SMALL, "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4, "num_attention_heads": 4,
           "num_key_value_heads": 2, "max_position_embeddings": 1024}  # fmt: skip
OTHERS = {
    "bloom": BloomConfig(**SMALL, hidden_size=64, n_layer=4, n_head=4),
    "falcon-alibi": FalconConfig(**SMALL, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, alibi=True),
    "falcon": FalconConfig(
        **SMALL, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, alibi=False, max_position_embeddings=1024
    ),
    "gptneo": GPTNeoConfig(
        **SMALL, hidden_size=64, num_layers=4, num_heads=4, attention_types=[[["global", "local"], 2]], window_size=32,
        max_position_embeddings=1024,
    ),
    "gemma2": Gemma2Config(**GROUPED, head_dim=16, sliding_window=2000, attn_logit_softcapping=2.0),
    "gemma2-windowed": Gemma2Config(**GROUPED, head_dim=16, sliding_window=40, attn_logit_softcapping=2.0),
    "mistral-windowed": MistralConfig(**GROUPED, sliding_window=40),
    "opt": OPTConfig(
        **SMALL, hidden_size=64, ffn_dim=176, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=1024,
        word_embed_proj_dim=64,
    ),
    "mamba": MambaConfig(**SMALL, hidden_size=64, num_hidden_layers=2, state_size=8),
}  # fmt: skip


def other_model(name: str, **settings: str) -> HFModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)  # one that draws its own weights draws the same every time
        module = AutoModelForCausalLM.from_config(OTHERS[name], **settings)
    if name != "mamba":
        randomize(module, 0)
    return HFModel.from_parts(module, tiny_tokenizer(), id=name)


def reference(model: HFModel, prompt: str, tokens: int) -> str:
    ids = torch.tensor([model.encode(prompt)])
    written = model.module.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
    return model.decode(written[0, ids.shape[1] :].tolist())


def texts(model: HFModel, prompts: list[str], tokens: int = 10) -> list[str]:
    results = model.generate([Generate(prompt=prompt, max_tokens=tokens) for prompt in prompts])
    return [result.text for result in results]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_generates_the_same_text_as_transformers(family):
    model = tiny_model(family)
    assert texts(model, PROMPTS) == [reference(model, prompt, 10) for prompt in PROMPTS]
    assert texts(model, ENDS) == [reference(model, prompt, 10) for prompt in ENDS]


@pytest.mark.parametrize(("family", "used"), [(f, "copied" if f == "gptj" else "shared") for f in FAMILIES])
def test_the_prefix_is_shared_or_copied_depending_on_the_attention(family, used):
    model = tiny_model(family)
    texts(model, PROMPTS, 2)
    assert model.backends[used] == ""
    if used == "copied":
        assert "0 of 4 layers called" in model.backends["shared"]


@pytest.mark.parametrize(
    ("name", "used"),
    [("bloom", "copied"), ("falcon-alibi", "copied"), ("falcon", "copied"), ("gptneo", "copied"), ("gemma2", "shared"),
     ("gemma2-windowed", "copied"), ("mistral-windowed", "copied"), ("opt", "shared"), ("mamba", "")],
)  # fmt: skip
def test_unsupported_attention_is_detected(name, used):
    # Gemma 2 caps scores, which transformers' sdpa leaves out: its reference is the eager form.
    model = other_model(name, **({"attn_implementation": "eager"} if name.startswith("gemma2") else {}))
    assert texts(model, PROMPTS) == [reference(model, prompt, 10) for prompt in PROMPTS]
    holding = [way for way, wrong in model.backends.items() if not wrong]
    assert holding == ([used] if used else [])


def test_generation_defaults_of_the_model_are_ignored():
    model = other_model("mamba")
    before = texts(model, PROMPTS)
    own = model.module.generation_config
    own.repetition_penalty, own.no_repeat_ngram_size, own.min_length = 5.0, 1, 40
    own.suppress_tokens = list(range(50))
    assert texts(other_model("mamba"), PROMPTS) == texts(model, PROMPTS) == before
    assert model.module.generation_config is own


def test_an_encoder_is_refused():
    config = BertConfig(vocab_size=400, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, is_decoder=False)
    module = AutoModelForCausalLM.from_config(config)
    randomize(module, 0)
    model = HFModel.from_parts(module, tiny_tokenizer(), id="bert")
    with pytest.raises(ModelUnavailable, match="not causal"):
        model.generate([Generate(prompt=PROMPTS[0], max_tokens=2)])


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_dtypes_generate(dtype):
    model = tiny_model("llama", dtype=dtype)
    assert all(isinstance(text, str) for text in texts(model, PROMPTS))
    assert model.backends["shared"] == ""
    assert {parameter.dtype for parameter in model.module.parameters()} == {getattr(torch, dtype)}


def test_the_attention_setting_is_restored():
    model = tiny_model("llama")
    before = model.state()
    texts(model, PROMPTS, 2)
    assert model.module.config._attn_implementation == "sdpa"
    assert model.state() == before


def test_the_prefix_is_computed_once_and_again_only_for_other_weights(monkeypatch):
    read = []
    original = Forward.prefix

    def counted(self, ids, *known):
        read.append(len(ids) - (len(known[0].ids) if known else 0))
        return original(self, ids, *known)

    model = tiny_model("llama")
    texts(model, PROMPTS, 2)
    monkeypatch.setattr(Forward, "prefix", counted)
    again = texts(model, PROMPTS[:2], 2)  # these two share a little more than the four did
    assert sum(read) < 10
    assert texts(model, PROMPTS[:1], 2) == again[:1]  # a row alone finds what is kept
    read.clear()
    with torch.no_grad():
        model.module.lm_head.weight.mul_(2)
    texts(model, PROMPTS, 2)
    assert sum(read) > 100


def test_a_prefix_that_does_not_fit_is_read_with_each_row(monkeypatch):
    model = tiny_model("llama")
    wanted = texts(model, PROMPTS)
    model._runner.prefixes.clear()

    def cramped(*_args):
        raise MemoryError

    monkeypatch.setattr(Forward, "prefix", cramped)
    model._runner.backends.why["plain"] = ""
    model._runner.backends._forwards["plain"] = Forward(model.module, "plain")
    assert texts(model, PROMPTS) == wanted


def test_the_prefix_is_computed_from_tokens():
    model = tiny_model("llama")
    head = "Question: What is the capital of" * 10 + " "  # the space joins the next word's token
    prompts = [head + "France", head + "Italy", head]
    assert model.encode(head)[-1] != model.encode(head + "France")[len(model.encode(head)) - 1]
    assert texts(model, prompts) == [reference(model, prompt, 10) for prompt in prompts]


def test_requests_can_have_several_shared_prefixes():
    other = "Thought: the question asks for a person.\n" * 15
    prompts = [*PROMPTS, *(other + end for end in ENDS), "alone"]
    mixed = [prompts[at] for at in (0, 8, 4, 1, 5, 2, 6, 3, 7)]
    model = tiny_model("qwen2")
    assert texts(model, mixed) == [reference(model, prompt, 10) for prompt in mixed]


def test_rows_are_grouped_if_a_longer_prefix_saves_tokens():
    long, longer = list(range(500)), list(range(500, 1100))
    rows = [[*long, 1], [*longer, 2], [*long, 3], [*longer, 4], [7], [*long, 5]]
    assert [(group.rows, group.prefix) for group in grouped(rows)] == [((0, 2, 5), 500), ((1, 3), 600), ((4,), 0)]


def test_a_slightly_longer_prefix_does_not_split_a_batch():
    long = list(range(500))
    rows = [[*long, 9, 9, number] for number in range(3)] + [[*long, number] for number in range(3)]
    assert len(grouped(rows)) == 1
    assert grouped(rows)[0].prefix == 500
    assert grouped([]) == []
    assert common((1, 2, 3), [1, 2, 4]) == 2
