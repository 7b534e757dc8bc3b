"""``ke build``: run a family's builder on a graph, with models that check recall and rewrite questions.

::

    built = build(request, catalog, progress)    # opens the graph and the models, writes the file

For the recall check, the model gets each fact without demonstrations, as a question and as a cloze. It recalls the fact
if one of the two answers names the right entity within its first words.
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

FIRST_WORDS = 6  # words of an answer that are read; entities named later do not count
OPENING = "can could do you please tell me name know say"
LONGEST = 3  # maximum length of a rewritten question, relative to the original
KEPT = "unchanged questions, because the rewrite was unusable"


@frozen(kw_only=True)
class BuildRequest:
    """The request of the command line: from a ``graph`` (atlas, a file, sparql:URL) or from ``questions``, not both."""

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
    """The result. ``skipped``: rows of the graph; ``dropped``: candidates; both by reason.

    ``unworded``: the relations whose cloze or question is made from their name.
    """

    records: int
    graph: str
    skipped: Counter[str]
    dropped: Counter[str]
    seconds: float
    unworded: tuple[str, ...] = ()


def build(request: BuildRequest, catalog: Catalog, progress: Progress) -> BuildResult:
    """Build the records and write them atomically.

    Raises KEErrors: an existing file, a family without a builder, a graph or a model that cannot be opened, too small a
    graph, or questions for a builder that does not use them.
    """
    start = time.monotonic()
    if request.out.exists() and not request.force:
        raise BadConfig(f"{request.out} already exists", hint="use another --out, or overwrite it with --force")
    spec = builder_of(catalog, request.family)
    reject_unused(request.options, [spec])
    maker: Builder = spec.build(configure(spec, request.options.get(spec.prefix)))
    made, source = _record_source(maker, request)
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
        unworded=source.unworded,
    )


@frozen(kw_only=True)
class _Source:
    """The source of the records, its skipped rows by reason, and its relations without wording."""

    name: str
    skipped: Counter[str] = field(factory=Counter)
    unworded: tuple[str, ...] = ()


def _record_source(maker: Builder, request: BuildRequest) -> tuple[Callable[[BuildTools], Iterable[Record]], _Source]:
    """Return the function that yields the records, and its source."""
    questions = request.questions
    if (questions is None) == (not request.graph):
        raise BadConfig("a benchmark is built from either a graph or questions", hint="pass --graph, or --from FILE")
    if questions is None:
        opened = open_graph(request.graph, relations=request.relations, skip_unlabeled=request.skip_unlabeled)
        source = _Source(name=opened.graph.name, skipped=opened.skipped, unworded=opened.unworded)
        return lambda tools: maker.records(opened.graph, tools), source
    if not isinstance(maker, QuestionBuilder):
        raise BadConfig(f"{request.family} cannot be built from questions", hint="pass a graph with --graph")
    if request.with_model is None:
        raise BadConfig("a model is required to write the facts for the questions", hint="pass --with-model")
    return lambda tools: maker.from_questions(questions, tools), _Source(name=str(questions))


def builder_of(catalog: Catalog, family: str) -> BuilderSpec:
    """Return the builder of a family. Raises BadConfig with the families that have one."""
    specs: Mapping[str, Any] = {name: catalog.spec("dataset", name) for name in catalog.names("dataset")}
    found = {name: spec.builder for name, spec in specs.items() if spec.builder is not None}
    builder = found.get(family)
    if builder is None:
        raise BadConfig(
            f"no builder for {family!r}", hint=f"families with a builder: {', '.join(sorted(found)) or 'none'}"
        )
    assert isinstance(builder, BuilderSpec)
    return builder


def recall_with(engine: Engine) -> Callable[[Sequence[RecallProbe]], list[bool]]:
    """Return whether a model recalls facts, asked in two forms. Raises the model's errors."""

    def recalls(asked: Sequence[RecallProbe]) -> list[bool]:
        put = {f"{at}/{form}": text for at, one in enumerate(asked) for form, text in _forms(one)}
        answers = _written(engine, put)
        return [
            any(names_first(answers[f"{at}/{form}"], one.gold) for form, _text in _forms(one))
            for at, one in enumerate(asked)
        ]

    return recalls


def phrase_with(engine: Engine, kept: Callable[[], None]) -> Callable[[Sequence[str]], list[str]]:
    """Rewrite questions. A rewrite that is not a question, or lacks names, is discarded (and counted in ``kept``)."""
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
    """Return whether a rewrite is a question of reasonable length, with the same names and the words of the original.

    A missing word may be a missing hop ("the neighbor of Kenya" instead of the capital of that neighbor), and no rule
    can distinguish that from a synonym. So only words that open a question may be missing.
    """
    whole = new.endswith("?") and len(new) <= LONGEST * len(old)
    return whole and _names(old) == _names(new) and stems(old) - stems(OPENING) <= stems(new)


def names_first(answer: str, gold: Gold) -> bool:
    """Return whether the first words of the answer name a right entity, or all of them for ``all``."""
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
            raise KEError(f"the model failed: {result.error}: {result.message}", hint="use another --model")
        found[name] = result
    return found


def _ask(text: str, max_tokens: int) -> Procedure[str]:
    written: Generated = yield Generate(prompt=text, max_tokens=max_tokens, stop=("\n",))
    return written.text


def _names(text: str) -> Counter[str]:
    """Return the words with a capital letter or a digit, except the first one of the question."""
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
    return "; ".join(f"{reason}: {count}" for reason, count in dropped.most_common(5)) or "the source is too small"
