"""The specification of a run: everything that changes a reply. Its canonical JSON, hashed, is the run id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen

from ke_core.spec.codec import digest, to_json
from ke_core.spec.facts import OMITTED
from ke_core.spec.queries import Form

SCHEMA = 1
IMPORTED = "import"
"""The source of a model whose answers came from a file of others' predictions: it was not asked here."""


def _at_least_one(_instance: object, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value}")


@frozen(kw_only=True)
class Component:
    """A plugin's component with every option resolved, defaults included. ``model``: the one that a judge asks.

    ``code``: a digest of the source files of its package; empty if there are none. ``dependencies``: digests, by name,
    of what an editor uses beyond its options (``HasDependencies``).
    """

    name: str
    distribution: str
    version: str
    code: str = field(default="", metadata=OMITTED)
    options: Mapping[str, Any] = field(factory=dict)
    model: ModelRef | None = field(default=None, metadata=OMITTED)
    dependencies: Mapping[str, str] = field(factory=dict, metadata=OMITTED)


@frozen(kw_only=True)
class ModelRef:
    """A model down to its weights: ``digest`` is of the weights themselves, so a moved folder is the same model.

    One behind a server has a ``base_url`` and no ``dtype``; its digest is of its name and address, and says nothing of
    the weights that answer under them.
    """

    source: str
    id: str
    revision: str = ""
    digest: str = ""
    dtype: str = ""
    chat: bool = False
    base_url: str = field(default="", metadata=OMITTED)

    @property
    def reference(self) -> str:
        """What to write after ``--model``."""
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.source}:{self.id}{at}"


@frozen(kw_only=True)
class DataRef:
    """A dataset component and the SHA-256 of what it read (files, prompts)."""

    component: Component
    sha256: str


@frozen(kw_only=True)
class Plan:
    """Who is edited together, and who is asked.

    ``partition``: groups of ``size`` cases (None: all in one), each group's edits made together, its own
    cases asked. ``sample``: ``size`` cases are edited, every case is asked, the rest as controls.
    ``limit`` takes that many cases (drawn with the seed, in file order), ``ask`` asks that many of them.
    ``sequential``: the groups of a partition are edited one on top of another; after every ``evaluate`` of them
    (None: after the last) the ``new`` cases since the last time are asked, or all ``seen`` so far, or ``all``.
    """

    protocol: Literal["partition", "sample"] = "partition"
    size: int | None = field(default=1, validator=_at_least_one)
    limit: int | None = field(default=None, validator=_at_least_one)
    eval_limit: int | None = field(default=None, validator=_at_least_one)
    sequential: bool = field(default=False, metadata=OMITTED)
    eval_every: int | None = field(default=None, validator=_at_least_one, metadata=OMITTED)
    eval_set: Literal["new", "seen", "all"] = field(default="seen", metadata=OMITTED)


@frozen(kw_only=True)
class RunSpec:
    """``edited_form``: how the fact of an edit is asked, as a cloze or a question.

    ``joint`` is false where an editor takes one edit at a time, so that a batch's edits are made one after
    another without restoring. ``oracle`` names the gold material that the method was given. ``asks``: the
    metrics that have questions of their own put to every model, each with the SHA-256 of what it asks; a run
    without them has no such field, so that its id is the same as before there were any. ``own_edits``: each request
    named the edits of its own case to the editor.
    """

    schema: int = SCHEMA
    ke: str
    model: ModelRef
    editor: Component
    dataset: DataRef
    styles: tuple[str, ...]
    plan: Plan
    edited_form: Form
    joint: bool = True
    oracle: tuple[str, ...] = ()
    seed: int = 0
    asks: tuple[DataRef, ...] = field(default=(), metadata=OMITTED)
    own_edits: bool = field(default=False, metadata=OMITTED)

    @property
    def id(self) -> str:
        """64 hex digits; the folder shows the first eight."""
        return digest(to_json(self))
