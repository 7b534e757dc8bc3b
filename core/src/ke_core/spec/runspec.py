"""The specification of a run: everything that changes a reply. The hash of its canonical JSON is the run id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import in_

from ke_core.spec.codec import digest, to_json
from ke_core.spec.facts import OMITTED
from ke_core.spec.queries import Form

SCHEMA = 1
IMPORTED = "import"
"""The model source of a run made from a file of predictions."""


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
    """A model, identified by the ``digest`` of its weights, so a moved folder is the same model.

    A model behind a server has a ``base_url`` and no ``dtype``. Its digest is of its name and address, because its
    weights are unknown.
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
        """The value for ``--model``."""
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.source}:{self.id}{at}"


@frozen(kw_only=True)
class DataRef:
    """A dataset component and the SHA-256 of the content that it read (files, prompts)."""

    component: Component
    sha256: str


@frozen(kw_only=True)
class Plan:
    """Which cases are edited together, and which are asked.

    ``partition``: groups of ``size`` cases (None: one group of all). The edits of a group are made together, and its
    cases are asked. ``sample``: ``size`` cases are edited and all cases are asked, the others as controls.
    ``limit``: sample that many cases with the seed, in file order. ``eval_limit``: ask only that many of them.
    ``sequential``: groups are edited cumulatively. After every ``eval_every`` groups (None: after the last), the cases
    of ``eval_set`` are asked: ``new`` since the last time, all ``seen`` so far, or ``all``.
    """

    protocol: Literal["partition", "sample"] = field(default="partition", validator=in_(("partition", "sample")))
    size: int | None = field(default=1, validator=_at_least_one)
    limit: int | None = field(default=None, validator=_at_least_one)
    eval_limit: int | None = field(default=None, validator=_at_least_one)
    sequential: bool = field(default=False, metadata=OMITTED)
    eval_every: int | None = field(default=None, validator=_at_least_one, metadata=OMITTED)
    eval_set: Literal["new", "seen", "all"] = field(
        default="seen", metadata=OMITTED, validator=in_(("new", "seen", "all"))
    )

    def __attrs_post_init__(self) -> None:
        if self.sequential and self.protocol == "sample":
            raise ValueError("sequential edits the groups of protocol partition, not of sample")
        if not self.sequential and (self.eval_every is not None or self.eval_set != "seen"):
            raise ValueError("eval_every and eval_set need sequential")


@frozen(kw_only=True)
class RunSpec:
    """The specification of a run. ``edited_form``: whether the fact of an edit is asked as a cloze or as a question.

    ``joint`` is false if the editor accepts one edit at a time: the edits of a batch are then made one after another.
    ``oracle``: gold material that the method gets. ``requests``: metrics with requests of their own, with the SHA-256
    of these requests. ``own_edits``: each request names the edits of its own case to the editor.
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
    requests: tuple[DataRef, ...] = field(default=(), metadata=OMITTED)
    own_edits: bool = field(default=False, metadata=OMITTED)

    @property
    def id(self) -> str:
        """The id of the run: 64 hex digits. Folder names contain the first eight."""
        return digest(to_json(self))
