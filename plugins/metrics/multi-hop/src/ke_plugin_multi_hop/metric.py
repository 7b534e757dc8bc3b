"""MQuAKE's metrics (Zhong et al. 2023, section 3.2), from the judgments of one case.

================== ============================================================================================
aspect             value, for one case unless stated otherwise
================== ============================================================================================
edit-wise          for each edit: 1 if its own question (or cloze) is answered correctly; a mean over edits
instance-wise      1 if every single-hop question of the chain is answered correctly
multi-hop          1 if any wording of the multi-hop question is answered correctly
still-pre-edit     1 if no wording is right, and at least one gets the pre-edit answer
multi-hop-recalled multi-hop, only for cases whose facts the unedited model recalls (pre-edit-instance-wise)
pre-edit-...       edit-wise, instance-wise and multi-hop of the unedited model, against the pre-edit answers
================== ============================================================================================

Without ``pre-edit-``, the gold answers are those after the edits, also for the unedited model: all rows of a column
use the same answers. The unedited model does not get the single-hop questions of the new chain, so it has no
``instance-wise``.

MQuAKE's cases were filtered by what GPT-J recalls; ``multi-hop-recalled`` is that filter for the evaluated model. For
a control, only the multi-hop question is scored after editing: edits of other cases may change its single-hop
questions, which belong to its new chain. The metric ``retrieval`` counts what was retrieved; the core counts failed
and unparsed answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from ke_core.plugin import EDITS_WITHHELD, EFFICACY, CaseRecord, Value
from ke_plugin_multi_hop.observed import INSTANCE, MULTI_HOP, ObservedProbe, asked

HEADLINE = {EFFICACY: "edit-wise", INSTANCE: "instance-wise", MULTI_HOP: "multi-hop"}
RECALLED = "multi-hop-recalled"
PRE_EDIT = "pre-edit-"
NOT_RECALLED = "the unedited model does not recall every fact of the case"
UNKNOWN = "the unedited model was not asked for every fact of the case"


class MultiHop:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case."""
        put = list(asked(record, HEADLINE))
        why = _not_recalled(put)
        for one in put:
            aspect = HEADLINE[one.probe.aspect]
            if one.phase == "before":
                yield one.value(f"{PRE_EDIT}{aspect}", one.right)
            if one.probe.phase != "before":
                found = one.after_edits(edited=record.edited) if one.phase == "before" else one
                yield from _values(found, aspect, why, withheld="" if record.edited else EDITS_WITHHELD)


def _values(one: ObservedProbe, aspect: str, not_recalled: str, withheld: str) -> Iterator[Value]:
    """Yield the values against the answers that are right after the edits. ``withheld``: why a control has no
    ``still-pre-edit``: its pre-edit answer is right.
    """
    yield one.value(aspect, one.right)
    if one.probe.aspect == MULTI_HOP:
        yield evolve(one, missing=one.missing or withheld).value("still-pre-edit", one.pre_edit)
        yield evolve(one, missing=one.missing or not_recalled).value(RECALLED, one.right)


def _not_recalled(put: list[ObservedProbe]) -> str:
    """Return why the case is not among those whose facts the unedited model recalls; one style suffices."""
    facts = [one for one in put if one.probe.aspect == INSTANCE and one.phase == "before"]
    if any(not one.missing and one.right for one in facts):
        return ""
    return UNKNOWN if all(one.missing for one in facts) else NOT_RECALLED
