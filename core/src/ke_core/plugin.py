"""The module that plugin authors import from. It contains re-exports only and loads neither torch nor numpy."""

import pluggy

from ke_core.cli.lazy import LazyCommand
from ke_core.engine.messages import CONTINUATION_FORMAT, THOUGHT, continuation, cut_at_stops, cut_in_echo, has_content
from ke_core.engine.models import DEFAULT_LOADING, DEFAULT_SOURCE, find_model, parse_reference
from ke_core.engine.passthrough import PassthroughModel, put
from ke_core.interrupts import UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_core.spec.codec import canonical, digest, from_json, to_json
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
from ke_core.spec.observed import EDITS_WITHHELD, JUDGE_UNSURE, NOT_ON_RECORD, NoValue, Observed, observed
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
    perplexity_probes,
    question_entities,
    single_edit_probes,
    sub_questions,
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
    SupportsSave,
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
    KEY,
    ArtifactStore,
    damage,
    is_intact,
    read_arrays,
    read_value,
    warn,
    write_arrays,
    write_tensors,
    write_value,
)
from ke_core.storage.case_files import CaseHeader, read_cases, read_header, scan_cases, write_cases
from ke_core.storage.files import (
    CHOOSE_WRITABLE,
    cache_dir,
    data_places,
    file_errors,
    find_data,
    hidden_sibling,
    locked,
    sha256_of,
    write_atomic,
)
from ke_core.storage.folders import OLD_SUFFIX, move_folder, restore_moved
from ke_core.storage.http import host_name, is_loopback, read_at_most, read_error_body
from ke_core.storage.json_reading import (
    TOO_DEEPLY_NESTED,
    error_line,
    loads,
    parse_json,
    parse_object,
    parse_toml,
    read_json,
    read_object,
    read_toml,
)
from ke_core.storage.json_records import read_records, structure_record

hookimpl = pluggy.HookimplMarker("ke")

__all__ = [
    "CHOOSE_WRITABLE", "CONDITION", "CONSISTENT", "CONTINUATION_FORMAT", "COUNTERFACTUALS_PERPLEXITY",
    "DEFAULT_LOADING", "DEFAULT_SOURCE", "EDITS_WITHHELD", "EFFICACY", "FACTS_PERPLEXITY", "FACT_LABELS", "FACT_UNSURE",
    "FLUENCY", "INCONSISTENT", "JUDGE_UNSURE", "KEY", "LOCALITY", "NAME_PATTERN", "NOT_ON_RECORD", "NOT_SUPPORT",
    "NO_THOUGHTS", "OLD_SUFFIX", "PARAPHRASE", "PHASES", "PORTABILITY", "PROBABILITY", "QUERY_TAG", "QUESTION_ENTITIES",
    "SHARE", "SINGLE_ASPECTS", "SLOT", "SUB_QUESTIONS", "SUPPORT", "SUPPORT_LABELS", "SUPPORT_UNSURE", "THOUGHT",
    "TOO_DEEPLY_NESTED", "UNRELATED", "Answer", "ArtifactStore", "Artifacts", "Ask", "BadConfig", "BadData", "BadPatch",
    "BadRun", "Case", "CaseHeader", "CaseRecord", "Cloze", "ContentRefused", "ContextOverflow", "Cost", "DataFile",
    "Dataset", "DatasetInfo", "DatasetSpec", "Decoding", "Defaults", "Details", "Edit", "EditFailed", "Edited",
    "Editor", "EditorSpec", "Embed", "Encoder", "EncoderRequest", "EncoderSpec", "Engine", "Entity", "Fact", "Failure",
    "Finding", "Form", "ForwardCalls", "Generate", "Generated", "Gold", "HasDependencies", "HealthFinding", "Hit",
    "Interval", "Item", "Judge", "JudgeSpec", "Judgement", "KEError", "KnownModel", "LanguageModel", "LazyCommand",
    "Likelihood", "Material", "Metric", "MetricScore", "MetricSpec", "ModelFacts", "ModelMetric", "ModelRecord",
    "ModelRequest", "ModelSpec", "ModelUnavailable", "Nearest", "NeedsWeights", "NoLikelihood", "NoValue", "Observed",
    "Outcome", "Parse", "PassthroughModel", "Peak", "Phase", "Place", "PluginBroken", "PluginConflict", "Probe",
    "Procedure", "Progress", "Prompt", "PublishedAudit", "Query", "Question", "Relation", "RemoteModel", "Reply",
    "ReportFormat", "Request", "SaveReply", "Score", "Scored", "ServerDown", "ServerFailed", "ServerRefused", "Session",
    "Setting", "Settings", "Shape", "SourcedEdit", "Spec", "Step", "SubQuestion", "SupportsConcurrentSolve",
    "SupportsSave", "Trace", "TrainStep", "Trainer", "TrainerSpec", "Training", "TrainingExample",
    "UninterruptibleContext", "UnknownComponent", "UnsupportedChange", "UnsupportedEdit", "Usage", "Value", "Verdict",
    "Victims", "cache_dir", "canonical", "continuation", "contradicting", "cut_at_stops", "cut_in_echo", "damage",
    "data_places", "digest", "distinct", "error_line", "expected", "file_errors", "find_data", "find_model",
    "from_json", "has_content", "hidden_sibling", "holds", "hookimpl", "host_name", "is_intact", "is_loopback", "loads",
    "locked", "move_folder", "observed", "one_slot", "parse_json", "parse_object", "parse_reference", "parse_toml",
    "perplexity_probes", "prompt_text", "put", "question_entities", "read_arrays", "read_at_most", "read_cases",
    "read_error_body", "read_header", "read_json", "read_object", "read_records", "read_toml", "read_value",
    "restore_moved", "scan_cases", "sentences", "sha256_of", "single_edit_probes", "structure_record", "sub_questions",
    "thoughts_of", "to_json", "uninterruptible", "uninterruptible_context", "warn", "words", "write_arrays",
    "write_atomic", "write_cases", "write_tensors", "write_value",
]  # fmt: skip
