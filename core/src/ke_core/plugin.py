"""The facade for plugin authors. It contains re-exports only and loads neither torch nor numpy."""

import pluggy

from ke_core.cli.lazy import LazyCommand
from ke_core.engine.messages import CONTINUATION_FORMAT, THOUGHT, continuation, cut_at_stops, cut_in_echo, has_content
from ke_core.engine.models import DEFAULT_LOADING, DEFAULT_SOURCE, find_model, parse_reference
from ke_core.engine.passthrough import PassthroughModel, put
from ke_core.interrupts import UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_core.spec.codec import canonical, digest, from_json, json_type_only, noun, refuse_other_types, to_json
from ke_core.spec.dataset_info import DataFile, PublishedAudit, Victims
from ke_core.spec.errors import (
    BadConfig,
    BadData,
    BadPatch,
    BadRun,
    ContentRefused,
    ContextOverflow,
    EditFailed,
    KEError,
    ModelUnavailable,
    NeedsWeights,
    NoLikelihood,
    PluginBroken,
    PluginConflict,
    ServerDown,
    ServerFailed,
    ServerRefused,
    UnknownComponent,
    UnsupportedChange,
    UnsupportedEdit,
)
from ke_core.spec.facts import (
    SLOT,
    Cloze,
    Edit,
    Entity,
    Fact,
    Place,
    Relation,
    SourcedEdit,
    contradicting,
    distinct,
    one_slot,
)
from ke_core.spec.observed import EDITS_WITHHELD, JUDGE_UNSURE, NOT_ON_RECORD, Observed, observed
from ke_core.spec.probes import (
    COUNTERFACTUALS_PERPLEXITY,
    FACTS_PERPLEXITY,
    FLUENCY,
    LOCALITY,
    PARAPHRASE,
    PORTABILITY,
    PROBABILITY,
    QUESTION_ENTITIES,
    SINGLE_ASPECTS,
    SUB_QUESTIONS,
    SubQuestion,
)
from ke_core.spec.prompts import Decoding, Parse, Prompt
from ke_core.spec.protocols import (
    Artifacts,
    Ask,
    Dataset,
    DatasetInfo,
    Edited,
    Editor,
    Engine,
    HasDependencies,
    Judge,
    LanguageModel,
    Likelihood,
    Material,
    Metric,
    ModelMetric,
    Progress,
    Question,
    RemoteModel,
    SaveReply,
    Session,
    SupportsConcurrentSolve,
    Trainer,
    Training,
    TrainingExample,
    TrainStep,
)
from ke_core.spec.queries import CONDITION, EFFICACY, PHASES, Case, Form, Gold, Phase, Probe, Query, expected
from ke_core.spec.records import Usage
from ke_core.spec.requests import Embed, Encoder, Generate, Generated, Hit, Nearest, Procedure, Request, Score
from ke_core.spec.results import (
    QUERY_TAG,
    SHARE,
    Answer,
    CaseRecord,
    Cost,
    Details,
    Failure,
    Finding,
    ForwardCalls,
    Interval,
    Item,
    Judgement,
    MetricScore,
    ModelRecord,
    Outcome,
    Peak,
    Reply,
    Scored,
    Step,
    Value,
    Verdict,
)
from ke_core.spec.specs import (
    NAME_PATTERN,
    DatasetSpec,
    Defaults,
    EditorSpec,
    EncoderRequest,
    EncoderSpec,
    HealthFinding,
    JudgeSpec,
    KnownModel,
    MetricSpec,
    ModelFacts,
    ModelRequest,
    ModelSpec,
    ReportFormat,
    Setting,
    Settings,
    Shape,
    Spec,
    Trace,
    TrainerSpec,
)
from ke_core.spec.texts import (
    CONSISTENT,
    FACT_LABELS,
    FACT_UNSURE,
    INCONSISTENT,
    NO_THOUGHTS,
    NOT_SUPPORT,
    SUPPORT,
    SUPPORT_LABELS,
    SUPPORT_UNSURE,
    UNRELATED,
    holds,
    prompt_text,
    sentences,
    thoughts_of,
    words,
)
from ke_core.storage.artifacts import (
    ArtifactStore,
    read_value,
    warn,
    write_value,
)
from ke_core.storage.files import (
    CHOOSE_WRITABLE,
    cache_dir,
    data_places,
    file_errors,
    flush,
    hidden_sibling,
    locked,
    sha256_of,
    write_atomic,
)
from ke_core.storage.http import find_data, read_at_most, read_error_body
from ke_core.storage.json_reading import (
    DECODER,
    TOO_DEEPLY_NESTED,
    check_parsed,
    error_line,
    loads,
    parse_json,
    parse_object,
    parse_toml,
    problem,
    read_json,
    read_object,
    read_toml,
)

hookimpl = pluggy.HookimplMarker("ke")

__all__ = [
    "CHOOSE_WRITABLE", "CONDITION", "CONSISTENT", "CONTINUATION_FORMAT", "COUNTERFACTUALS_PERPLEXITY", "DECODER",
    "DEFAULT_LOADING", "DEFAULT_SOURCE", "EDITS_WITHHELD", "EFFICACY", "FACTS_PERPLEXITY", "FACT_LABELS",
    "FACT_UNSURE", "FLUENCY", "INCONSISTENT", "JUDGE_UNSURE", "LOCALITY", "NAME_PATTERN", "NOT_ON_RECORD",
    "NOT_SUPPORT", "NO_THOUGHTS", "PARAPHRASE", "PHASES", "PORTABILITY", "PROBABILITY", "QUERY_TAG",
    "QUESTION_ENTITIES", "SHARE", "SINGLE_ASPECTS", "SLOT", "SUB_QUESTIONS", "SUPPORT", "SUPPORT_LABELS",
    "SUPPORT_UNSURE", "THOUGHT", "TOO_DEEPLY_NESTED", "UNRELATED", "Answer", "ArtifactStore", "Artifacts", "Ask",
    "BadConfig", "BadData", "BadPatch", "BadRun", "Case", "CaseRecord", "Cloze", "ContentRefused", "ContextOverflow",
    "Cost", "DataFile", "Dataset", "DatasetInfo", "DatasetSpec", "Decoding", "Defaults", "Details", "Edit",
    "EditFailed", "Edited", "Editor", "EditorSpec", "Embed", "Encoder", "EncoderRequest", "EncoderSpec", "Engine",
    "Entity", "Fact", "Failure", "Finding", "Form", "ForwardCalls", "Generate", "Generated", "Gold",
    "HasDependencies", "HealthFinding", "Hit", "Interval", "Item", "Judge", "JudgeSpec", "Judgement", "KEError",
    "KnownModel", "LanguageModel", "LazyCommand", "Likelihood", "Material", "Metric", "MetricScore", "MetricSpec",
    "ModelFacts", "ModelMetric", "ModelRecord", "ModelRequest", "ModelSpec", "ModelUnavailable", "Nearest",
    "NeedsWeights", "NoLikelihood", "Observed", "Outcome", "Parse", "PassthroughModel", "Peak", "Phase", "Place",
    "PluginBroken", "PluginConflict", "Probe", "Procedure", "Progress", "Prompt", "PublishedAudit", "Query",
    "Question", "Relation", "RemoteModel", "Reply", "ReportFormat", "Request", "SaveReply", "Score", "Scored",
    "ServerDown", "ServerFailed", "ServerRefused", "Session", "Setting", "Settings", "Shape", "SourcedEdit", "Spec",
    "Step", "SubQuestion", "SupportsConcurrentSolve", "Trace", "TrainStep", "Trainer", "TrainerSpec", "Training",
    "TrainingExample", "UninterruptibleContext", "UnknownComponent", "UnsupportedChange", "UnsupportedEdit", "Usage",
    "Value", "Verdict", "Victims", "cache_dir", "canonical", "check_parsed", "continuation", "contradicting",
    "cut_at_stops", "cut_in_echo", "data_places", "digest", "distinct", "error_line", "expected", "file_errors",
    "find_data", "find_model", "flush", "from_json", "has_content", "hidden_sibling", "holds", "hookimpl",
    "json_type_only", "loads", "locked", "noun", "observed", "one_slot", "parse_json", "parse_object",
    "parse_reference", "parse_toml", "problem", "prompt_text", "put", "read_at_most", "read_error_body", "read_json",
    "read_object", "read_toml", "read_value", "refuse_other_types", "sentences", "sha256_of", "thoughts_of",
    "to_json", "uninterruptible", "uninterruptible_context", "warn", "words", "write_atomic", "write_value",
]  # fmt: skip
