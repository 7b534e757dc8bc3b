"""The agreement of judges with labels written by people, saved in the cache and read by every report.

Cohen's kappa (Cohen 1960): kappa = (p - e) / (1 - e), where p is the fraction of items on which both agree, and e the
fraction expected by chance, given the label frequencies of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from ke_core.engine.models import DEFAULT_SOURCE
from ke_core.spec.codec import from_json, to_json
from ke_core.spec.errors import BadData
from ke_core.spec.results import Interval
from ke_core.spec.runspec import Component
from ke_core.storage.files import ArtifactStore, cache_dir, read_value, warn, write_value

KIND = "judge-checks"
LEAST = 0.6
"""A lower kappa is a warning under every table. "Substantial" agreement starts here (Landis and Koch 1977)."""


@frozen(kw_only=True)
class Agreement:
    """The agreement for one set of labels: ``agreed`` of ``n`` items. ``kappa`` is None if all labels are equal."""

    n: int
    agreed: int
    kappa: float | None
    interval: Interval | None = None

    @property
    def enough(self) -> bool:
        """True if the agreement is high enough to trust the judge with these labels."""
        return self.kappa is not None and self.kappa >= LEAST

    def __str__(self) -> str:
        if self.kappa is None:
            return f"kappa undefined, every label is the same (n {self.n})"
        between = f", {self.interval.low:.2f} to {self.interval.high:.2f}" if self.interval else ""
        return f"kappa {self.kappa:.2f}{between} (n {self.n})"


@frozen(kw_only=True)
class AgreementCheck:
    """The agreement of a judge, with its options and model, on items with that SHA-256, by set of labels."""

    judge: Component
    items: str
    agreements: Mapping[str, Agreement] = field(factory=dict)


def save_check(check: AgreementCheck) -> Path:
    """Save a check for ``kept``. The last check of a judge counts."""
    path = _path(check.judge)
    write_value(path, to_json(check))
    return path


def kept(judge: Component) -> AgreementCheck | None:
    """Return the saved check of that judge, with these options and this model. None if there is none."""
    path = _path(judge)
    try:
        raw = read_value(path, hint="check the judge again: ke judges check")
        return None if raw is None else from_json(raw, AgreementCheck, of=str(path))
    except BadData as error:
        warn(error)
        return None


def agreement_warning(judge: Component) -> str:
    """Return the warning for every table of this judge. Empty if there is none.

    A judge that asks a model must have been checked against labels written by people.
    """
    check = kept(judge)
    if check is None:
        model = judge.model
        if model is None:
            return ""
        source = "" if model.source == DEFAULT_SOURCE else f"{model.source}:"
        how = f"ke judges check {judge.name} --judge-model {source}{model.id}"
        return f"judge {judge.name} has not been checked: {how}"
    poor = [f"{name} {found}" for name, found in check.agreements.items() if not found.enough]
    return f"judge {judge.name} agrees too little with manual labels: {'; '.join(poor)}" if poor else ""


def _path(judge: Component) -> Path:
    """Return the file of a judge's check. It depends on the version of the judge and not on the digest of its code."""
    return ArtifactStore(cache_dir() / "artifacts").path(KIND, {"judge": to_json(evolve(judge, code=""))}, ".json")
