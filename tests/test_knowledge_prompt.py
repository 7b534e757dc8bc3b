"""PokeMQA's knowledge prompt: the benchmarks provide the key entity of each question as gold material."""

from __future__ import annotations

from itertools import islice

from ke_core.runner.requests import RequestBuilder
from ke_core.runner.session import allowed
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_pokemqa import PokemqaConfig, oracle
from ke_plugin_pokemqa.editor import Pokemqa
from ke_testing.fakes import ScriptedModel, make_session

CONFIG = PokemqaConfig(detector="nearest", threshold=0.8, knowledge="dataset")


def test_knowledge_prompts_name_the_key_entity_and_its_description() -> None:
    dataset = Atlas(config=AtlasConfig())
    cases = list(islice(dataset.cases(), 10))
    model = ScriptedModel(lambda _prompt: "\nFinal answer: Rome")
    material = allowed(dataset.material(), oracle(CONFIG), editor="pokemqa")
    asker = RequestBuilder(dataset=dataset, styles=("direct",), edited_form="question", own_prompt=True)
    asks = [ask for case in cases for unit in asker.after(case, {}, edited=True) for ask in unit.questions]
    with Pokemqa(CONFIG).edit(make_session(model, material=material), ()) as edited:
        edited.answer(asks)
    heads = {case.id: case.facts_after[0].subject.label for case in cases}
    keys = dict(prompt.splitlines()[-2:] for prompt in model.prompts)
    for ask in asks:
        key = keys[f"Question: {ask.texts[0]}"]
        assert key.startswith("Key entity: ")
        assert key.endswith((", a city.", ", a country."))
        if ask.query.startswith("multi-hop"):
            assert key.startswith(f"Key entity: {heads[ask.case]}, a ")


def test_no_entity_reaches_the_editor_without_the_option() -> None:
    assert oracle(PokemqaConfig()) == ()
    assert "question-entities" not in allowed(Atlas(config=AtlasConfig()).material(), (), editor="pokemqa")
