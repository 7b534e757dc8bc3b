from pathlib import Path

from transformers import AutoTokenizer

from ke_plugin_hf import convert
from ke_plugin_hf.testing import tiny_tokenizer


def test_special_tokens_are_those_of_the_file_whatever_transformers_reads(tmp_path, monkeypatch):
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = "<bos>"  # as transformers 5.17 does for the file of smollm2-135m
    right = {"eos_token_id": tokenizer.convert_tokens_to_ids("<eos>"), "pad_token_id": None}
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_args, **_more: tokenizer)
    convert._tokenizer(Path("model.gguf"), tmp_path, right)
    monkeypatch.undo()
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token == "<eos>"
