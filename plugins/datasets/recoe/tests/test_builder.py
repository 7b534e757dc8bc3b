"""The builder on a small graph and on the atlas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from ke_benchmarks.audit import Audit
from ke_benchmarks.graph import BuildTools, Graph, load_atlas
from ke_benchmarks.soundness import problems
from ke_core.plugin import BadData, Case
from ke_plugin_recoe import ATLAS, GROUPS, RecoeAtlasConfig, RecoeBuild
from ke_plugin_recoe.builder import UNKNOWN, RecoeBuilder
from ke_plugin_recoe.counterfactuals import consistent, swapped, world_of
from ke_plugin_recoe.dataset import ATLAS_CASES, Recoe, RecoeAtlas, atlas_records
from ke_plugin_recoe.records import RecoeRecord, StatedFact, number_of
from ke_plugin_recoe.schemes import between
from ke_plugin_recoe.words import read_words


def stated(sentence: str, triple: str) -> StatedFact:
    return StatedFact(fact=sentence, atomic_facts=(sentence,), atomic_triples=(triple,))


def built(graph: Graph, *, tools: BuildTools | None = None, **options: Any) -> list[RecoeRecord]:
    return list(RecoeBuilder(config=RecoeBuild(**options), words={}).built(graph, tools or BuildTools(cases=60)))


# --- swap and consistency ------------------------------------------------------------------------------------


def test_swap_exchanges_all_facts() -> None:
    six = StatedFact(
        fact="The Gulls won six cups, the last in 1988.",
        atomic_facts=("The Gulls won six cups.", "The Gulls won a cup in 1988."),
        atomic_triples=("(Gulls; won; six cups)", "(Gulls; won a cup in; 1988)"),
    )
    five = stated("The Terns won five cups.", "(Terns; won; five cups)")
    gulls, terns = swapped((six,), (five,), "Gulls", "Terns")
    assert gulls == (stated("The Gulls won five cups.", "(Gulls; won; five cups)"),)
    assert terns[0].atomic_facts == ("The Terns won six cups.", "The Terns won a cup in 1988.")
    assert terns[0].atomic_triples[1] == "(Terns; won a cup in; 1988)"


@pytest.mark.parametrize(("one", "other"), [("Gulls", "gulls"), ("Gulls", "Young Gulls"), ("Gulls", "Auks")])
def test_ambiguous_swap_is_rejected(one: str, other: str) -> None:
    first = stated("The Gulls won six cups.", "(Gulls; won; six cups)")
    with pytest.raises(ValueError, match=r"share a subject|does not name its subject"):
        swapped((first,), (stated("The Young Gulls won none.", "(Young Gulls; won; none)"),), one, other)


def river(length: int, other: str) -> RecoeRecord:
    """Return a question about the longer of two rivers, which exchange their lengths."""
    facts = (stated("The Ouda is 900 km long.", "(Ouda; length in km; 900)"),)
    return RecoeRecord(
        scheme="superlative",
        question=f"Which is longer, the Ouda or the {other}?",
        answer="Ouda",
        counterfactual_answer=other,
        answer_alias=(),
        counterfactual_answer_alias=(),
        facts_per_choice={
            "choice_1_facts": facts,
            "choice_2_facts": (stated(f"The {other} is {length} km long.", f"({other}; length in km; {length})"),),
        },
        counterfactuals_per_choice={
            "choice_1_counterfactuals": (stated(f"The Ouda is {length} km long.", f"(Ouda; length in km; {length})"),),
            "choice_2_counterfactuals": (stated(f"The {other} is 900 km long.", f"({other}; length in km; 900)"),),
        },
    )


def test_one_of_contradicting_records_is_kept() -> None:
    """The two records give one river different lengths."""
    pair = [river(700, "Wael"), river(300, "Tarn")]
    assert {len(consistent(pair, seed)) for seed in range(5)} == {1}
    assert {consistent(pair, seed)[0].counterfactual_answer for seed in range(20)} == {"Wael", "Tarn"}
    assert consistent([pair[0], pair[0]], 0) == [pair[0], pair[0]]
    assert len(consistent([pair[0], evolve(pair[1], scheme="comparative")], 0)) == 2


# --- any graph -----------------------------------------------------------------------------------------------


def follows(record: RecoeRecord) -> Iterator[tuple[str, str]]:
    """Yield the answer computed from the facts, and the given one, before and after."""
    for facts, answer in (
        ((*record.facts(), *record.unchanged()), record.answer),
        ((*record.counterfactuals(), *record.unchanged()), record.counterfactual_answer),
    ):
        value = {a.triple.subject: float(number_of(a.triple.object)) for fact in facts for a in fact.atoms()}
        names = list(value)
        question = record.question
        match record.scheme:
            case "superlative":
                best = max if ("largest" in question or "tallest" in question) else min
                yield best(names, key=lambda name: value[name]), answer
            case "sorting":
                down = "from the largest" in question
                yield ", ".join(sorted(names, key=lambda name: value[name], reverse=down)), answer
            case "counting":
                yield f"{value[names[0]]:.0f}", answer
            case "aggregation":
                yield f"{sum(value.values()):.0f}", answer
            case "subtraction":
                first, second = sorted(names, key=lambda n: question.index(f"{n} ") if f"{n} " in question else 10**6)
                yield f"{value[first] - value[second]:.0f}", answer
            case _:
                yield from compared(question, value, answer)


def compared(question: str, value: Mapping[str, float], answer: str) -> Iterator[tuple[str, str]]:
    """Yield the answer of a comparison computed from the numbers, and the given one."""
    named = sorted((name for name in value if name in question), key=question.index)
    bound = question.partition("more than ")[2].split(" ")[0].replace(",", "")
    if question.startswith("Does"):
        right = value[named[0]] > float(bound) if bound else value[named[0]] > value[named[1]]
        yield ("no", "yes")[right != ("smaller" in question)], answer
    elif bound:
        (only,) = [name for name in value if value[name] > float(bound)]
        yield only, answer
    else:
        yield (min if "smaller" in question else max)(value, key=lambda name: value[name]), answer


def test_answers_follow_from_the_facts() -> None:
    for record in atlas_records():
        for said, answer in follows(record):
            assert said == answer, record.question


def test_six_schemes_from_any_graph(graph: Graph) -> None:
    records = built(graph)
    assert {record.scheme for record in records} == set(GROUPS)
    assert {len([r for r in records if r.scheme == "superlative"]) > 3}
    questions = {record.question for record in records}
    assert len(questions) == len(records)
    (total,) = [r for r in records if r.scheme == "aggregation"][:1]
    assert total.question.startswith('What is the number of answers to "What does Shop')
    assert len(total.facts_per_choice["direct_facts"]) == 1


def test_aliases_of_other_entities_are_excluded(graph: Graph) -> None:
    for record in built(graph):
        for name in (*record.answer_alias, *record.counterfactual_answer_alias):
            assert not name.startswith("Shop") or "," in name


def test_records_depend_on_graph_and_seed(graph: Graph) -> None:
    assert built(graph) == built(graph)
    assert built(graph) != built(graph, tools=BuildTools(cases=60, seed=1))


def test_compared_numbers_differ_by_the_margin(graph: Graph) -> None:
    for record in built(graph, margin=4):
        if GROUPS[record.scheme or ""] == "swap":
            facts = (*record.facts(), *record.unchanged())
            numbers = sorted(float(number_of(atom.triple.object)) for fact in facts for atom in fact.atoms())
            assert all(high >= 4 * low for low, high in pairwise(numbers))


def test_records_with_unrecalled_answers_are_dropped(graph: Graph) -> None:
    why: Counter[str] = Counter()
    tools = BuildTools(
        cases=60,
        recalls=lambda asked: ["Does" in one.question for one in asked],
        dropped=lambda reason: why.update([reason]),
    )
    records = built(graph, tools=tools)
    assert records
    assert all(record.question.startswith("Does") for record in records)
    assert set(why) == {UNKNOWN}


def test_questions_can_be_rewritten(graph: Graph) -> None:
    tools = BuildTools(cases=6, phrase=lambda texts: [f"Tell me: {text}" for text in texts])
    assert all(record.question.startswith("Tell me: ") for record in built(graph, tools=tools))


def test_unusable_graph_is_rejected(graph: Graph) -> None:
    bare = evolve(graph, links={}, triples={})
    with pytest.raises(BadData, match="no usable question of any scheme"):
        built(bare)
    with pytest.raises(BadData, match="has no relation 'owner'"):
        built(graph, relations="owner")


def test_entities_with_ambiguous_labels_are_excluded(graph: Graph) -> None:
    """Records name entities by label only."""
    first, second = graph.nodes["shop:00"], graph.nodes["shop:01"]
    twin = evolve(second, entity=evolve(second.entity, label=first.entity.label))
    for record in built(evolve(graph, nodes={**graph.nodes, "shop:01": twin})):
        assert "Shop 0" not in {record.answer, record.counterfactual_answer}


@pytest.mark.parametrize(
    ("low", "high", "bound"), [(90, 900, "300"), (1098580, 1648000, "1,300,000"), (1, 1.001, ""), (8, 12, "10")]
)
def test_threshold_is_a_round_number_between_both(low: float, high: float, bound: str) -> None:
    assert between(low, high) == bound


def test_option_words(tmp_path: Any, graph: Graph) -> None:
    path = tmp_path / "words.json"
    path.write_text(json.dumps({"sells": {"many": "wares of {}", "how_many": "How many wares does {} sell?"}}))
    builder = RecoeBuilder(config=RecoeBuild(relations="sells"), words=read_words(str(path)))
    questions = [record.question for record in builder.built(graph, BuildTools(cases=20))]
    assert any(question.startswith("How many wares does Shop") for question in questions)
    path.write_text(json.dumps({"sells": {"meny": "wares of {}"}}))
    with pytest.raises(BadData, match=r"words\.json, relation sells: unknown field 'meny'"):
        read_words(str(path))
    path.write_text(json.dumps({"sells": {"many": "wares"}}))
    with pytest.raises(BadData, match="many needs exactly one"):
        read_words(str(path))


# --- the atlas -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas() -> list[Case]:
    return list(RecoeAtlas(variant=ATLAS, config=RecoeAtlasConfig()).cases())


def test_atlas_has_60_cases_per_scheme(atlas: list[Case]) -> None:
    assert Counter(case.tags["scheme"] for case in atlas) == dict.fromkeys(GROUPS, 60)
    assert len(atlas) == ATLAS_CASES == 360
    assert not problems(atlas)


def test_all_cases_share_one_world(atlas: list[Case]) -> None:
    """No two records change one fact differently."""
    world: dict[tuple[str, str], frozenset[str]] = {}
    for record in atlas_records():
        for place, objects in world_of(record).items():
            assert world.setdefault(place, objects) == objects


def test_atlas_has_no_audit_errors(atlas: list[Case]) -> None:
    found = Audit.of("recoe-atlas", atlas, edited=(1, 100, len(atlas)), rule="question")
    assert not found.conflicts
    assert not found.duplicates
    assert found.pathless == 0
    assert [len(one.on_edited) for one in found.contaminations] == [0, 0, 0]


def test_edits_of_the_atlas_have_cloze_and_old_object(atlas: list[Case]) -> None:
    for case in atlas:
        for edit in case.edits:
            assert edit.cloze is not None
            assert edit.before is not None
            assert edit.operation == "replace"


def test_questions_contain_no_key() -> None:
    for record in atlas_records():
        assert ":" not in record.question
        assert "{" not in record.question


def test_records_can_be_written_and_read(own: Callable[..., Recoe], atlas: list[Case]) -> None:
    dataset = own(*(record.json() for record in atlas_records()))
    assert list(dataset.cases()) == atlas


def test_counts_match_the_graph() -> None:
    graph = load_atlas()
    facts = {fact.fact for r in atlas_records() if r.scheme == "counting" for fact in r.facts()}
    known = {
        f"The number of countries that share a land border with {graph.mention(one)} is "
        f"{len(graph.objects(one, 'neighbour'))}."
        for one in graph.subjects("neighbour")
    }
    assert facts <= known
