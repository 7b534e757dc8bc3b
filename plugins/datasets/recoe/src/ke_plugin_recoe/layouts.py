"""Read records in any of ReCoE's layouts.

================================ ==================================== ================================================
schemes                          original facts                       counterfactual facts (the edits)
================================ ==================================== ================================================
superlative, comparative         ``facts_per_choice``                 ``counterfactuals_per_choice``
counting                         ``facts``                            ``counterfactual_facts``
aggregation, subtraction         ``indirect_fact``                    ``indirect_counterfactual_fact``
================================ ==================================== ================================================

Keys are recognized by the words in them, because not every layout is documented. A value may be a list of facts, lists
of facts nested to any depth, or an object whose members are such lists. Direct facts, which state the answer, and
extended facts, which list what is counted, are never edited and are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

from ke_plugin_recoe.records import UNCHANGED, Group, RecoeRecord, Scheme, StatedFact, parse_triple

NOT_READ = {"answer", "question", "direct", "extended"}
SENTENCES = ("sentence", "fact")
NUMBER_READ = "number as an answer read as text"
EMPTY_FACT = "fact without atomic facts left out"
UNREADABLE = "triple without three parts not used"
UNEVEN = "triples not used: not as many as atomic facts"


def record_of(raw: Mapping[str, Any], scheme: Scheme | None) -> RecoeRecord:
    """Return the record. ``scheme``: None if the record names its own.

    Raises ValueError or TypeError with the key, for a record without question, answers or facts.
    """
    notes: dict[str, None] = {}
    sides: dict[str, dict[str, Group]] = {"facts": {}, "counterfactuals": {}}
    for key, value in raw.items():
        side = _side(key)
        if side == UNCHANGED:
            sides["counterfactuals"][UNCHANGED] = tuple(_facts(value, key, notes))
        elif side:
            sides[side] |= _groups(value, key, notes)
    for side, groups in sides.items():
        if not groups:
            raise ValueError(f"{side}: unknown layout, no key contains {side}")
    return RecoeRecord(
        question=_text(raw, "question", {}),
        answer=_text(raw, "answer", notes),
        counterfactual_answer=_text(raw, "counterfactual_answer", notes),
        answer_alias=_names(raw, "answer_alias"),
        counterfactual_answer_alias=_names(raw, "counterfactual_answer_alias"),
        facts_per_choice=sides["facts"],
        counterfactuals_per_choice=sides["counterfactuals"],
        scheme=scheme or _scheme(raw),
        notes=tuple(notes),
    )


def _side(key: str) -> str:
    """Return which facts a key of a record contains; empty if none, or facts that are ignored."""
    words = set(key.split("_"))
    if words & NOT_READ:
        return ""
    if "unchanged" in words:
        return UNCHANGED
    if words & {"counterfactual", "counterfactuals"}:
        return "counterfactuals"
    return "facts" if words & {"fact", "facts"} else ""


def _groups(value: Any, key: str, notes: dict[str, None]) -> dict[str, Group]:
    named = value if isinstance(value, dict) and not _is_fact(value) else {key: value}
    return {name: tuple(_facts(inner, f"{key}.{name}", notes)) for name, inner in named.items()}


def _facts(value: Any, key: str, notes: dict[str, None]) -> Iterator[StatedFact]:
    """Yield every fact at any depth of nested lists. Raises TypeError."""
    for raw in _flat(value):
        if not isinstance(raw, dict):
            raise TypeError(f"{key}: {raw!r} is not a fact (an object with a sentence and atomic facts)")
        fact = _fact(raw, key)
        if fact is None:
            notes[EMPTY_FACT] = None
        else:
            notes |= dict.fromkeys(_repairs(fact))
            yield fact


def _flat(value: Any) -> Iterator[Any]:
    """Yield the members of nested lists, and of objects that are not facts."""
    if isinstance(value, dict) and not _is_fact(value):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif value is not None:
        yield value


def _repairs(fact: StatedFact) -> Iterator[str]:
    """Yield the problems of a fact's triples."""
    if len(fact.atomic_facts) != len(fact.atomic_triples):
        yield UNEVEN
    for text in fact.atomic_triples:
        try:
            note = parse_triple(text).note
        except ValueError:
            note = UNREADABLE
        if note:
            yield note


def _is_fact(value: dict[str, Any]) -> bool:
    return any(name in value for name in (*SENTENCES, "atomic_facts"))


def _fact(raw: dict[str, Any], key: str) -> StatedFact | None:
    """Return the fact; None if it has no atomic facts, such as an apology of the model that wrote it."""
    sentences = tuple(_texts(raw.get("atomic_facts"), f"{key}.atomic_facts"))
    if not any(sentences):
        return None
    whole = [text for name in SENTENCES for text in _texts(raw.get(name), f"{key}.{name}") if text]
    return StatedFact(
        fact=whole[0] if whole else " ".join(sentences).strip(),
        links=tuple(_texts(raw.get("links"), f"{key}.links")),
        atomic_facts=sentences,
        atomic_triples=tuple(_texts(raw.get("atomic_triples"), f"{key}.atomic_triples")),
        atomic_clozes=tuple(_texts(raw.get("atomic_clozes"), f"{key}.atomic_clozes")),
    )


def _texts(value: Any, key: str) -> Iterator[str]:
    """Yield the texts of nested lists, or a single text."""
    if value is None:
        return
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, str):
        yield value.strip()
    elif _is_number(value):
        yield str(value)
    else:
        raise TypeError(f"{key}: {value!r} is not a text")


def _text(raw: Mapping[str, Any], key: str, notes: dict[str, None]) -> str:
    """Return a text. Numbers, including 0, are converted to text."""
    value = raw.get(key)
    if value is None:
        raise ValueError(f"{key}: missing")
    if _is_number(value):
        notes[NUMBER_READ] = None
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"{key}: {value!r} is not a text")
    return value.strip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(name for name in _texts(raw.get(key), key) if name)


def _scheme(raw: Mapping[str, Any]) -> Scheme:
    found, known = raw.get("scheme"), get_args(Scheme)
    if found is None:
        raise ValueError("scheme: missing")
    if found not in known:
        raise ValueError(f"scheme: must be one of {', '.join(known)}")
    return cast("Scheme", found)
