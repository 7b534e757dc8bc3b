"""Find names in an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import field, frozen

from ke_core.plugin import UNSPACED, Entity
from ke_plugin_alias import Rule

# A hyphen joins words: "Guinea" does not match in "Guinea-Bissau". Characters of scripts without spaces join none.
LETTER = rf"[^\W{UNSPACED}]"
BEFORE, AFTER = rf"(?<!{LETTER})(?<!{LETTER}-)", rf"(?!{LETTER}|-{LETTER})"
# "500" does not match in "1,500", nor "5" in "5.5" or "-5".
NOT_AFTER_NUMBER, NOT_BEFORE_NUMBER = r"(?<!\d[.,])(?<![-\u2212])", r"(?![.,]\d)"
JOINED = re.compile(f"[{UNSPACED}]")
SEPARATOR = re.compile(r"(?:[\s,;&/\uff0c\uff1b\u3001]|\band\b)+")
END = re.compile(r"\s*[.\u3002]?")


@frozen(kw_only=True)
class GoldNames:
    """The names of a gold answer's entities: normalized name to (original spelling, indexes of its entities)."""

    spelled: Mapping[str, tuple[str, tuple[int, ...]]] = field(factory=dict)

    @classmethod
    def of(cls, entities: Sequence[Entity], normalized: Callable[[str], Sequence[str]]) -> GoldNames:
        """Collect label and aliases of each entity in every form from ``normalized``. Empty ones match nothing."""
        spelled: dict[str, tuple[str, tuple[int, ...]]] = {}
        for index, entity in enumerate(entities):
            for name in entity.names:
                for key in filter(None, normalized(name)):
                    first, at = spelled.get(key, (name, ()))
                    spelled[key] = (first, at if index in at else (*at, index))
        return cls(spelled=spelled)


def named(text: str, rule: Rule, names: GoldNames, other: GoldNames) -> list[str]:
    """Return the ``names`` that the text gives under the rule, in order.

    ``contains``: anywhere as whole words. ``substring``: anywhere, for names of more than one character (or a digit),
    each searched independently. ``prefix``: the text begins with a name, or with a list of names. ``exact``: it is a
    name or a list of names and nothing else, except one final full stop.
    """
    if rule == "substring":
        inside = [name for name in names.spelled if is_distinctive(name) and name in text]
        return sorted(inside, key=lambda name: (text.index(name), -len(name)))
    if text in names.spelled:
        return [text]  # fast path for the common answer: no regular expression
    found = _mentions(text, [*names.spelled, *other.spelled])
    if rule == "contains":
        return [match.group() for match in found if match.group() in names.spelled]
    listed, end = _list(text, found, names)
    return listed if rule == "prefix" or END.fullmatch(text, end) else []


def is_distinctive(name: str) -> bool:
    """Return whether a name has more than one letter. RippleEdits' released code ignores other names.

    One character of a script without spaces can be a word.
    """
    return len(name) > 1 or name.isdigit() or bool(JOINED.match(name))


def _list(text: str, found: Iterator[re.Match[str]], names: GoldNames) -> tuple[list[str], int]:
    """Return the names that ``text`` begins with, each entity once, and where they end."""
    listed: list[str] = []
    seen: set[int] = set()
    end = 0
    for match in found:
        name = match.group()
        joined = SEPARATOR.fullmatch(text, end, match.start()) if listed else match.start() == 0
        if not joined or name not in names.spelled or seen & set(names.spelled[name][1]):
            break
        seen.update(names.spelled[name][1])
        listed.append(name)
        end = match.end()
    return listed, end


def _mentions(text: str, names: Sequence[str]) -> Iterator[re.Match[str]]:
    """Return non-overlapping mentions from left to right; of names with the same start, the longest."""
    inside = {name for name in names if name in text}  # compiling the others would take most of a judge's time
    if not inside:
        return iter(())
    longest_first = sorted(inside, key=lambda name: (-len(name), name))
    return re.finditer("|".join(map(_whole_words, longest_first)), text)


def _whole_words(name: str) -> str:
    """Return the pattern of a name that stands by itself, not inside a word.

    Scripts without spaces do not mark words, so such a name may stand anywhere, if it has more than one character.
    """
    if len(name) == 1 and JOINED.match(name):
        return rf"(?<!\w){name}(?!\w)"
    before = "" if JOINED.match(name[0]) else BEFORE + (NOT_AFTER_NUMBER if name[0].isdigit() else "")
    after = "" if JOINED.match(name[-1]) else AFTER + (NOT_BEFORE_NUMBER if name[-1].isdigit() else "")
    return before + re.escape(name) + after
