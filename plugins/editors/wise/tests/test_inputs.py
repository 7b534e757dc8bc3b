from __future__ import annotations

from ke_plugin_wise.inputs import TrainingTexts
from ke_testing.examples import MOVE_TOWER
from ke_weights.plugin import read_corpus, rewrite
from ke_weights.testing.stateful import chat_model


def test_target_of_a_chat_model_is_the_answer_that_it_writes() -> None:
    chat, made = chat_model(), rewrite(MOVE_TOWER)
    texts = TrainingTexts(templates=("{}", "So. {}"), documents=read_corpus().documents)
    inputs = texts.of(chat, made, seed=0, number=0)
    assert inputs.prompts == tuple(tuple(chat.encode(text)) for text in (made.prompt, f"So. {made.prompt}"))
    assert list(inputs.target) == chat.tokenizer(made.target, add_special_tokens=False)["input_ids"]
