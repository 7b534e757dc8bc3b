"""The criteria of a question (section 3 of the paper). They are not stored, but follow from its chains."""

from __future__ import annotations

from collections.abc import Iterator

from ke_plugin_uniedit.records import UnieditFact, UnieditQuestion

UNRELATED = "unrelated"
FORWARD, BACKWARD = ("h_e", "r_e", "t_e", "f"), ("t_e", "r_e", "h_e", "b")
"""The first codes of a path over the edited fact, in its own direction and reversed."""


def generality(question: UnieditQuestion) -> str:
    """Return the criteria of a generality question, joined by " + "."""
    return _joined(_generality(question))


def locality(question: UnieditQuestion, edit: UnieditFact) -> str:
    """Return the criteria of a locality question of ``edit``, joined by " + "."""
    return _joined(_locality(question, edit))


def _generality(question: UnieditQuestion) -> Iterator[str]:
    paths = [path[:4] for chain in question.chains for path in chain.paths]
    if question.path_type == "single" and paths == [FORWARD]:
        yield "rephrase"
    yield from _structure(question)
    if BACKWARD in paths:
        yield "reversal"
    for hop in (hop for hop in question.hops if hop.is_edit):
        if hop.head_entity.aliases and hop.subject != hop.head_entity.label:
            yield "subject alias"
        if len(hop.tail_entity.names) > 1 and hop.target != hop.tail_entity.names[0]:
            yield "object alias"


def _locality(question: UnieditQuestion, edit: UnieditFact) -> Iterator[str]:
    yield from _structure(question)
    head, tail = edit.head_entity.id, edit.tail_entity.item
    touched = {name for hop in question.hops for name in (hop.head_entity.id, hop.tail_entity.item) if name}
    if head in touched:
        yield "subject specificity"
    if any(hop.property.id == edit.property.id for hop in question.hops):
        yield "relation specificity"
    if tail in touched:
        yield "object specificity"
    if any(hop.property.id == edit.property.id and hop.head_entity.id == head for hop in question.hops):
        yield "1-N forgetting"


def _structure(question: UnieditQuestion) -> Iterator[str]:
    if any(len(chain.paths) > 1 for chain in question.chains):
        yield "multi-hop"
    if question.path_type == "double":
        yield "same entity"


def _joined(found: Iterator[str]) -> str:
    return " + ".join(dict.fromkeys(found)) or UNRELATED
