"""DeepEdit (Wang et al. 2024): thoughts are decoded depth first, and edits take their place.

::

    Question: ...                                 given, after worked examples
    Thoughts: thought.# thought.# fact.# ...      the model writes a thought; where the memory has a fact that goes on
    So the answer is ...                          from the last entity, or contradicts the thought, the fact replaces it

A state of the search is a chain of thoughts and facts, the entity that its last link brought in, and the one before.
The answer is the last entity, never the text of the closing thought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import evolve, frozen

from ke_core.plugin import Answer, Ask, Hit, Nearest, NoLikelihood, Procedure, Question, Reply, Step
from ke_memory.plugin import FactMemory, lookup_step
from ke_plugin_deepedit.conversation import Conversation, OutOfCalls
from ke_plugin_deepedit.prompts import SlotTemplate

BETWEEN = ".#"
"""What ends a thought. The space after it is left to the model: a prompt that ends with one splits words oddly."""
ANSWER = "the answer is"
DEPTH = 9
CANDIDATES = 2
Ending = Literal["answered", "unparsed", "hop-cap", "length"]


@frozen(kw_only=True)
class DeepEditProfile:
    """Where the published run and a sound one differ."""

    retries: int
    stop: tuple[str, ...]


PROFILES = {
    "paper": DeepEditProfile(retries=2, stop=(BETWEEN, ".\n")),
    "fixed": DeepEditProfile(retries=0, stop=(BETWEEN, "\n")),
}


@frozen(kw_only=True)
class SearchState:
    """A chain so far: ``written`` follows the question. ``last_entity`` is None at the start.

    ``path``: what was looked up on the way, for the record.
    """

    new_entity: str
    last_thought: str
    written: str = ""
    last_entity: str | None = None
    depth: int = 0
    path: tuple[Step, ...] = ()

    def then(self, link: str, entity: str, step: Step) -> SearchState:
        """The chain with one more thought or fact, which brought in ``entity``."""
        return SearchState(
            new_entity=entity,
            last_thought=link,
            written=f"{self.written} {closed(link)}",
            last_entity=self.new_entity,
            depth=self.depth + 1,
            path=(*self.path, evolve(step, answer=entity)),
        )

    def ends(self, outcome: Ending, notes: Sequence[Step], text: str = "", last: str = "") -> Answer:
        """How the search ends with this chain."""
        return Answer(text=text, raw=f"{self.written}{last}", steps=(*self.path, *notes), outcome=outcome)


def closed(link: str) -> str:
    """A thought or a fact with its end, which holds a full stop."""
    return f"{link.removesuffix('.')}{BETWEEN}"


@frozen(kw_only=True)
class DeepEditSearch:
    """The search over one memory, in at most ``calls`` model calls a question."""

    memory: FactMemory
    prompts: Mapping[str, SlotTemplate]
    profile: DeepEditProfile
    own_only: bool
    calls: int
    max_tokens: int

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question; every way in which it can end otherwise is an outcome of the answer."""
        if not isinstance(ask, Question):
            raise NoLikelihood("deepedit answers in words and gives no log-probabilities")
        question, hidden, talk = ask.texts[0], self.hidden(ask), self.talk()
        state, ended = SearchState(new_entity="", last_thought=question), Answer(text="")
        try:
            stack = [SearchState(new_entity=(yield from talk.entity(question)), last_thought=question)]
            while stack:
                state = stack.pop()
                if state.depth >= DEPTH:
                    ended = state.ends("hop-cap", talk.note("too-deep", f"{DEPTH} thoughts"))
                    continue
                said = yield from talk.thought(question, state.written, self.profile.stop, self.max_tokens)
                thought = said.text.strip().rstrip(".")
                if ANSWER in thought.casefold():
                    outcome: Ending = "answered" if state.new_entity else "unparsed"
                    return state.ends(outcome, talk.note("final", thought), state.new_entity, said.text)
                if not thought or said.finish == "length":
                    cut: Ending = "length" if thought else "unparsed"
                    ended = state.ends(cut, talk.note("no-thought", thought), last=said.text)
                    continue
                stack += yield from self._after(state, thought, talk, hidden)
        except OutOfCalls:
            return state.ends("hop-cap", talk.note("call-cap", f"{self.calls} model calls"))
        return ended

    def talk(self) -> Conversation:
        """A talk with the model about one question."""
        return Conversation(prompts=self.prompts, calls=self.calls, retries=self.profile.retries)

    def hidden(self, ask: Question) -> frozenset[str]:
        """Ids of the facts that this question is not to see."""
        if not self.own_only:
            return ask.hidden
        return ask.hidden | {name for name, _text in self.memory.facts if name not in ask.own}

    def _after(
        self, state: SearchState, thought: str, talk: Conversation, hidden: frozenset[str]
    ) -> Procedure[list[SearchState]]:
        """The states after a thought, the one to go on with last: facts that fit in its place, else the thought."""
        query = yield from talk.without_new(state.last_thought, thought)
        hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=query, k=CANDIDATES, hidden=hidden)
        step = lookup_step(query, hits)
        states = []
        for fact in (hit.text for hit in reversed(hits)):
            if (yield from relevant(fact, state, talk)) or (yield from talk.conflict(fact, thought)):
                states.append(state.then(fact, (yield from talk.new(state.last_thought, fact)), step))  # noqa: PERF401  no comprehension can yield
        if not states:
            states.append(state.then(thought, (yield from talk.new(state.last_thought, thought)), step))
        return states


def relevant(fact: str, state: SearchState, talk: Conversation) -> Procedure[bool]:
    """Whether a fact goes on from where the chain has come to: it names the last entity, and not the one before."""
    if not (yield from talk.exists(state.new_entity, fact)):
        return False
    return state.last_entity is None or not (yield from talk.exists(state.last_entity, fact))
