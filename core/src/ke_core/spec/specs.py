"""Specifications that plugins register. A module that defines one may not import torch; ``build`` may."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from attrs import evolve, field, frozen, validators

from ke_core.spec.component import Spec, imported_when_called
from ke_core.spec.facts import NO_SUBJECT, Edit
from ke_core.spec.protocols import Dataset, Edited, Editor, Judge, LanguageModel, Metric, ModelMetric, Progress, Session
from ke_core.spec.queries import Case, Form, Probe
from ke_core.spec.requests import EditorRequest, Encoder
from ke_core.spec.results import no_percentage
from ke_core.spec.settings import ModelFacts, Setting, Shape

DeriveProbes = Callable[[Case], tuple[Probe, ...]]


@frozen(kw_only=True)
class TrainerSpec:
    """How ``ke train`` of ``ke-weights`` trains an editor.

    ``build`` gets the editor's config and returns a ``ke_weights.trainers.Trainer``. ``needs_model`` is false if no
    model is loaded.
    """

    build: Callable[[Any], Any] = field(converter=imported_when_called)
    needs_model: bool = True


@frozen(kw_only=True)
class EditorSpec(Spec[Editor]):
    """The specification of an editor.

    - ``needs_weights``: it works inside the model. ``needs_model`` is false if it answers without a model; none is
      loaded then, and no unedited model is asked.
    - ``masks``: it respects ``Question.hidden``.
    - ``one_at_a_time``: the edits of a batch are made one after another.
    - ``own_prompt``: it has its own prompts, so each query is asked once and not once per style.
    - ``own_before``: without edits, its answers are those of the unedited model to its own prompts. They are recorded
      too, so metrics can compare before and after with the same prompt.
    - ``asked_length``: with its own prompts, too, the request limits the length of answers.
    - ``edited_form``: whether the fact of an edit is asked as a question or as a cloze.
    - ``settings``: the hyperparameters that depend on the model, from the config and the model's facts.
    - ``oracle``: the names of gold material that its config requests.
    - ``uses_own_edits``: it reads ``own``, the edits of the question's case: always, or depending on its config.
      Otherwise ``own`` is empty. Reports print it, because such an editor does not have to retrieve the edits.
    - ``needs_subject``: it needs the subject of an edit, so edits without one are refused.
    - ``trainer``: it must be trained before it can edit.
    - ``served``: other defaults of its options for ``ke serve``, where no case tells which facts a question needs.
    - ``adaptor``: it leaves the parameters unchanged. Its edits are the state of ``session.model.adapt()``.
    - ``load``: opens a saved edit, from a built editor, a session, and a file written by ``Edited.save``.
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
    oracle: Callable[[Any], tuple[str, ...]] = field(default=lambda _config: ())
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
    def editor_kind(self) -> Literal["weight editor", "adaptor", "memory editor"]:
        """The kind of the editor."""
        if self.adaptor:
            return "adaptor"
        return "weight editor" if self.needs_weights else "memory editor"

    def refused(self, editor: Editor, session: Session[Any], edits: Sequence[Edit]) -> dict[str, str]:
        """Return the edits that cannot be made, with the reason, by id: those that ``editor.check`` refuses, and those
        without a subject if the editor needs one.
        """
        without = {edit.id: NO_SUBJECT for edit in edits if self.needs_subject and not edit.names_subject}
        others = [edit for edit in edits if edit.id not in without]
        return {**without, **(editor.check(session, others) if others else {})}

    def given_own_edits(self, config: Any) -> bool:
        """Return whether each request names the edits of its own case."""
        declared = self.uses_own_edits
        return declared(config) if callable(declared) else declared


@frozen(kw_only=True)
class Defaults:
    """The default judge and the default metrics."""

    judge: str
    metrics: tuple[str, ...]


@frozen(kw_only=True)
class DatasetSpec(Spec[Dataset]):
    """The specification of a dataset.

    ``styles``: its prompt styles. ``metrics`` and ``judge``: the default ones. ``hides``: whether some cases hide edits
    from the method, depending on the config. ``builder``: makes such cases from a knowledge graph, a
    ``ke_benchmarks.graph.BuilderSpec``; the dataset with the name of the family has it. ``defaults``: the default judge
    and metrics, if they depend on the config.
    """

    aspects: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    judge: str = ""
    hides: Callable[[Any], bool] = field(default=lambda _config: False)
    builder: Spec[Any] | None = None
    defaults: Callable[[Any], Defaults] | None = None

    def for_config(self, config: Any) -> DatasetSpec:
        """Return this spec with the default judge and metrics for ``config``."""
        if self.defaults is None:
            return self
        found = self.defaults(config)
        return evolve(self, judge=found.judge, metrics=found.metrics)


@frozen(kw_only=True)
class JudgeSpec(Spec[Judge]):
    """The specification of a judge. ``needs_model``: it asks a model. ``scored``: it judges log-probabilities.

    ``labels``: from what it finds in addition to verdicts, to the possible labels. ``metrics``: those that read these
    labels, the default after ``ke judge``. ``items``: manually labeled items, as the text of a file for
    ``ke judges check``.
    """

    needs_model: bool = False
    scored: bool = False
    labels: Mapping[str, tuple[str, ...]] = field(factory=dict)
    metrics: tuple[str, ...] = ()
    items: Callable[[], str] | None = None


@frozen(kw_only=True)
class MetricSpec(Spec[Metric | ModelMetric]):
    """The specification of a metric.

    - ``by``: case tags for breakdowns.
    - ``columns``: from aspect to column heading, in table order. ``tables``: further tables by title. No table is wider
      than 100 characters.
    - ``counts``: from aspect to what its values of 1 count, for the sentence under the table ("5 of 6 edits
      succeeded").
    - ``measures``: from aspect to its unit (``s``, ``MiB``), never ``%``. Without a unit, it is a fraction and shown
      as a percentage.
    - ``averages``: from aspect to the aspects of which it is the mean. Its n is the number of resampling units.
    - ``shared``: from an aspect with one value per query (tagged ``QUERY_TAG``) to the aspect that is its mean over the
      queries of a case. ``ke compare`` also averages over the queries that all runs have.
    - ``contrary``: aspects for which the opposite of ``higher_is_better`` holds.
    - ``signed``: aspects whose fractions are from -1 to 1, such as differences.
    - ``requests``: requests to the unedited model and to every edited one, from the config. Each has its own ``query``;
      the run sets ``id`` and ``case``.
    - ``probes``: further probes of a case, from the config and all cases of the dataset. A run asks them after the
      case's own. The ids of probes and queries begin with the metric's name.
    - ``labels``: aspects that exclude each other, of which one is 1 for each answer. ``ke annotate`` asks people for
      them. Their values have the tag ``query``.
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
    signed: frozenset[str] = frozenset()
    requests: Callable[[Any], tuple[EditorRequest, ...]] = field(default=lambda _config: ())
    probes: Callable[[Any, Iterable[Case]], DeriveProbes] | None = None
    labels: tuple[str, ...] = ()

    def less_is_better(self, aspect: str) -> bool:
        """Return whether smaller values of ``aspect`` are better."""
        return self.higher_is_better == (aspect in self.contrary)


@frozen(kw_only=True)
class ModelRequest:
    """The model that the user requested: the part of ``--model`` after ``source:``, and how to load it.

    ``tp``: ``auto`` splits the model over the processes of a launcher. The last four are for models behind a server:
    ``base_url`` (empty for the default), ``concurrency`` (requests at once; None: a number for that server),
    ``timeout`` (seconds), and ``api_key_env``, the environment variable that holds the key.
    """

    id: str
    revision: str | None = None
    dtype: str = "float32"
    device: str = ""
    device_map: str = ""
    tp: str | None = None
    chat: bool = False
    trust_remote_code: bool = False
    base_url: str = ""
    concurrency: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    timeout: float = field(default=120.0, validator=validators.gt(0))
    api_key_env: str = "OPENAI_API_KEY"


@frozen(kw_only=True)
class KnownModel:
    """A model that a source provides by name."""

    name: str
    summary: str
    license: str
    size_mb: int
    kind: str = "language-model"


@frozen(kw_only=True)
class ModelSpec(Spec[LanguageModel]):
    """A model source: ``--model source:id@revision``. ``build`` gets a ``ModelRequest``.

    ``known``: models that it provides by name. ``pull``: fetches one into the cache, reports progress, and returns its
    folder. ``shape``: the shape of a model without its weights. ``remote``: models are behind a server and not loaded.
    ``describe``: facts about a model, by label. ``wrap``: a model that is in memory, from the model, its tokenizer, its
    name and whether to use the chat template.
    """

    known: Callable[[], tuple[KnownModel, ...]] = field(default=lambda: ())
    pull: Callable[[str, Progress | None], object] | None = None
    shape: Callable[[ModelRequest], Shape] | None = None
    remote: bool = False
    describe: Callable[[ModelRequest], Mapping[str, str]] | None = None
    wrap: Callable[[Any, Any, str, bool], LanguageModel] | None = None


@frozen(kw_only=True)
class EncoderRequest:
    """The sentence encoder to load (a name, a folder or a hub id), and its device."""

    id: str
    device: str = ""


@frozen(kw_only=True)
class EncoderSpec(Spec[Encoder]):
    """A source of sentence encoders. ``build`` gets an ``EncoderRequest`` and may import torch."""
