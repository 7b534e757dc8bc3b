"""GWalk, algorithm 1 of MQuAKE-Remastered (appendix D.1): a question is a path in the graph of edits.

::

    s  <- the entity that the question starts from                              the model
    rs <- the relations that it follows, in order                               the model
    for r in rs:
        find s among the graph's entities, r among its relations                names and embeddings
        ask about (s, r): the relation's own question, or one in words          a template, or the model
        s  <- the object of (s, r) in the graph, if it has one that is not hidden,
              else the model's own answer
    the answer is s

Only the graph decides whether an edit applies; the model is never asked to compare facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from ke_core.plugin import Answer, EditorRequest, Generate, Generated, NoLikelihood, Procedure, Question, Reply, Step
from ke_memory.plugin import sentence
from ke_plugin_gwalk import reading
from ke_plugin_gwalk.graph import EditGraph, EditTriple, HiddenEdges
from ke_plugin_gwalk.reading import MalformedAnswer, WalkFailed, walk_failure
from ke_plugin_gwalk.retrieval import RetrievedEdge, Thresholds, as_printed, as_released

WORDINGS = 3  # of a question, tried in turn to find its start entity
LINE = ("\n",)
WORDS_ONLY = "gwalk returns text answers, no log-probabilities"


@frozen(kw_only=True)
class GwalkProfile:
    """A version of the walk.

    ``cool`` and ``warm``: temperature of answers (``warm``) and of everything else. ``tokens``: limits for an entity,
    relations, a question, an answer. ``always``: the model answers even if the graph overrules it. ``released``: as in
    the released code, that answer must be parsable too, a hidden edit hides only its edge, not its relation and names,
    a relation is found by its template only, and names are compared exactly. ``near``: find entities by embedding too,
    and a relation among their own edges.
    """

    cool: float
    warm: float
    tokens: tuple[int, int, int, int]
    always: bool
    released: bool
    near: bool
    subject: Callable[[Generated], str]
    answer: Callable[[Generated], str]


DEFAULT = GwalkProfile(
    cool=0.0,
    warm=0.0,
    tokens=(32, 64, 48, 64),
    always=False,
    released=False,
    near=False,
    subject=reading.named,
    answer=reading.after_slot,
)
PROFILES = {
    "default": DEFAULT,
    "algorithm-1": evolve(DEFAULT, always=True, near=True),
    "paper": GwalkProfile(
        cool=0.2,
        warm=1.0,
        tokens=(20, 50, 20, 50),
        always=True,
        released=True,
        near=False,
        subject=reading.bracketed,
        answer=reading.after_first_period,
    ),
}


@frozen(kw_only=True)
class GwalkPrompts:
    """Worked examples for each request to the model, without trailing whitespace."""

    subject: str
    relations: str
    question: str
    walk: str


@frozen(kw_only=True)
class WalkStep:
    """One hop: its addition to the transcript, the object that it leads to, and its record."""

    text: str
    object: str
    step: Step


@frozen(kw_only=True)
class Walk:
    """Answers questions with one graph, in at most 3 + 1 + 2 ``max_hops`` model calls each."""

    graph: EditGraph
    prompts: GwalkPrompts
    profile: GwalkProfile
    least: Thresholds
    max_hops: int

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Answer one question. Raises NoLikelihood; other failures are outcomes of the answer."""
        if not isinstance(request, Question):
            raise NoLikelihood(WORDS_ONLY)
        steps: list[Step] = []
        raw, unseen = "", self.unseen(request.hidden)
        try:
            entity = yield from self.start(request.texts[:WORDINGS])
            steps.append(Step(kind="subject", text=entity))
            phrases = yield from self.relations(request.texts[0], entity)
            steps.append(Step(kind="relations", text=", ".join(phrases)))
            for phrase in phrases:
                text = f"{self.prompts.walk}\n\nQuestion: {request.texts[0]}{raw}"
                try:
                    hop = yield from self._hop(text, entity, phrase, unseen)
                except MalformedAnswer as end:
                    if not raw:
                        raise
                    steps.append(Step(kind=end.outcome, text=end.text))
                    break  # as released: the answer of the previous hop is the answer
                raw, entity = raw + hop.text, hop.object
                steps.append(hop.step)
            entity = yield from self.graph.link(entity, unseen)
        except WalkFailed as end:
            return unfinished(steps, end, raw)
        steps.append(Step(kind="final", text=entity))
        return Answer(text=entity, raw=raw, steps=tuple(steps))

    def start(self, texts: Sequence[str]) -> Procedure[str]:
        """Return the entity that the question starts from (line 1).

        It is the first one that occurs in its wording, else the last one.
        """
        name = ""
        for text in texts:
            prompt = f"{self.prompts.subject}\n\nQuestion: {text}\nSubject:"
            written = yield from self._write(prompt, self.profile.tokens[0])
            found = self.profile.subject(written)
            name = found or name
            if found and found in text:
                break
        if not name:
            raise walk_failure(written)
        return name

    def relations(self, text: str, entity: str) -> Procedure[tuple[str, ...]]:
        """Return the relations that the question follows (line 2), as the model writes them."""
        written = yield from self._write(self._path(text, entity), self.profile.tokens[1])
        return reading.relations(written, self.max_hops)

    def relation(self, text: str, entity: str) -> Procedure[str]:
        """Return the relation of a single-hop question, even if the model would continue."""
        stop = (*LINE, reading.ARROW)
        written = yield from self._write(self._path(text, entity), self.profile.tokens[1], stop)
        (phrase,) = reading.relations(written, 1)
        return phrase

    def _path(self, text: str, entity: str) -> str:
        return f"{self.prompts.relations}\n\nQuestion: {text}\nPath: {entity}{reading.ARROW}"

    def unseen(self, hidden: frozenset[str]) -> HiddenEdges:
        """Return what a question must not find if those edits are hidden from it."""
        return HiddenEdges(edges=hidden) if self.profile.released else self.graph.unseen(hidden)

    def retrieve(self, entity: str, phrase: str, unseen: HiddenEdges) -> Procedure[RetrievedEdge]:
        """Return the graph's edge for <entity, phrase, ?>, if any (line 4)."""
        retrieve = as_printed if self.profile.near else as_released
        return retrieve(self.graph, entity, phrase, unseen, self.least)

    def _hop(self, transcript: str, entity: str, phrase: str, unseen: HiddenEdges) -> Procedure[WalkStep]:
        """Follow one relation from ``entity`` (lines 4 to 9)."""
        found = yield from self.retrieve(entity, phrase, unseen)
        asked = None if found.relation is None else self.graph.question(found.relation, found.subject, unseen)
        if asked is None:
            asked = yield from self._in_words(found, phrase)
        fact, text, own = found.fact, f"\nSubquestion: {asked}", ""
        if fact is None or self.profile.always:
            prompt = f"{transcript}{text}\nGenerated answer:"
            written: Generated = yield Generate(
                prompt=prompt, stop=LINE, max_tokens=self.profile.tokens[3], temperature=self.profile.warm
            )
            if fact is None or self.profile.released:
                own = self.profile.answer(written)
            text += f"\nGenerated answer: {written.text.strip()}"
        object_ = own if fact is None else fact.object
        return WalkStep(text=text + _verdict(fact, own), object=object_, step=step(asked, found, object_))

    def _in_words(self, found: RetrievedEdge, phrase: str) -> Procedure[str]:
        """Let the model write the sub-question, because no relation of the graph is near enough."""
        prompt = f"{self.prompts.question}\n\nSubject: {found.subject}\nRelation: {phrase}\nQuestion:"
        written = yield from self._write(prompt, self.profile.tokens[2])
        asked = written.text.strip()
        if not asked and found.fact is None:
            raise walk_failure(written)
        return asked or f"{found.subject}: {phrase}?"  # the graph has the answer, so any wording will do

    def _write(self, prompt: str, tokens: int, stop: tuple[str, ...] = LINE) -> Procedure[Generated]:
        """Request one line, of anything except an answer."""
        written: Generated = yield Generate(prompt=prompt, stop=stop, max_tokens=tokens, temperature=self.profile.cool)
        return written


def step(asked: str, found: RetrievedEdge, answer: str) -> Step:
    """Return the record of a hop: the edge that was used, with the score of its relation."""
    return Step(
        kind="subquestion",
        text=asked,
        retrieved=() if found.fact is None else (found.fact.id,),
        scores=() if found.fact is None else (found.score,),
        answer=answer,
    )


def unfinished(steps: Sequence[Step], end: WalkFailed, raw: str) -> Answer:
    """Return the answer of a walk that failed."""
    last = Step(kind=end.outcome, text=end.text)
    return Answer(text="", raw=raw or end.text, steps=(*steps, last), outcome=end.outcome)


def _verdict(fact: EditTriple | None, own: str) -> str:
    """Return the transcript's line about the graph's fact, which overrules the model."""
    if fact is None:
        return f"\nKnown fact: none\nSo the answer here is: {own}"
    return f"\nKnown fact: {sentence(fact.statement)}\nSo the answer here is: {fact.object}"
