"""What a plugin hands to the core: a name, a config class, and a way to build the thing.

Registered light, built late: ``build`` may import torch, the module that defines the spec may not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from attrs import evolve, field, frozen, has, validators

from ke_core.spec.facts import NO_SUBJECT, Edit
from ke_core.spec.protocols import Dataset, Edited, Editor, Judge, LanguageModel, Metric, ModelMetric, Progress, Session
from ke_core.spec.queries import Form
from ke_core.spec.requests import Ask, Encoder
from ke_core.spec.results import no_percentage
from ke_core.spec.settings import ModelFacts, Setting, Shape
from ke_core.spec.training import Trainer

if TYPE_CHECKING:
    from attrs import Attribute

T = TypeVar("T")
NAME_PATTERN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


def _is_attrs(_instance: object, _attribute: Attribute[type], value: type) -> None:
    if not has(value):
        raise TypeError(f"config must be an attrs class, not {value!r}")


def no_oracle(_config: object) -> tuple[str, ...]:
    """The usual editor asks for no gold material."""
    return ()


@frozen(kw_only=True)
class Spec(Generic[T]):
    """``family`` is what stands before the dot in ``-o family.option=value``: the name, unless several
    components share one config class (``mquake`` for ``mquake-cf-3k``). Each config field carries its help
    in ``metadata={"help": ...}``; ``"file": True`` marks one that may name a file or folder, which stands in a run's
    specification by its content. What is in ``"words"`` is never a file's name.
    """

    name: str = field(validator=validators.matches_re(NAME_PATTERN))
    summary: str
    config: type = field(validator=_is_attrs)
    build: Callable[[Any], T]
    cite: str = ""
    family: str = ""

    @property
    def prefix(self) -> str:
        """What stands before the dot of this component's options."""
        return self.family or self.name


@frozen(kw_only=True)
class TrainerSpec:
    """How an editor is trained: ``build`` gets the editor's config. ``needs_model`` false: none is loaded."""

    build: Callable[[Any], Trainer]
    needs_model: bool = True


EditorKind = Literal["weight editor", "adaptor", "memory editor"]


@frozen(kw_only=True)
class EditorSpec(Spec[Editor]):
    """``needs_weights``: opens the model. ``needs_model`` false: answers without one, so none is loaded and no
    unedited model is asked. ``masks``: honors ``Question.hidden``. ``one_at_a_time``: a batch's
    edits are made one after another. ``own_prompt``: brings its own prompts, so each query is asked once.
    ``own_before``: what it answers without any edit is the unedited model's answer to these prompts, and is asked too,
    so that a metric can compare before and after under the same prompt.
    ``asked_length``: with its own prompts, too, an answer is as long as the asker lets it be.
    ``edited_form``: how the fact of an edit is asked. ``settings``: from its config and a model's
    facts, the hyperparameters that depend on the model. ``oracle``: names of gold material its config asks for.
    ``uses_own_edits``: it reads ``own`` of a request, the edits of the question's own case: always, or as a function of
    its config says. Otherwise ``own`` is empty. Every report prints that an editor was given them, because it did not
    have to find them.
    ``needs_subject``: it reads the subject of an edit, so edits that name none are refused (``refused``).
    ``trainer``: it must be trained before it can edit. ``served``: options that take the place of their defaults under
    ``ke serve``, where no benchmark case says which facts a question needs.
    ``adaptor``: it opens the model and leaves the parameters unchanged: its edits are the state of
    ``session.model.adapt()``. ``load``: from a built editor, a session and a file that ``Edited.save`` has written to
    the same edited model.
    """

    needs_weights: bool = False
    needs_model: bool = True
    masks: bool = False
    one_at_a_time: bool = False
    own_prompt: bool = False
    own_before: bool = False
    asked_length: bool = False
    edited_form: Form = "question"
    settings: Callable[[Any, ModelFacts], Mapping[str, Setting]] | None = None
    oracle: Callable[[Any], tuple[str, ...]] = no_oracle
    trainer: TrainerSpec | None = None
    served: Mapping[str, str] = field(factory=dict)
    uses_own_edits: bool | Callable[[Any], bool] = False
    adaptor: bool = False
    needs_subject: bool = False
    load: Callable[[Any, Session[Any], Path], AbstractContextManager[Edited]] | None = None

    def __attrs_post_init__(self) -> None:
        if self.adaptor and not self.needs_weights:
            raise TypeError(f"editor {self.name} is an adaptor, which opens the model: set needs_weights=True")

    @property
    def editor_kind(self) -> EditorKind:
        """How it changes what the model answers."""
        if self.adaptor:
            return "adaptor"
        return "weight editor" if self.needs_weights else "memory editor"

    def refused(self, editor: Editor, session: Session[Any], edits: Sequence[Edit]) -> dict[str, str]:
        """Return which edits cannot be made, and why, by id: what ``editor.check`` says, and edits without a subject
        where one is needed.
        """
        without = {edit.id: NO_SUBJECT for edit in edits if self.needs_subject and not edit.names_subject}
        others = [edit for edit in edits if edit.id not in without]
        return {**without, **(editor.check(session, others) if others else {})}

    def given_own_edits(self, config: Any) -> bool:
        """Whether, with ``config``, each request names the edits of its own case."""
        declared = self.uses_own_edits
        return declared(config) if callable(declared) else declared


@frozen(kw_only=True)
class Defaults:
    """The judge and the metrics used unless others are named."""

    judge: str
    metrics: tuple[str, ...]


@frozen(kw_only=True)
class DatasetSpec(Spec[Dataset]):
    """``styles``: every way a query can be asked. ``metrics`` and ``judge``: the ones used unless others are named.
    ``hides``: says from its config whether cases hide edits from the method. ``builder``: how such cases are made
    from a knowledge graph, a ``ke_benchmarks.graph.BuilderSpec``; the dataset that bears its family's name has it.
    ``usual``: judge and metrics where they depend on the config, such as the file it names.
    """

    aspects: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    judge: str = ""
    hides: Callable[[Any], bool] = field(default=lambda _config: False)
    builder: Spec[Any] | None = None
    usual: Callable[[Any], Defaults] | None = None

    def for_config(self, config: Any) -> DatasetSpec:
        """This spec with the judge and the metrics that go with ``config``."""
        if self.usual is None:
            return self
        found = self.usual(config)
        return evolve(self, judge=found.judge, metrics=found.metrics)


@frozen(kw_only=True)
class JudgeSpec(Spec[Judge]):
    """``needs_model``: is a procedure on the engine, e.g. an LLM judge. ``scored``: judges log-probabilities.

    ``labels``: what it finds beside verdicts, to the labels it may give. ``metrics``: those that read them, computed
    after ``ke judge`` unless others are named. ``items``: hand-labeled items that come with it, as the text of a
    file for ``ke judges check``.
    """

    needs_model: bool = False
    scored: bool = False
    labels: Mapping[str, tuple[str, ...]] = field(factory=dict)
    metrics: tuple[str, ...] = ()
    items: Callable[[], str] | None = None


@frozen(kw_only=True)
class MetricSpec(Spec[Metric | ModelMetric]):
    """``by``: case tags to break the scores down by. ``columns``: aspect to column heading, in table order.

    ``tables``: further tables, under the main one, by title: likewise. No table is to be wider than 100 characters.
    ``counts``: aspect to what its values of 1 count, for the sentence under the table ("5 of 6 edits succeeded").
    ``measures``: aspect to its unit (``s``, ``MiB``), never ``%``; without one, a fraction, shown as a percentage.
    ``averages``: aspect to the aspects of which it is the plain mean (a mean of means, which no case has a value of);
    its n counts what the bootstrap draws.
    ``shared``: aspect that has a value a query (tagged ``QUERY_TAG``) to the aspect that is its mean over a case's
    queries: ``ke compare`` takes these means over the queries that every run has a value of, too.
    ``contrary``: the aspects of which less is better where ``higher_is_better``, and more where it is not.
    ``asks``: from its config, what is asked of the unedited model and of every edited one, beside the cases.
    Each ask has a ``query`` of its own; the run fills in ``id`` and ``case``.
    ``labels``: the aspects of which each answer bears one, the one whose value is 1, as a person can say too: ``ke
    label`` asks for them. Their values carry the tag ``query``.
    """

    by: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(factory=dict)
    tables: Mapping[str, Mapping[str, str]] = field(factory=dict)
    counts: Mapping[str, str] = field(factory=dict)
    measures: Mapping[str, str] = field(factory=dict, validator=validators.deep_mapping(value_validator=no_percentage))
    averages: Mapping[str, tuple[str, ...]] = field(factory=dict)
    shared: Mapping[str, str] = field(factory=dict)
    higher_is_better: bool = True
    contrary: frozenset[str] = frozenset()
    asks: Callable[[Any], tuple[Ask, ...]] = field(default=lambda _config: ())
    labels: tuple[str, ...] = ()

    def less_is_better(self, aspect: str) -> bool:
        """Whether of two models the one with the smaller number is the better one."""
        return self.higher_is_better == (aspect in self.contrary)


@frozen(kw_only=True)
class ModelRequest:
    """What the user asked for: the part of ``--model`` after ``source:``, and how to load it.

    The last four say how a model behind a server is asked: ``base_url`` (empty: the source's own),
    ``concurrency`` requests at once, each given up after ``timeout`` seconds, with the key that stands in the
    environment variable ``api_key_env``. The key itself is never held here.
    """

    id: str
    revision: str | None = None
    dtype: str = "float32"
    device: str = ""
    device_map: str = ""
    chat: bool = False
    trust_remote_code: bool = False
    base_url: str = ""
    concurrency: int = field(default=8, validator=validators.ge(1))
    timeout: float = field(default=120.0, validator=validators.gt(0))
    api_key_env: str = "OPENAI_API_KEY"


@frozen(kw_only=True)
class KnownModel:
    """A model that a source knows by a bare name."""

    name: str
    summary: str
    license: str
    size_mb: int
    kind: str = "language-model"


@frozen(kw_only=True)
class ModelSpec(Spec[LanguageModel]):
    """A model source: ``--model source:id@revision``. ``build`` gets a ``ModelRequest``.

    ``known`` lists what it offers by name; ``pull`` fetches one into the cache, says how
    far it is, and returns its folder; ``shape`` tells a model's shape without its weights. ``remote``: models of this
    source are asked over the network, not loaded; ``describe`` says what can be known of one, label to words.
    """

    known: Callable[[], tuple[KnownModel, ...]] = field(default=lambda: ())
    pull: Callable[[str, Progress | None], object] | None = None
    shape: Callable[[ModelRequest], Shape] | None = None
    remote: bool = False
    describe: Callable[[ModelRequest], Mapping[str, str]] | None = None


@frozen(kw_only=True)
class EncoderRequest:
    """Which sentence encoder to load: a name that the source knows, a folder or a hub id, and on which device."""

    id: str
    device: str = ""


@frozen(kw_only=True)
class EncoderSpec(Spec[Encoder]):
    """A source of sentence encoders. ``build`` gets an ``EncoderRequest`` and may import torch."""
