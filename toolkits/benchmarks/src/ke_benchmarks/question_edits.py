"""Build an edit from a question and its new answer: a name, or a text without a subject."""

from __future__ import annotations

import hashlib
import re

from ke_core.plugin import SLOT, Cloze, Edit, Entity, Fact, FreeForm, Relation, continued

DIGITS = 16
"""Hexadecimal digits of the id of an edit whose statement is too long to be its id."""


def question_edit(question: str, subject: str, new: Entity, old: Entity | None = None) -> Edit:
    """Return the edit that answers ``question`` with ``new``, as in zsRE and QAEdit.

    Its id is its statement (question and answer), because the files have no ids. The cloze is the question: its answer
    follows it. There is no cloze if the question does not name the subject.
    """
    template = _template(question, subject)
    return _edit(question, subject, Relation(label=template or question, question=template), new, old, question)


def cloze_edit(cloze: str, subject: str, new: Entity, old: Entity | None = None, *, question: str = "") -> Edit:
    """Return the edit after which ``new`` follows ``cloze``, a sentence that stops before its object.

    ``question``: the same fact as a question, if the data have one. See ``question_edit``.
    """
    template = _template(cloze, subject)
    return _edit(cloze, subject, Relation(label=template or cloze, cloze=template), new, old, question or None)


def _edit(prompt: str, subject: str, relation: Relation, new: Entity, old: Entity | None, question: str | None) -> Edit:
    def fact(answer: Entity) -> Fact:
        text = prompt + continued(prompt, answer.label)
        return Fact(subject=Entity(label=subject), relation=relation, objects=(answer,), text=text)

    after, template = fact(new), relation.cloze or relation.question
    return Edit(
        id=after.text,
        statement=after.text,
        before=fact(old) if old else None,
        after=after,
        cloze=Cloze(template=template, subject=subject) if template else None,
        question=question,
    )


def text_edit(question: str, text: str, *, old: str = "") -> Edit:
    """Return the edit that answers ``question`` with ``text``, for example a paragraph. It names no subject.

    Its id is a digest of its statement, which is too long to be an id.
    """
    statement = f"{question} {text}"
    return Edit(
        id=hashlib.sha256(statement.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS],
        statement=statement,
        question=question,
        free_form=FreeForm(prompt=question, target=text, old=old),
    )


def _template(question: str, subject: str) -> str | None:
    """Return the question with a slot at the first mention of its subject, or None if it does not name it.

    A mention inside a word ("It" in "Italian") counts only if there is no other.
    """
    if subject not in question or SLOT in question:
        return None
    found = re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", question)
    start = found.start() if found else question.index(subject)
    return question[:start] + SLOT + question[start + len(subject) :]
