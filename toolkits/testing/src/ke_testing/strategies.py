"""Hypothesis strategies for the data model: any valid value, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from ke_core.app import Batch, Component, DataRef, Judged, ModelRef, Plan, Probed, Replied, RunSpec
from ke_core.plugin import (
    Answer,
    Case,
    Cloze,
    Cost,
    Edit,
    Entity,
    Fact,
    Failure,
    Finding,
    FreeForm,
    Gold,
    Judgment,
    Peak,
    Probe,
    Query,
    Relation,
    Scored,
    Step,
    Verdict,
)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
names = words.filter(str.strip)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
counts = st.integers(0, 10**6)


def few(items: st.SearchStrategy[object], least: int = 0) -> st.SearchStrategy[tuple[object, ...]]:
    """Return a strategy for short tuples."""
    return st.lists(items, min_size=least, max_size=3).map(tuple)


templates = st.tuples(words, words).map(lambda ends: "{}".join(end.replace("{}", "") for end in ends))
entities = st.builds(Entity, label=names, aliases=few(names), id=st.none() | names)
relations = st.builds(
    Relation, label=names, id=st.none() | names, cloze=st.none() | templates, question=st.none() | templates
)
facts = st.builds(Fact, subject=entities, relation=relations, objects=few(entities), text=words)
clozes = st.builds(Cloze, template=templates, subject=names)
free_forms = st.builds(FreeForm, prompt=names, target=names, old=words)
edits = st.builds(Edit, id=names, statement=names, free_form=free_forms) | st.builds(
    Edit,
    id=names,
    statement=names,
    before=st.none() | facts,
    after=st.none() | facts,
    cloze=st.none() | clozes,
    question=st.none() | names,
)
golds = st.builds(Gold, entities=few(entities), require=st.sampled_from(("all", "any", "ordered", "number")))
plain_queries = st.builds(
    Query,
    id=names,
    texts=few(names, 1),
    form=st.sampled_from(("question", "cloze")),
    cloze=st.none() | names,
    gold=golds,
    pre_edit=st.none() | golds,
    edit=st.none() | names,
    relation=st.none() | names,
    continuations=few(names.map(lambda name: f" {name.strip()}")),
    tags=st.dictionaries(names, words, max_size=2),
)
queries = st.builds(
    Query, id=names, texts=few(names, 1), gold=golds, hops=few(plain_queries), hops_before=few(plain_queries)
)
probes = st.builds(
    Probe,
    id=names,
    aspect=names,
    queries=few(queries, 1),
    require=st.sampled_from(("all", "any")),
    given=few(plain_queries),
    phase=st.sampled_from(("before", "after", "both")),
    edits=few(names),
)
cases = st.builds(
    Case,
    id=names,
    edits=few(edits),
    probes=few(probes, 1),
    facts_before=few(facts),
    facts_after=few(facts),
    tags=st.dictionaries(names, words, max_size=2),
)
steps = st.builds(Step, kind=names, text=words, retrieved=few(names), scores=few(numbers))
costs = st.builds(Cost, calls=counts, prompt_tokens=counts, tokens=counts)
answers = st.builds(
    Answer,
    text=words,
    raw=words,
    steps=few(steps),
    outcome=st.sampled_from(("answered", "unparsed", "hop-cap", "length")),
    cost=costs,
)
replies = (
    answers
    | st.builds(Scored, logprobs=few(numbers), tokens=few(counts))
    | st.builds(Failure, error=names, message=words)
)
judgments = st.builds(
    Judgment,
    verdict=st.sampled_from(Verdict),
    findings=few(st.builds(Finding, item=words, label=names, entity=st.none() | names)),
)
components = st.builds(
    Component,
    name=names,
    distribution=names,
    version=names,
    options=st.dictionaries(names, st.none() | st.booleans() | counts | numbers | words, max_size=3),
)
plans = st.builds(
    Plan,
    protocol=st.sampled_from(("partition", "sample")),
    size=st.none() | st.integers(1, 10**4),
    limit=st.none() | st.integers(1, 10**4),
    eval_limit=st.none() | st.integers(1, 10**4),
)
runspecs = st.builds(
    RunSpec,
    ke=names,
    model=st.builds(ModelRef, source=names, id=names, revision=words, digest=words, dtype=words, chat=st.booleans()),
    editor=components,
    dataset=st.builds(DataRef, component=components, sha256=words),
    styles=few(names),
    plan=plans,
    edited_form=st.sampled_from(("question", "cloze")),
    joint=st.booleans(),
    oracle=few(names),
    seed=counts,
    requests=few(st.builds(DataRef, component=components, sha256=words)),
)
batches = st.builds(
    Batch,
    step=counts,
    batch=names,
    cases=few(names),
    controls=few(names),
    edits=counts,
    refused=st.dictionaries(names, words, max_size=2),
    skipped=st.dictionaries(names, words, max_size=2),
    seconds=numbers,
    first=st.booleans(),
    memory=st.builds(Peak, host=st.none() | counts, device=st.none() | counts),
    failed=words,
    details=st.dictionaries(names, words | counts | st.none(), max_size=2),
)
_key = {"step": counts, "batch": names, "case": names, "phase": st.sampled_from(("before", "after")), "style": names}
records = (
    batches
    | st.builds(Replied, **_key, seconds=numbers, replies=st.dictionaries(names, replies, max_size=3))
    | st.builds(Judged, **_key, judge=components, judgments=st.dictionaries(names, judgments, max_size=3))
    | st.builds(
        Probed,
        step=counts,
        batch=names,
        metric=names,
        phase=st.sampled_from(("before", "after")),
        replies=st.dictionaries(names, replies, max_size=3),
        seconds=numbers,
    )
)
