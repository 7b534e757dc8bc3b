"""Audit a benchmark of edits, after MQuAKE-Remastered, for any dataset in the core's data model.

``Audit.of`` finds the five types of error. ``fix`` corrects what a rule can correct. ``select`` finds cases whose edits
can all be applied together.
"""

from ke_benchmarks.audit.bank import RULES, AuditBank, Rule, as_rule
from ke_benchmarks.audit.contamination import ContaminatedHop, Contamination, contamination, draw, tally
from ke_benchmarks.audit.fix import CaseFix, FixedDataset, fix
from ke_benchmarks.audit.missing import MissingPieces, RuleAgreement, agreement, missing
from ke_benchmarks.audit.pairs import EditConflict, conflicts, duplicates, identity, named
from ke_benchmarks.audit.select import Selection, exclusions, select
from ke_benchmarks.audit.whole import Audit

__all__ = [
    "RULES",
    "Audit",
    "AuditBank",
    "CaseFix",
    "ContaminatedHop",
    "Contamination",
    "EditConflict",
    "FixedDataset",
    "MissingPieces",
    "Rule",
    "RuleAgreement",
    "Selection",
    "agreement",
    "as_rule",
    "conflicts",
    "contamination",
    "draw",
    "duplicates",
    "exclusions",
    "fix",
    "identity",
    "missing",
    "named",
    "select",
    "tally",
]  # fmt: skip
