"""Demonstrations, and the prompt for each kind of query (appendices A.2 and D of the paper).

The paper states no decoding rules for these prompts. Here decoding is greedy, and short answers end at the end of
their line. A chain of thought ends at a blank line or before the next question; the text after its last ``Answer:``
is the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_benchmarks import digest_of, find_data
from ke_core.plugin import BadData, Decoding, Parse, Prompt, parse_json
from ke_plugin_mquake.variants import PRINCETON

OWN = ("recall.json", "multi-hop.txt", "cot.txt", "decompose.txt")
PUBLISHED = ("rel-prompts.json", "multihop-prompts.txt", "multihop-cot-prompts.txt", "MeLLo-prompt.txt")

# The longest gold label of CF-3k takes 16 tokens of a small model's vocabulary.
SHORT = Decoding(max_tokens=24, stop=("\n",))
# One sentence for each of at most four hops, then the answer.
THOUGHTS = Decoding(max_tokens=200, stop=("\n\n", "\nQuestion:"))
LAST_ANSWER = Parse(after="Answer:", until="\n")


@frozen(kw_only=True, slots=False)
class MquakePrompts:
    """A set of demonstrations: ``recall`` by relation id, the others as in their files.

    ``sha256`` is the checksum of the four files.
    """

    recall: Mapping[str, str]
    multi_hop: str
    cot: str
    decompositions: str
    sha256: str

    def single_hop(self, question: str, relation: str) -> Prompt:
        """Return eight questions about the same relation, or about eight others, then this one, each on its line."""
        return Prompt(text=f"{self.recall.get(relation, self._general)}\nQ: {question} A:", decoding=SHORT)

    @cached_property
    def _general(self) -> str:
        """One question of each of eight relations, for relations without demonstrations."""
        return "\n".join(text.splitlines()[0] for text in islice(self.recall.values(), 8))

    def direct(self, question: str) -> Prompt:
        """Return sixteen questions with one or more hops, then this question, one on each line."""
        return Prompt(text=f"{self.multi_hop}\nQ: {question} A:", decoding=SHORT)

    def chain_of_thought(self, question: str) -> Prompt:
        """Return five blocks of question, thoughts and answer, then this question."""
        return Prompt(text=f"{self.cot}\n\nQuestion: {question}\nThoughts:", decoding=THOUGHTS, parse=LAST_ANSWER)


def cloze(text: str) -> Prompt:
    """Return the bare sentence: the edit has the same form (README of the released code)."""
    return Prompt(text=text, decoding=SHORT)


def load(which: str, data_dir: Path | None) -> MquakePrompts:
    """Load ``own``, ``paper``, or a folder with files like our own. Raises BadData."""
    if which == "paper":
        return _read([_published(name, data_dir) for name in PUBLISHED], _published_recall)
    folder = Path(__file__).parent / "prompts" if which == "own" else Path(which).expanduser()
    paths = [folder / name for name in OWN]
    for path in paths:
        if not path.is_file():
            raise BadData(
                f"no prompt file {path}", hint=f"mquake.prompts is own, paper, or a folder with {', '.join(OWN)}"
            )
    return _read(paths, _own_recall)


def _published(name: str, data_dir: Path | None) -> Path:
    """Load the authors' files. They are neither included nor downloaded, because their checksums are not known."""
    return find_data("mquake", name, explicit=data_dir, url=f"{PRINCETON}prompts/{name}")


def _read(paths: list[Path], recall: Callable[[Any, Path], Mapping[str, str]]) -> MquakePrompts:
    contents = [path.read_bytes() for path in paths]
    texts = [_text(content, path) for content, path in zip(contents[1:], paths[1:], strict=True)]
    return MquakePrompts(
        recall=recall(parse_json(contents[0], paths[0], hint="save it as JSON in UTF-8"), paths[0]),
        multi_hop=texts[0],
        cot=texts[1],
        decompositions=texts[2],
        sha256=digest_of(hashlib.sha256(content).hexdigest() for content in contents),
    )


def _text(content: bytes, path: Path) -> str:
    try:
        text = content.decode().replace("\r\n", "\n").strip()
    except UnicodeDecodeError as wrong:
        raise BadData(f"{path} is not text in UTF-8 ({wrong.reason})", hint="save it as UTF-8") from wrong
    if not text:
        raise BadData(f"{path} is empty", hint="put the demonstrations there")
    return text


def _published_recall(raw: Any, path: Path) -> Mapping[str, str]:
    """Return relation ids with their eight lines."""
    if not isinstance(raw, dict) or not all(isinstance(text, str) and text.strip() for text in raw.values()):
        raise BadData(
            f"{path}: must map relation ids to demonstrations", hint="get it again from where it is published"
        )
    return {relation: text.strip() for relation, text in raw.items()}


def _own_recall(raw: Any, path: Path) -> Mapping[str, str]:
    """Return relation ids with lines from ``{"question": template, "answers": {subject: answer}}``."""
    hint = 'write {"P36": {"question": "What is the capital of {}?", "answers": {"Peru": "Lima", ...}}, ...}'
    if not isinstance(raw, dict):
        raise BadData(f"{path}: must map relation ids to demonstrations", hint=hint)
    found = {}
    for relation, item in raw.items():
        match item:
            case {"question": str(question), "answers": dict(answers)} if question.count("{}") == 1 and answers:
                lines = [f"Q: {question.replace('{}', subject)} A: {answer}" for subject, answer in answers.items()]
                found[relation] = "\n".join(lines)
            case _:
                raise BadData(f"{path}: the demonstrations of {relation} have the wrong format", hint=hint)
    return found
