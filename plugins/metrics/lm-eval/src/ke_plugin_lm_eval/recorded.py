"""A model for lm-evaluation-harness that answers from recorded replies.

The harness sends three types of requests. Each becomes a request of ``ke``, whose query consists of the task, the
number of the document and a digest of the content. A reply is therefore never used for a task that has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from ke_core.plugin import (
    Answer,
    Decoding,
    EditorRequest,
    Failure,
    Likelihood,
    NoValue,
    Parse,
    Prompt,
    Question,
    Reply,
    digest,
    log_probabilities,
)
from ke_plugin_lm_eval.choices import DECODING, choice_prompt, chosen
from ke_plugin_lm_eval.generation import decoding_of

NOT_ASKED = "the run did not send this request: use ke eval with --metric lm-eval and the same options"
NO_TEXT = "the reply is no text"
NO_CHOICE = "the task needs log-probabilities: use lm-eval.choices=scored"
MOST_OPTIONS = len(ascii_uppercase)  # lettered


class RecordedModel(LM):  # type: ignore[misc]  # the harness has no types
    """Answers the harness's requests from ``replies``, by query.

    A request without a usable reply gets a placeholder, and ``problems`` holds the reason by task. ``greedy`` is the
    value of an unknown ``is_greedy``; ``guessed`` is then true. ``requests`` collects them. ``letters``: multiple
    choice is a question with lettered options.
    """

    def __init__(self, replies: Mapping[str, Reply], *, greedy: bool = False, letters: bool = False) -> None:
        super().__init__()
        self.requests: list[EditorRequest] = []
        self.problems: dict[str, list[str]] = {}
        self.guessed = False
        self._replies = replies
        self._greedy = greedy
        self._letters = letters

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Return log-probability and ``is_greedy`` of each continuation. Those of a document are one request."""
        documents: dict[tuple[str, int], dict[int, Instance]] = {}
        for request in requests:
            documents.setdefault((request.task_name, request.doc_id), {})[request.idx] = request
        found: dict[tuple[str, int, int], tuple[float, bool]] = {}
        for (task, number), some in documents.items():
            scores = self._scores(task, number, [one.args for one in some.values()])
            found |= {(task, number, idx): score for idx, score in zip(some, scores, strict=True)}
        return [found[request.task_name, request.doc_id, request.idx] for request in requests]

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Return the log-probability of each whole text."""
        return [self._scores(one.task_name, one.doc_id, [("", one.args[0])])[0][0] for one in requests]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Return each generated text. A repeated request is a request of its own."""
        seen: dict[int, int] = {}
        texts = []
        for one in requests:
            seen[id(one)] = repeat = seen.get(id(one), 0) + 1
            request = generation(one.task_name, f"{one.doc_id}.{repeat}", one.args[0], decoding_of(one))
            texts.append(self._text(one.task_name, request))
        return texts

    def _reply(self, request: EditorRequest) -> Reply:
        self.requests.append(request)
        if (reply := self._replies.get(request.query)) is None:
            raise NoValue(NOT_ASKED)
        return reply

    def _scores(self, task: str, number: int, pairs: Sequence[tuple[Any, ...]]) -> list[tuple[float, bool]]:
        """Return log-probability and ``is_greedy`` of each (context, continuation) of one document."""
        if self._letters:
            return self._chosen(task, number, pairs)
        try:
            scored = log_probabilities(self._reply(likelihood(task, number, pairs)))
        except NoValue as reason:
            self.problems.setdefault(task, []).append(str(reason))
            return [(0.0, False)] * len(pairs)
        self.guessed |= None in scored.is_greedy
        greedy = [self._greedy if one is None else one for one in scored.is_greedy]
        return list(zip(scored.logprobs, greedy, strict=True))

    def _chosen(self, task: str, number: int, pairs: Sequence[tuple[Any, ...]]) -> list[tuple[float, bool]]:
        """Return 0 for the chosen continuation and -1 for the others, in place of log-probabilities.

        Continuations without a context, which mutual information compares with, are no options.
        """
        options = [place for place, (context, *_rest) in enumerate(pairs) if context.strip()]
        if not 1 < len(options) <= MOST_OPTIONS:
            self.problems.setdefault(task, []).append(NO_CHOICE)
            return [(0.0, False)] * len(pairs)
        prompt = choice_prompt([(pairs[place][0], pairs[place][1]) for place in options])
        request = generation(task, str(number), prompt, DECODING)
        best = options[chosen(self._text(task, request), request.query, len(options))]
        return [(0.0, True) if place == best else (-1.0, False) for place in range(len(pairs))]

    def _text(self, task: str, request: Question) -> str:
        try:
            return text_of(self._reply(request))
        except NoValue as reason:
            self.problems.setdefault(task, []).append(str(reason))
            return ""


def likelihood(task: str, number: int, pairs: Sequence[tuple[Any, ...]]) -> Likelihood:
    """Return the request for (context, continuation) ``pairs`` of one document.

    As in the harness, spaces at the end of a context belong to the continuation.
    """
    split = [(context.rstrip(), context[len(context.rstrip()) :] + text) for context, text, *_ in pairs]
    prompts, continuations = zip(*split, strict=True)
    shared = len(set(prompts)) == 1
    name = query(task, str(number), split)
    return Likelihood(
        id=name,
        case="",
        query=name,
        texts=prompts[:1] if shared else prompts,
        form="cloze",
        prompt=prompts[0] if shared else "",
        continuations=continuations,
        prompts=() if shared else prompts,
    )


def generation(task: str, number: str, context: str, decoding: Decoding) -> Question:
    """Return the request to continue ``context``."""
    name = query(task, number, [context, decoding.stop, decoding.max_tokens])
    prompt = Prompt(text=context, decoding=decoding, parse=Parse(until=""), several_lines=True)
    return Question(id=name, case="", query=name, texts=(context,), form="question", prompt=prompt)


def query(task: str, number: str, content: object) -> str:
    """Return the name of a request."""
    return f"{task}/{number}/{digest(content)[:8]}"


def text_of(reply: Reply) -> str:
    """Return the generated text with the spaces around it. Raises NoValue if there is none.

    Editors with their own prompts record more than the answer in ``raw``. Their answer is ``text``.
    """
    if isinstance(reply, Failure):
        raise NoValue(reply.message or reply.error)
    if not isinstance(reply, Answer):
        raise NoValue(NO_TEXT)
    return reply.raw if reply.raw.strip() == reply.text else reply.text


def problem_words(problems: Sequence[str], total: int) -> Iterator[str]:
    """Yield the sentence about requests without a usable reply, if there are any."""
    if problems and not total:
        yield problems[0]
    elif problems:
        yield f"{len(problems)} of {total} requests have no usable reply: {problems[0]}"
