"""The six published layouts, brought into one. Functions raise a short ValueError; the reader adds the location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ke_benchmarks import sort_key

KINDS = {
    "portability": ("Reasoning", "Subject_Aliasing", "Logical_Generalization"),
    "locality": ("Relation_Specificity", "Forgetfulness"),
}
OPINIONS = (
    "What do you think about {}?",
    "What is your opinion of {}?",
    "How do you feel about {}?",
    "Would you say that you like {}?",
)
FORGET, RETAIN = ("K_F", "success"), ("K_R", "locality")
"""The fields of Sanitation in the released code, and in the publisher's description."""


def fact(raw: Any) -> Any:
    """Return a record of Wiki_recent, ZsRE, WikiBio or Wiki_counterfact in one layout."""
    if not isinstance(raw, dict):
        return raw
    return {
        "subject": _first(raw, "subject", "concept"),
        "prompt": _first(raw, "prompt", "text"),
        "target": _first(raw, "target_new", "labels"),
        "old": groups(raw.get("ground_truth"), "ground_truth"),
        "rephrase": raw.get("rephrase", raw.get("rephrase_prompt", "")),
        **{part: list(_items(raw, part)) for part in KINDS},
    }


def opinion(raw: Any, place: int, topics: list[str]) -> Any:
    """Return a record of ConvSent in the same layout: a question about the topic, and a sentence of one sentiment.

    The released code draws question and sentiment, and takes the next topic for locality. Here a hash of the topic
    draws them, so they are the same in every run. An opinion about the other topic has no right answer.
    """
    if not isinstance(raw, dict):
        return raw
    topic = _first(raw, "ent")
    drawn = int(sort_key("convsent", topic)[:8], 16)
    sentiment = ("pos", "neg")[drawn % 2]
    texts, others = (_texts(raw, name) for name in (sentiment, "neg" if sentiment == "pos" else "pos"))
    question = OPINIONS[drawn // 2 % len(OPINIONS)]
    near = topics[(place + 1) % len(topics)]
    retained = [{"kind": "Other_Topic", "prompt": question.format(near), "objects": []}] if near != topic else []
    return {
        "subject": topic,
        "prompt": question.format(topic),
        "target": texts[0],
        "targets": texts,
        "old": [[text] for text in others],
        "rephrase": "",
        "portability": [],
        "locality": retained,
    }


def forgotten(content: dict[str, Any]) -> list[Any]:
    """Return the records of Sanitation: each answer to forget, with the answer to retain at the same place."""
    forget, retain = (_list(content, names) for names in (FORGET, RETAIN))
    return [
        {"forget": one, "retain": retain[place % len(retain)] if retain else None} for place, one in enumerate(forget)
    ]


def forget(raw: Any) -> Any:
    """Return such a pair in the common layout. It names no subject."""
    if not isinstance(raw, dict):
        return raw
    own, other = raw["forget"], raw["retain"]
    if not isinstance(own, dict) or not isinstance(other, dict | None):
        raise TypeError("an item to forget or to retain must be an object")
    retained = []
    if other is not None:
        objects = groups(other.get("ground_truth"), "ground_truth")
        retained = [{"kind": "Retained", "prompt": _first(other, "question"), "objects": objects}]
    return {
        "subject": "",
        "prompt": _first(own, "question"),
        "target": _first(own, "target_new"),
        "old": groups(own.get("ground_truth"), "ground_truth"),
        "rephrase": "",
        "portability": [],
        "locality": retained,
    }


def groups(value: Any, name: str) -> list[list[str]]:
    """Return gold as groups of names, one group for each object.

    A text is one object with one name. A list of texts has the names of one object. A list of lists has several
    objects.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [[value]]
    if not isinstance(value, list):
        raise TypeError(f"{name}: must be a text or a list, not {type(value).__name__}")
    if all(isinstance(item, str) for item in value):
        return [value]
    if not all(isinstance(item, list) and all(isinstance(text, str) for text in item) for item in value):
        raise TypeError(f"{name}: must have texts, or lists of texts")
    return value


def _items(raw: Mapping[str, Any], part: str) -> Iterator[dict[str, Any]]:
    """Yield the questions of ``portability`` or ``locality``. A missing part, or a missing kind, is empty."""
    found = raw.get(part) or {}
    if not isinstance(found, dict):
        raise TypeError(f"{part}: must be an object")
    for kind in KINDS[part]:
        for place, item in enumerate(found.get(kind) or ()):
            where = f"{part}.{kind}[{place}]"
            if not isinstance(item, dict) or "prompt" not in item:
                raise ValueError(f"{where}.prompt: missing")
            prompt = item["prompt"]
            first = prompt[0] if isinstance(prompt, list) and prompt else prompt
            yield {"kind": kind, "prompt": first, "objects": groups(item.get("ground_truth"), f"{where}.ground_truth")}


def _first(raw: Mapping[str, Any], *names: str) -> Any:
    """Return the value of the first of these fields that the record has."""
    for name in names:
        if name in raw:
            return raw[name]
    raise ValueError(f"{' or '.join(names)}: missing")


def _texts(raw: Mapping[str, Any], name: str) -> list[str]:
    texts = _first(raw, name)
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"{name}: must be a list of texts")
    return texts


def _list(content: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    found = _first(content, *names)
    if not isinstance(found, list):
        raise TypeError(f"{' or '.join(names)}: must be a list")
    return found
