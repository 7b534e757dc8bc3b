"""GWalk, algorithm 1 of MQuAKE-Remastered (appendix D.1): a question is a path, and the path is walked.

::

    s  <- the entity that the question starts from                              the model
    rs <- the relations that it goes through, in order                          the model
    for r in rs:
        find s among the graph's entities, r among its relations                names and embeddings
        ask about (s, r): the relation's own question, or one in words          a template, or the model
        s  <- the object of (s, r) in the graph, if it has one that is not hidden,
              else the model's own answer
    the answer is s

Whether an edit applies is decided by the graph alone; the model is never asked to weigh a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from ke_core.plugin import Answer, Ask, Generate, Generated, NoLikelihood, Procedure, Question, Reply, Step
from ke_memory.plugin import sentence
from ke_plugin_gwalk import reading
from ke_plugin_gwalk.graph import EditGraph, EditTriple, HiddenEdges
from ke_plugin_gwalk.reading import MalformedAnswer, WalkFailed, lost
from ke_plugin_gwalk.retrieval import RetrievedEdge, Thresholds, as_printed, as_released

WORDINGS = 3  # of a question, tried in turn for the entity it starts from
LINE = ("\n",)
WORDS_ONLY = "gwalk answers in words and gives no log-probabilities"


@frozen(kw_only=True)
class GwalkProfile:
    """Where the released code and a sound walk differ.

    ``cool`` and ``warm``: the temperature of everything but answers, and of answers. ``tokens``: for an
    entity, for relations, for a question in words, for an answer. ``always``: the model answers even where the
    graph overrules it. ``released``: that answer, too, must be one that can be read, and an edit that is hidden from a
    question is hidden as an edge alone: its relation and its names are found as before. ``bare``: a relation is found
    by its template alone, open place included. ``respell``: names may differ in case, accents and punctuation.
    ``near``: entities are found by embedding as well, and a relation among their own edges.
    """

    cool: float
    warm: float
    tokens: tuple[int, int, int, int]
    always: bool
    released: bool
    bare: bool
    respell: bool
    near: bool
    subject: Callable[[Generated], str]
    answer: Callable[[Generated], str]


GREEDY = GwalkProfile(
    cool=0.0,
    warm=0.0,
    tokens=(32, 64, 48, 64),
    always=False,
    released=False,
    bare=False,
    respell=True,
    near=False,
    subject=reading.named,
    answer=reading.after_slot,
)
PROFILES = {
    "greedy": GREEDY,
    "paper": evolve(GREEDY, always=True, near=True),
    "published": GwalkProfile(
        cool=0.2,
        warm=1.0,
        tokens=(20, 50, 20, 50),
        always=True,
        released=True,
        bare=True,
        respell=False,
        near=False,
        subject=reading.bracketed,
        answer=reading.after_first_period,
    ),
}


@frozen(kw_only=True)
class GwalkPrompts:
    """Worked examples for each thing the model is asked, without space at the end."""

    subject: str
    relations: str
    question: str
    walk: str


@frozen(kw_only=True)
class WalkStep:
    """One step of the walk: what it adds to the transcript, where it leads, what is on record of it."""

    text: str
    object: str
    step: Step


@frozen(kw_only=True)
class Walk:
    """Walks questions through one graph. At most 3 + 1 + 2 ``max_hops`` calls a question."""

    graph: EditGraph
    prompts: GwalkPrompts
    profile: GwalkProfile
    least: Thresholds
    max_hops: int

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question; every way in which it can end otherwise is an outcome of the answer."""
        if not isinstance(ask, Question):
            raise NoLikelihood(WORDS_ONLY)
        steps: list[Step] = []
        raw, unseen = "", self.unseen(ask.hidden)
        try:
            entity = yield from self.start(ask.texts[:WORDINGS])
            steps.append(Step(kind="subject", text=entity))
            phrases = yield from self.relations(ask.texts[0], entity)
            steps.append(Step(kind="relations", text=", ".join(phrases)))
            for phrase in phrases:
                said = f"{self.prompts.walk}\n\nQuestion: {ask.texts[0]}{raw}"
                try:
                    hop = yield from self._hop(said, entity, phrase, unseen)
                except MalformedAnswer as end:
                    if not raw:
                        raise
                    steps.append(Step(kind=end.outcome, text=end.said))
                    break  # as released: what the hop before came to is the answer
                raw, entity = raw + hop.text, hop.object
                steps.append(hop.step)
            entity = yield from self.graph.link(entity, unseen)
        except WalkFailed as end:
            return unfinished(steps, end, raw)
        steps.append(Step(kind="final", text=entity))
        return Answer(text=entity, raw=raw, steps=tuple(steps))

    def start(self, texts: Sequence[str]) -> Procedure[str]:
        """The entity that the question starts from (line 1): the first that stands in its wording, else the last."""
        name = ""
        for text in texts:
            prompt = f"{self.prompts.subject}\n\nQuestion: {text}\nSubject:"
            written = yield from self._write(prompt, self.profile.tokens[0])
            found = self.profile.subject(written)
            name = found or name
            if found and found in text:
                break
        if not name:
            raise lost(written)
        return name

    def relations(self, text: str, entity: str) -> Procedure[tuple[str, ...]]:
        """The relations that the question goes through (line 2), in the model's words."""
        written = yield from self._write(self._path(text, entity), self.profile.tokens[1])
        return reading.relations(written, self.max_hops)

    def relation(self, text: str, entity: str) -> Procedure[str]:
        """The only one that a question of a single hop goes through, however far the model would go on."""
        stop = (*LINE, reading.ARROW)
        written = yield from self._write(self._path(text, entity), self.profile.tokens[1], stop)
        (phrase,) = reading.relations(written, 1)
        return phrase

    def _path(self, text: str, entity: str) -> str:
        return f"{self.prompts.relations}\n\nQuestion: {text}\nPath: {entity}{reading.ARROW}"

    def unseen(self, hidden: frozenset[str]) -> HiddenEdges:
        """What a question from which those edits are hidden does not get to see of the graph."""
        return HiddenEdges(edges=hidden) if self.profile.released else self.graph.unseen(hidden)

    def retrieve(self, entity: str, phrase: str, unseen: HiddenEdges) -> Procedure[RetrievedEdge]:
        """What the graph has of <entity, phrase, ?> (line 4)."""
        way = as_printed if self.profile.near else as_released
        return way(self.graph, entity, phrase, unseen, self.least)

    def _hop(self, said: str, entity: str, phrase: str, unseen: HiddenEdges) -> Procedure[WalkStep]:
        """From ``entity`` along one relation (lines 4 to 9)."""
        found = yield from self.retrieve(entity, phrase, unseen)
        asked = None if found.relation is None else self.graph.question(found.relation, found.subject, unseen)
        if asked is None:
            asked = yield from self._in_words(found, phrase)
        fact, text, own = found.fact, f"\nSubquestion: {asked}", ""
        if fact is None or self.profile.always:
            prompt = f"{said}{text}\nGenerated answer:"
            written: Generated = yield Generate(
                prompt=prompt, stop=LINE, max_tokens=self.profile.tokens[3], temperature=self.profile.warm
            )
            if fact is None or self.profile.released:
                own = self.profile.answer(written)
            text += f"\nGenerated answer: {written.text.strip()}"
        object_ = own if fact is None else fact.object
        return WalkStep(text=text + _verdict(fact, own), object=object_, step=step(asked, found, object_))

    def _in_words(self, found: RetrievedEdge, phrase: str) -> Procedure[str]:
        """The sub-question, written by the model: no relation of the graph is near enough to lend its own."""
        prompt = f"{self.prompts.question}\n\nSubject: {found.subject}\nRelation: {phrase}\nQuestion:"
        written = yield from self._write(prompt, self.profile.tokens[2])
        asked = written.text.strip()
        if not asked and found.fact is None:
            raise lost(written)
        return asked or f"{found.subject}: {phrase}?"  # the graph has decided the hop, whatever it is called

    def _write(self, prompt: str, tokens: int, stop: tuple[str, ...] = LINE) -> Procedure[Generated]:
        """One line, or less, of anything but an answer."""
        written: Generated = yield Generate(prompt=prompt, stop=stop, max_tokens=tokens, temperature=self.profile.cool)
        return written


def step(asked: str, found: RetrievedEdge, answer: str) -> Step:
    """A hop for the record: retrieved is the edge that was used, with the score of its relation."""
    return Step(
        kind="subquestion",
        text=asked,
        retrieved=() if found.fact is None else (found.fact.id,),
        scores=() if found.fact is None else (found.score,),
        answer=answer,
    )


def unfinished(steps: Sequence[Step], end: WalkFailed, raw: str) -> Answer:
    """What is on record of a walk that could not go on."""
    last = Step(kind=end.outcome, text=end.said)
    return Answer(text="", raw=raw or end.said, steps=(*steps, last), outcome=end.outcome)


def _verdict(fact: EditTriple | None, own: str) -> str:
    """What the transcript says of the graph's fact: it decides where there is one."""
    if fact is None:
        return f"\nKnown fact: none\nSo the answer here is: {own}"
    return f"\nKnown fact: {sentence(fact.statement)}\nSo the answer here is: {fact.object}"
