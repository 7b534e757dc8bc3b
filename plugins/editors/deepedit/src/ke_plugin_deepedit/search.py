"""DeepEdit (Wang et al. 2024): thoughts are generated depth first, and edits replace them.

::

    Question: ...                                 given, after worked examples
    Thoughts: thought.# thought.# fact.# ...      the model writes a thought; a fact from the memory replaces it if the
    So the answer is ...                          fact continues from the last entity or contradicts the thought

A state of the search is a chain of thoughts and facts, the entity that its last link introduced, and the one before.
The answer is the last entity, never the text of the last thought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import evolve, frozen

from ke_core.plugin import Answer, EditorRequest, Hit, Nearest, NoLikelihood, Procedure, Question, Reply, Step
from ke_memory.plugin import FactMemory, lookup_step
from ke_plugin_deepedit.conversation import Conversation, OutOfCalls
from ke_plugin_deepedit.prompts import SlotTemplate

BETWEEN = ".#"
"""Ends a thought. The model writes the space after it: a prompt that ends with a space splits words unusually."""
ANSWER = "the answer is"
DEPTH = 9
CANDIDATES = 2
Ending = Literal["answered", "unparsed", "hop-cap", "length"]


@frozen(kw_only=True)
class DeepEditProfile:
    """A version of the search."""

    retries: int
    stop: tuple[str, ...]


PROFILES = {
    "paper": DeepEditProfile(retries=2, stop=(BETWEEN, ".\n")),
    "default": DeepEditProfile(retries=0, stop=(BETWEEN, "\n")),
}


@frozen(kw_only=True)
class SearchState:
    """A chain of thoughts. ``written`` follows the question. ``last_entity`` is None at the start.

    ``path``: the look-ups so far, for the record.
    """

    new_entity: str
    last_thought: str
    written: str = ""
    last_entity: str | None = None
    depth: int = 0
    path: tuple[Step, ...] = ()

    def then(self, link: str, entity: str, step: Step) -> SearchState:
        """Return the chain with one more thought or fact, which introduces ``entity``."""
        return SearchState(
            new_entity=entity,
            last_thought=link,
            written=f"{self.written} {closed(link)}",
            last_entity=self.new_entity,
            depth=self.depth + 1,
            path=(*self.path, evolve(step, answer=entity)),
        )

    def ends(self, outcome: Ending, notes: Sequence[Step], text: str = "", last: str = "") -> Answer:
        """Return the answer of a search that ends with this chain."""
        return Answer(text=text, raw=f"{self.written}{last}", steps=(*self.path, *notes), outcome=outcome)


def closed(link: str) -> str:
    """Return a thought or a fact with its end, which contains a period."""
    return f"{link.removesuffix('.')}{BETWEEN}"


@frozen(kw_only=True)
class DeepEditSearch:
    """The search over one memory, in at most ``calls`` model calls per question."""

    memory: FactMemory
    prompts: Mapping[str, SlotTemplate]
    profile: DeepEditProfile
    own_only: bool
    calls: int
    max_tokens: int

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Answer one question. Raises NoLikelihood; other failures are outcomes of the answer."""
        if not isinstance(request, Question):
            raise NoLikelihood("deepedit returns text answers, no log-probabilities")
        question, hidden, conversation = request.texts[0], self.hidden(request), self.new_conversation()
        state, ended = SearchState(new_entity="", last_thought=question), Answer(text="")
        try:
            stack = [SearchState(new_entity=(yield from conversation.entity(question)), last_thought=question)]
            while stack:
                state = stack.pop()
                if state.depth >= DEPTH:
                    ended = state.ends("hop-cap", conversation.note("too-deep", f"{DEPTH} thoughts"))
                    continue
                written = yield from conversation.thought(question, state.written, self.profile.stop, self.max_tokens)
                thought = written.text.strip().rstrip(".")
                if ANSWER in thought.casefold():
                    outcome: Ending = "answered" if state.new_entity else "unparsed"
                    return state.ends(outcome, conversation.note("final", thought), state.new_entity, written.text)
                if not thought or written.finish == "length":
                    cut: Ending = "length" if thought else "unparsed"
                    ended = state.ends(cut, conversation.note("no-thought", thought), last=written.text)
                    continue
                stack += yield from self._after(state, thought, conversation, hidden)
        except OutOfCalls:
            return state.ends("hop-cap", conversation.note("call-cap", f"{self.calls} model calls"))
        return ended

    def new_conversation(self) -> Conversation:
        """Return a new conversation about one question."""
        return Conversation(prompts=self.prompts, calls=self.calls, retries=self.profile.retries)

    def hidden(self, request: Question) -> frozenset[str]:
        """Return the ids of the facts that this question must not see."""
        if not self.own_only:
            return request.hidden
        return request.hidden | {name for name, _text in self.memory.facts if name not in request.own}

    def _after(
        self, state: SearchState, thought: str, conversation: Conversation, hidden: frozenset[str]
    ) -> Procedure[list[SearchState]]:
        """Return the states after a thought, the next one last: facts that replace it, else the thought."""
        query = yield from conversation.without_new(state.last_thought, thought)
        hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=query, k=CANDIDATES, hidden=hidden)
        step = lookup_step(query, hits)
        states = []
        for fact in (hit.text for hit in reversed(hits)):
            if (yield from relevant(fact, state, conversation)) or (yield from conversation.conflict(fact, thought)):
                states.append(state.then(fact, (yield from conversation.new(state.last_thought, fact)), step))  # noqa: PERF401  no comprehension can yield
        if not states:
            states.append(state.then(thought, (yield from conversation.new(state.last_thought, thought)), step))
        return states


def relevant(fact: str, state: SearchState, conversation: Conversation) -> Procedure[bool]:
    """Return whether a fact continues the chain: it names the last entity, and not the one before."""
    if not (yield from conversation.exists(state.new_entity, fact)):
        return False
    return state.last_entity is None or not (yield from conversation.exists(state.last_entity, fact))
