"""``ke build``: a family's builder over a graph, with a model that recalls and one that rewrites questions.

::

    built = build(request, catalog, progress)    # opens the graph and the models, writes the file

What a model recalls is asked without any demonstration, as a question and as a cloze; it knows the fact if one of the
two answers names the right thing within its first words.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks.audit.missing import stems
from ke_benchmarks.graph import Builder, BuilderSpec, BuildTools, QuestionBuilder, RecallProbe, Record, open_graph
from ke_core.app import Catalog, ModelChoice, Options, configure, open_session, reject_unused
from ke_core.plugin import (
    BadConfig,
    BadData,
    Engine,
    Failure,
    Generate,
    Generated,
    Gold,
    KEError,
    Procedure,
    Progress,
    write_atomic,
)

FIRST_WORDS = 6  # of an answer: what is named later is not the answer
OPENING = "can could do you please tell me name know say"
LONGEST = 3  # times its old length: a longer rewriting is no question any more
KEPT = "a question that the model did not rewrite well stays as it was"


@frozen(kw_only=True)
class BuildRequest:
    """What the command line asks for: from a ``graph`` (atlas, a file, sparql:URL) or from ``questions``, not both."""

    family: str
    out: Path
    graph: str = ""
    questions: Path | None = None
    with_model: ModelChoice | None = None
    relations: Path | None = None
    cases: int = 300
    seed: int = 0
    options: Options = field(factory=dict)
    model: ModelChoice | None = None
    phrase_with: ModelChoice | None = None
    skip_unlabeled: bool = False
    force: bool = False


@frozen(kw_only=True)
class BuildResult:
    """What was made. ``skipped``: rows of the graph; ``dropped``: candidates; both by reason."""

    records: int
    graph: str
    skipped: Counter[str]
    dropped: Counter[str]
    seconds: float


def build(request: BuildRequest, catalog: Catalog, progress: Progress) -> BuildResult:
    """Make the records and write them, whole or not at all.

    Raises KEErrors: a file that is there already, a family without a builder, a graph or a model that cannot be opened,
    a graph that has too little, questions where the family's builder takes none.
    """
    start = time.monotonic()
    if request.out.exists() and not request.force:
        raise BadConfig(f"{request.out} is there already", hint="choose another --out, or overwrite it with --force")
    spec = builder_of(catalog, request.family)
    reject_unused(request.options, [spec])
    maker: Builder = spec.build(configure(spec, request.options.get(spec.prefix)))
    made, source = _maker(maker, request)
    dropped: Counter[str] = Counter()
    tools = BuildTools(cases=request.cases, seed=request.seed, dropped=lambda reason: dropped.update([reason]))
    if request.model:
        tools = evolve(tools, recalls=recall_with(_engine(request.model, request.seed, catalog, progress)))
    if request.phrase_with:
        engine = _engine(request.phrase_with, request.seed, catalog, progress)
        tools = evolve(tools, phrase=phrase_with(engine, lambda: dropped.update([KEPT])))
    if request.with_model:
        tools = evolve(tools, run=_engine(request.with_model, request.seed, catalog, progress).run)
    records = list(progress.track(made(tools), "building", request.cases))
    if not records:
        raise BadData(f"nothing could be built from {source.name}", hint=_reasons(dropped))
    text = json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    write_atomic(request.out, text.encode())
    return BuildResult(
        records=len(records),
        graph=source.name,
        skipped=source.skipped,
        dropped=dropped,
        seconds=time.monotonic() - start,
    )


@frozen(kw_only=True)
class _Source:
    """What it was made from, and the rows of it that were left out, by reason."""

    name: str
    skipped: Counter[str] = field(factory=Counter)


def _maker(maker: Builder, request: BuildRequest) -> tuple[Callable[[BuildTools], Iterable[Record]], _Source]:
    """What makes the records, and of what."""
    questions = request.questions
    if (questions is None) == (not request.graph):
        raise BadConfig("a benchmark is built from a graph or from questions", hint="give --graph, or --from FILE")
    if questions is None:
        opened = open_graph(request.graph, relations=request.relations, skip_unlabeled=request.skip_unlabeled)
        return lambda tools: maker.records(opened.graph, tools), _Source(name=opened.graph.name, skipped=opened.skipped)
    if not isinstance(maker, QuestionBuilder):
        raise BadConfig(f"{request.family} is not built from questions", hint="give it a graph with --graph")
    if request.with_model is None:
        raise BadConfig("the facts for the questions are written by a model", hint="name it with --with-model")
    return lambda tools: maker.from_questions(questions, tools), _Source(name=str(questions))


def builder_of(catalog: Catalog, family: str) -> BuilderSpec:
    """The builder of a family. Raises BadConfig that names those that have one."""
    specs: Mapping[str, Any] = {name: catalog.spec("dataset", name) for name in catalog.names("dataset")}
    found = {name: spec.builder for name, spec in specs.items() if spec.builder is not None}
    builder = found.get(family)
    if builder is None:
        raise BadConfig(
            f"no builder for {family!r}", hint=f"these families have one: {', '.join(sorted(found)) or 'none'}"
        )
    assert isinstance(builder, BuilderSpec)
    return builder


def recall_with(engine: Engine) -> Callable[[Sequence[RecallProbe]], list[bool]]:
    """Whether a model knows facts, asked in two forms. Raises what the model raised."""

    def recalls(asked: Sequence[RecallProbe]) -> list[bool]:
        put = {f"{at}/{form}": text for at, one in enumerate(asked) for form, text in _forms(one)}
        answers = _written(engine, put)
        return [
            any(named_first(answers[f"{at}/{form}"], one.gold) for form, _text in _forms(one))
            for at, one in enumerate(asked)
        ]

    return recalls


def phrase_with(engine: Engine, kept: Callable[[], None]) -> Callable[[Sequence[str]], list[str]]:
    """Questions in other words; one that comes back as no question, or without its names, stays (and ``kept``)."""
    template = files("ke_benchmarks").joinpath("phrase.txt").read_text(encoding="utf-8").rstrip()

    def phrase(texts: Sequence[str]) -> list[str]:
        put = {str(at): template.replace("{question}", text) for at, text in enumerate(texts)}
        written = _written(engine, put, max_tokens=96)
        found = []
        for at, text in enumerate(texts):
            new = written[str(at)].strip().strip('"').strip()
            if not sound(text, new):
                kept()
                new = text
            found.append(new)
        return found

    return phrase


def sound(old: str, new: str) -> bool:
    """Whether a rewriting is a question of reasonable length, with the old one's names, and no other, and its words.

    A word that is gone may be a hop that is gone ("the neighbor of Kenya" for the capital of that neighbor), which
    nobody but a reader could tell from a synonym; so only the words that open a question may go.
    """
    whole = new.endswith("?") and len(new) <= LONGEST * len(old)
    return whole and _names(old) == _names(new) and stems(old) - stems(OPENING) <= stems(new)


def named_first(answer: str, gold: Gold) -> bool:
    """Whether the answer names within its first words what is right: one of the entities, or all for ``all``."""
    start = " ".join(answer.split()[: FIRST_WORDS * max(1, len(gold.entities))]).casefold()
    named = [
        any(re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", start) for name in entity.names)
        for entity in gold.entities
    ]
    return bool(named) and (any(named) if gold.require == "any" else all(named))


def _forms(one: RecallProbe) -> tuple[tuple[str, str], ...]:
    return ("question", f"Question: {one.question}\nAnswer:"), ("cloze", one.cloze)


def _written(engine: Engine, put: dict[str, str], *, max_tokens: int = 24) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, result in engine.run({name: _ask(text, max_tokens) for name, text in put.items()}).items():
        if isinstance(result, Failure):
            raise KEError(f"the model failed: {result.error}", hint="try another --model")
        found[name] = result
    return found


def _ask(text: str, max_tokens: int) -> Procedure[str]:
    written: Generated = yield Generate(prompt=text, max_tokens=max_tokens, stop=("\n",))
    return written.text


def _names(text: str) -> Counter[str]:
    """Words with a capital letter or a digit, but for the first one of the question."""
    words: Iterable[str] = re.findall(r"[\w'\u2019-]+", text)
    return Counter(word for word in words if word != word.lower() and word not in OPENERS)


OPENERS = frozenset(
    "What Which Who Whom Whose Where When How In On Of From To With By At For The A An Name Can Could Do".split()  # noqa: SIM905
)


def _engine(choice: ModelChoice, seed: int, catalog: Catalog, progress: Progress) -> Any:
    return open_session(
        choice.load(catalog, progress), catalog=catalog, seed=seed, progress=progress, material={}
    ).engine


def _reasons(dropped: Counter[str]) -> str:
    return (
        "; ".join(f"{reason}: {count}" for reason, count in dropped.most_common(5))
        or "there is too little to build from"
    )
