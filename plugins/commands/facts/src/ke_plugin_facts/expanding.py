"""Propose tests of facts from a knowledge graph: ``ke facts expand``.

The tests are those that the builder of RippleEdits makes for the facts as edits:

===================== ============ ==========================================================================
criterion             kind         what is asked
===================== ============ ==========================================================================
logical-generalization consequence facts that follow from the new one by rules
compositionality-1    consequence  a fact about the new object, which the prompt describes by the edited fact
compositionality-2    consequence  the edited fact, about a subject that the prompt describes by another fact
subject-aliasing      paraphrase   the edited fact under another name of the subject
preservation          kept         the other objects of the relation
relation-specificity  kept         the other facts about the subject
===================== ============ ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from ke_benchmarks.building import builder_of
from ke_benchmarks.graph import EditBuilder, Graph
from ke_core.app import Catalog, ModelChoice, Options, configure, open_session, reject_unused
from ke_core.plugin import BadConfig, Case, Entity, Progress, Query
from ke_plugin_facts.fact_file import PROPOSED, FactFile, mark, plain
from ke_plugin_facts.matching import match_facts
from ke_weights.completions import Completion, PromptWithObjects, complete_prompts
from ke_weights.suites import Kind

FAMILY = "ripple-edits"
KINDS: Mapping[str, Kind] = {
    "logical-generalization": "consequence",
    "compositionality-1": "consequence",
    "compositionality-2": "consequence",
    "subject-aliasing": "paraphrase",
    "preservation": "kept",
    "relation-specificity": "kept",
}


@frozen(kw_only=True)
class ProposedTest:
    """A test that the graph proposes. ``fact``: the position of its fact in the file. ``wrong``: the field ``not``.

    ``conditions``: prompts with right answers that the unedited model has to know for the test to mean something.
    """

    fact: int
    criterion: str
    prompt: str
    expect: tuple[str, ...]
    wrong: tuple[str, ...]
    conditions: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def kind(self) -> Kind:
        """The kind of the test."""
        return KINDS[self.criterion]

    def fields(self, graph: str) -> dict[str, Any]:
        """Return the fields of the test in the file."""
        named = {"expect": self.expect, "not": self.wrong}
        texts = {name: found[0] if len(found) == 1 else [*found] for name, found in named.items() if found}
        return {"kind": self.kind, "prompt": self.prompt, **texts, PROPOSED: f"{mark(graph)}{self.criterion}"}


@frozen(kw_only=True)
class Expansion:
    """The proposed tests, and why facts have none, by the position of the fact."""

    tests: tuple[ProposedTest, ...]
    reasons: Mapping[int, str]


def edit_builder(catalog: Catalog, options: Options) -> EditBuilder:
    """Return the builder of the tests. Raises UnknownComponent if it is not installed, BadConfig for other options."""
    catalog.spec("dataset", FAMILY)
    spec = builder_of(catalog, FAMILY)
    reject_unused(options, [spec])
    found = spec.build(configure(spec, options.get(spec.prefix)))
    if not isinstance(found, EditBuilder):
        raise BadConfig(
            f"the installed builder of {FAMILY} cannot start from facts", hint="update ke-plugin-ripple-edits"
        )
    return found


def expand(file: FactFile, graph: Graph, builder: EditBuilder) -> Expansion:
    """Return the proposed tests of the facts. No test contradicts a fact, another test or a fact to keep.

    Prompts that the file contains already are left out, except those that this graph proposed before.
    """
    matched, whole = match_facts(file.facts, graph)
    changing = {key for one in matched if one.edit is None for key in one.about}
    edits = {at: one.edit for at, one in enumerate(matched) if one.edit is not None}
    cases = dict(zip(edits, builder.from_edits(list(edits.values()), whole, changing), strict=True))
    reasons = {at: one.reason for at, one in enumerate(matched) if one.reason}
    used, tests = _used(file, graph.name), list[ProposedTest]()
    for at, case in cases.items():
        if isinstance(case, str):
            reasons[at] = case
            continue
        for one in _proposed(at, case, whole):
            if plain(one.prompt) not in used:
                tests.append(one)
                used.add(plain(one.prompt))
    return Expansion(tests=tuple(tests), reasons=reasons)


def only_recalled(made: Expansion, choice: ModelChoice, catalog: Catalog, progress: Progress) -> Expansion:
    """Return the tests whose conditions the unedited model meets, as the metric of RippleEdits counts only those."""
    session = open_session(choice.load(catalog, progress), catalog=catalog, seed=0, progress=progress, material={})
    asked = dict(condition for test in made.tests for condition in test.conditions)
    answers = complete_prompts(session, [PromptWithObjects(id=one, prompt=one, expect=asked[one]) for one in asked])
    return evolve(made, tests=tuple(test for test in made.tests if recalled(test, answers)))


def recalled(test: ProposedTest, answers: Mapping[str, Completion]) -> bool:
    """Return whether the answers of the unedited model, by prompt, meet the conditions of a test."""
    return all(answers[prompt].begins_with(expect) for prompt, expect in test.conditions)


def _used(file: FactFile, graph: str) -> set[str]:
    """Return the prompts of the file, without those of tests that this graph proposed."""
    found = {plain(check.prompt) for check in file.keep}
    for fact in file.facts:
        ours = {id_ for id_, by in fact.proposed.items() if by.startswith(mark(graph))}
        found |= {plain(check.prompt) for check in fact.checks if check.id not in ours}
    return found


def _proposed(at: int, case: Case, graph: Graph) -> Iterator[ProposedTest]:
    """Yield a test for each query of the case. Of queries of which one must be right, each becomes a test."""
    for probe in case.probes:
        given = tuple((query.texts[0], _names(query.gold.entities, graph)) for query in probe.given)
        for query in probe.queries if probe.aspect in KINDS else ():
            expect = _names(query.gold.entities, graph)
            yield ProposedTest(
                fact=at,
                criterion=probe.aspect,
                prompt=query.texts[0],
                expect=expect,
                wrong=_wrong(query, expect),
                conditions=given,
            )


def _names(entities: Sequence[Entity], graph: Graph) -> tuple[str, ...]:
    """Return the names of the right answers, with the article that a sentence needs."""
    mentions = [graph.mention(entity.key) for entity in entities if entity.key in graph.nodes]
    return tuple(dict.fromkeys([name for entity in entities for name in entity.names] + mentions))


def _wrong(query: Query, expect: Sequence[str]) -> tuple[str, ...]:
    """Return the old object, unless a right answer begins with its name, as "Guinea-Bissau" does with "Guinea"."""
    old = query.pre_edit.entities[0].label if query.pre_edit is not None else ""
    return (old,) if old and not any(plain(name).startswith(plain(old)) for name in expect) else ()
