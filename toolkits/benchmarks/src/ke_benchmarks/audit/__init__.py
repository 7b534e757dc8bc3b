"""What is wrong with a benchmark of edits, after MQuAKE-Remastered, on any dataset in the core's own model.

``Audit.of`` finds the five types of error; ``fix`` mends what can be mended by rule; ``select`` finds cases whose edits
can all be made at once.
"""

from ke_benchmarks.audit.bank import RULES, Bank, Rule, as_rule
from ke_benchmarks.audit.contamination import Contamination, Hit, contamination, draw, tally
from ke_benchmarks.audit.fix import Change, Fixed, fix
from ke_benchmarks.audit.missing import Agreement, Missing, agreement, missing
from ke_benchmarks.audit.pairs import Conflict, conflicts, duplicates, identity, named
from ke_benchmarks.audit.select import Selection, exclusions, select
from ke_benchmarks.audit.whole import Audit

__all__ = [
    "RULES", "Agreement", "Audit", "Bank", "Change", "Conflict", "Contamination", "Fixed", "Hit", "Missing", "Rule",
    "Selection",
    "agreement", "as_rule", "conflicts", "contamination", "draw", "duplicates", "exclusions", "fix", "identity",
    "missing", "named", "select", "tally",
]  # fmt: skip
