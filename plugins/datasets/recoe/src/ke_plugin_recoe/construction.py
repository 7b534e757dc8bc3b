"""The paper's construction (section 3.2): for questions with answers, a model writes facts and counterfactuals.

=============== ==============================================================================================
step            request to the model
=============== ==============================================================================================
counterfactual  another answer, if the file has none
facts           sentences about the entities of both answers; each is verified, with passages if there are any
filter          answered from the facts only, the question must have the answer A (so they refute CA)
counterfactuals group 1: the subjects are exchanged (``swap``); group 2: the model changes the sentences
entailment      answered from the counterfactual facts, the question must have the answer CA
atoms           each sentence as atomic statements, as sentences and as OpenIE triples
aliases         other names of A and CA
consistency     of contradicting records, a random one is kept (``consistent``)
=============== ==============================================================================================

The paper uses Claude for all steps and verifies with pages of Wikipedia. Here the model is an option, and the passages
come from the file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks import all_not_blank, has_label, read_records
from ke_benchmarks.graph import BuildTools
from ke_core.plugin import BadConfig, BadData, Failure, Generate, Generated, Procedure, prompt_text
from ke_plugin_recoe import GROUPS, RecoeBuild
from ke_plugin_recoe.cases import ordered
from ke_plugin_recoe.counterfactuals import consistent, swapped
from ke_plugin_recoe.edits import reason_not_editable
from ke_plugin_recoe.records import (
    DIRECT,
    UNCHANGED,
    Group,
    RecoeRecord,
    Scheme,
    StatedFact,
    number_of,
    parse_triple,
    plain,
)

LINE, PARAGRAPH = ("\n",), ("\n\n",)
PROMPTS = ("aliases", "alter", "answer", "atoms", "counterfactual", "counts", "facts", "state", "things", "verify")
INCONSISTENT = "its counterfactuals contradict another record's"
Texts = Generator[Any, Any, str]


@frozen(kw_only=True)
class GivenQuestion:
    """A line of the file: a question with its answer. ``passages``: text to verify facts with."""

    question: str = field(validator=has_label)
    answer: str = field(validator=has_label)
    scheme: Scheme
    counterfactual_answer: str = ""
    passages: tuple[str, ...] = field(default=(), validator=all_not_blank)


class DatapointDropped(Exception):
    """The reason why a record was dropped."""


def generate_records(path: Path, tools: BuildTools, config: RecoeBuild) -> Iterator[RecoeRecord]:
    """Return up to ``tools.cases`` records in the order of the file. Raises BadData for an invalid line, BadConfig."""
    if tools.run is None:
        raise BadConfig("a model is required to write the facts", hint="pass --with-model")
    writer = DatapointBuilder(config=config)
    file = path.expanduser().absolute()
    if not file.is_file():
        raise BadData(f"no file {file}", hint="--from must be a JSON file of questions with answers")
    lines = read_records(file, GivenQuestion, key="", lines=True)
    results = tools.run({f"recoe/{at}": writer.datapoint(one) for at, one in enumerate(lines, start=1)})
    found = []
    for result in results.values():
        if isinstance(result, RecoeRecord):
            found.append(result)
        else:
            tools.dropped(f"the model failed: {result.error}" if isinstance(result, Failure) else result)
    kept = consistent(found, tools.seed)
    for _gone in range(len(found) - len(kept)):
        tools.dropped(INCONSISTENT)
    return islice(iter(kept), tools.cases)


@frozen(kw_only=True)
class DatapointBuilder:
    """Builds one record as a procedure on the engine."""

    config: RecoeBuild
    prompts: Mapping[str, str] = field(init=False)

    @prompts.default
    def _read(self) -> Mapping[str, str]:
        """Read all questions before the first request. Raises BadConfig."""
        folder = self.config.prompts
        return {name: prompt_text("ke_plugin_recoe", f"{name}.txt", folder, option="build.prompts") for name in PROMPTS}

    def datapoint(self, given: GivenQuestion) -> Procedure[RecoeRecord | str]:
        """Return the record, or the reason why it was dropped."""
        try:
            made: RecoeRecord = yield from self._record(given)
        except (DatapointDropped, ValueError) as why:
            return str(why)
        return made

    def _record(self, given: GivenQuestion) -> Procedure[RecoeRecord]:
        new = given.counterfactual_answer
        if not new:
            new = yield from self._ask("counterfactual", 48, question=given.question, answer=given.answer)
        if not new or plain(new) == plain(given.answer):
            raise DatapointDropped("the model wrote no other answer")
        if GROUPS[given.scheme] == "swap":
            facts, turned = yield from self._swapped(given, new)
        else:
            facts, turned = yield from self._altered(given, new)
        yield from self._entails(given, turned, given.answer, new)
        old_names = yield from self._aliases(given.answer)
        new_names = yield from self._aliases(new)
        record = RecoeRecord(
            scheme=given.scheme,
            question=given.question,
            answer=given.answer,
            counterfactual_answer=new,
            answer_alias=old_names,
            counterfactual_answer_alias=new_names,
            facts_per_choice=facts,
            counterfactuals_per_choice=turned,
        )
        if reason := reason_not_editable(record):
            raise DatapointDropped(reason)
        return record

    # --- group 1 --------------------------------------------------------------------------------------------

    def _swapped(self, given: GivenQuestion, new: str) -> Procedure[tuple[dict[str, Group], dict[str, Group]]]:
        one, other = yield from self._things(given, new)
        held = []
        for thing in (one, other):
            written = yield from self._lines(
                "facts", 200, question=given.question, thing=thing, number=str(self.config.facts)
            )
            held.append((yield from self._verified(written, given)))
        facts: dict[str, Group] = {"choice_1_facts": held[0], "choice_2_facts": held[1]}
        yield from self._entails(given, facts, new, given.answer)
        first, second = swapped(held[0], held[1], one, other)
        return facts, {"choice_1_counterfactuals": first, "choice_2_counterfactuals": second, UNCHANGED: ()}

    def _things(self, given: GivenQuestion, new: str) -> Procedure[tuple[str, str]]:
        """Return the entities whose facts are exchanged: the two answers, the swapped members of an order, or what is
        compared.
        """
        if given.scheme == "sorting":
            pairs = zip(ordered(given.answer), ordered(new), strict=False)
            moved = [old for old, place in pairs if plain(old) != plain(place)]
            if len(moved) != 2:
                raise DatapointDropped("the two orders differ by more than one exchange")
            return moved[0], moved[1]
        if plain(given.answer) not in ("yes", "no"):
            return given.answer, new
        names = yield from self._ask("things", 48, question=given.question)
        found = [name.strip() for name in names.split(";") if name.strip()]
        if len(found) != 2:
            raise DatapointDropped("unclear what is compared")
        return found[0], found[1]

    # --- group 2 --------------------------------------------------------------------------------------------

    def _altered(self, given: GivenQuestion, new: str) -> Procedure[tuple[dict[str, Group], dict[str, Group]]]:
        written = yield from self._lines("counts", 200, question=given.question)
        held: Group = yield from self._verified(written, given)
        facts: dict[str, Group] = {"choice_1_facts": held}
        yield from self._entails(given, facts, new, given.answer)
        changed: list[str] = yield from self._lines(
            "alter",
            200,
            question=given.question,
            answer=given.answer,
            counterfactual=new,
            sentences="\n".join(fact.fact for fact in held),
        )
        if len(changed) != len(held):
            raise DatapointDropped("the number of changed facts differs from the number of facts")
        own, stay = list[StatedFact](), list[StatedFact]()
        for old, sentence in zip(held, changed, strict=True):
            if plain(old.fact) == plain(sentence):
                stay.append(evolve(old, links=()))
            else:
                own.append((yield from self._stated(sentence)))
        turned: dict[str, Group] = {"choice_1_counterfactuals": tuple(own), UNCHANGED: tuple(stay)}
        if given.scheme != "counting":
            for groups, name, answer in zip((facts, turned), DIRECT, (given.answer, new), strict=True):
                sentence = yield from self._ask("state", 64, question=given.question, answer=answer)
                groups[name] = ((yield from self._stated(sentence)),)
        return facts, turned

    # --- both groups ----------------------------------------------------------------------------------------

    def _verified(self, sentences: list[str], given: GivenQuestion) -> Procedure[Group]:
        """Return each sentence after verification by the model, as atomic facts."""
        found = []
        for sentence in sentences:
            told = yield from self._ask(
                "verify", 96, sentence=sentence, passages=" ".join(given.passages).strip() or "none"
            )
            found.append((yield from self._stated(told)))
        if not found:
            raise DatapointDropped("the model wrote no fact")
        return tuple(found)

    def _entails(self, given: GivenQuestion, groups: dict[str, Group], wrong: str, right: str) -> Procedure[None]:
        """Check that the facts lead to the right answer and therefore not to the wrong one. Direct facts would reveal
        it.
        """
        facts = " ".join(fact.fact for name, group in groups.items() if name not in DIRECT for fact in group)
        told = yield from self._ask("answer", 48, facts=facts, question=given.question)
        if not same(told, right, given.scheme):
            is_new = right != given.answer
            reason = "the counterfactual facts do not lead to the counterfactual answer" if is_new else ""
            refuted = "the facts lead to the counterfactual answer" if same(told, wrong, given.scheme) else ""
            raise DatapointDropped(reason or refuted or "the facts do not lead to the answer")

    def _stated(self, sentence: str) -> Procedure[StatedFact]:
        lines = yield from self._lines("atoms", 200, sentence=sentence)
        atoms = [line.rpartition("|") for line in lines]
        if not atoms or not all(bar for _text, bar, _triple in atoms):
            raise DatapointDropped("a fact was not split into statements with triples")
        return StatedFact(
            fact=sentence,
            atomic_facts=tuple(text.strip() for text, _bar, _triple in atoms),
            atomic_triples=tuple(str(parse_triple(triple)) for _text, _bar, triple in atoms),
        )

    def _aliases(self, answer: str) -> Procedure[tuple[str, ...]]:
        told = yield from self._ask("aliases", 64, answer=answer)
        names = [name.strip() for name in told.split(";")]
        return tuple(dict.fromkeys(name for name in names if name and plain(name) not in ("none", plain(answer))))

    def _ask(self, prompt: str, tokens: int, **parts: str) -> Texts:
        """Return one line."""
        written: Generated = yield Generate(prompt=self._prompt(prompt, parts), max_tokens=tokens, stop=LINE)
        return written.text.strip()

    def _lines(self, prompt: str, tokens: int, **parts: str) -> Procedure[list[str]]:
        """Return the lines before the first empty line, without list markers."""
        text = self._prompt(prompt, parts)
        written: Generated = yield Generate(prompt=text, max_tokens=tokens, stop=PARAGRAPH)
        lines = [line.strip().lstrip("-*\u2022").strip() for line in written.text.strip().splitlines()]
        return [line for line in lines if line]

    def _prompt(self, name: str, parts: dict[str, str]) -> str:
        text = self.prompts[name]
        for part, value in parts.items():
            text = text.replace(f"{{{part}}}", value)
        return text


def same(told: str, answer: str, scheme: Scheme) -> bool:
    """Return whether two answers are equal: the same number, order, or name."""
    told = told.strip().removesuffix(".")
    if scheme == "sorting":
        return [plain(name) for name in ordered(told)] == [plain(name) for name in ordered(answer)]
    return plain(told) == plain(answer) or (bool(number_of(answer)) and number_of(told) == number_of(answer))
