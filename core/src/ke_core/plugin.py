"""The facade for plugin authors. It contains re-exports only and loads neither torch nor numpy."""

import pluggy

from ke_core.cli.lazy import LazyCommand
from ke_core.engine.messages import CONTINUATION_FORMAT, THOUGHT, continuation, cut_at_stops, cut_in_echo, has_content
from ke_core.engine.models import DEFAULT_LOADING, DEFAULT_SOURCE, find_model, parse_reference
from ke_core.engine.passthrough import PassthroughModel, put
from ke_core.interrupts import UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_core.spec.codec import canonical, digest, from_json, json_type_only, noun, refuse_other_types, to_json
from ke_core.spec.component import NAME_PATTERN, Spec
from ke_core.spec.dataset_info import DataFile, DatasetInfo, PublishedAudit, Victims
from ke_core.spec.errors import *  # noqa: F403  all errors
from ke_core.spec.facts import (
    NO_SUBJECT,
    SLOT,
    UNSPACED,
    Cloze,
    Edit,
    Entity,
    Fact,
    FreeForm,
    Place,
    Relation,
    SourcedEdit,
    continued,
    contradicting,
    distinct,
    one_slot,
)
from ke_core.spec.hookspecs import HealthFinding, ReportFormat
from ke_core.spec.observed import (
    EDITS_WITHHELD,
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    NoValue,
    Observed,
    log_probabilities,
    measured,
    observed,
    outcome_of,
    verdict_of,
    withheld,
)
from ke_core.spec.prompts import Decoding, Parse, Prompt, across_lines, with_room
from ke_core.spec.protocols import (
    Artifacts,
    Completed,
    ContinuousModel,
    Dataset,
    Edited,
    Editor,
    Engine,
    HasDependencies,
    Judge,
    LanguageModel,
    Material,
    Metric,
    ModelMetric,
    NextRequests,
    Progress,
    RemoteModel,
    Session,
    SupportsConcurrentSolve,
    SupportsSave,
)
from ke_core.spec.queries import (
    CONDITION,
    COUNTERFACTUALS_PERPLEXITY,
    EFFICACY,
    FACTS_PERPLEXITY,
    FLUENCY,
    LOCALITY,
    PARAPHRASE,
    PHASES,
    PORTABILITY,
    PROBABILITY,
    QUESTION_ENTITIES,
    SINGLE_ASPECTS,
    SUB_QUESTIONS,
    Case,
    Form,
    Gold,
    Phase,
    Probe,
    Query,
    SubQuestion,
    expected,
)
from ke_core.spec.records import Usage
from ke_core.spec.requests import (
    EditorRequest,
    Embed,
    Encoder,
    Generate,
    Generated,
    Hit,
    Likelihood,
    Nearest,
    Procedure,
    Question,
    Request,
    Score,
)
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
    Judgment,
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
from ke_core.spec.settings import ModelFacts, Setting, Settings, Shape, Trace, option
from ke_core.spec.specs import (
    DatasetSpec,
    Defaults,
    DeriveProbes,
    EditorSpec,
    EncoderRequest,
    EncoderSpec,
    JudgeSpec,
    KnownModel,
    MetricSpec,
    ModelRequest,
    ModelSpec,
    TrainerSpec,
)
from ke_core.spec.texts import holds, prompt_text, words
from ke_core.storage.files import (
    CHOOSE_WRITABLE,
    ArtifactStore,
    cache_dir,
    data_places,
    file_errors,
    flush,
    hidden_sibling,
    locked,
    read_at_most,
    read_error_body,
    read_value,
    sha256_of,
    warn,
    write_atomic,
    write_value,
)
from ke_core.storage.json_reading import (
    TOO_DEEPLY_NESTED,
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

__all__ = [  # noqa: F405  errors
    "CHOOSE_WRITABLE", "CONDITION", "CONTINUATION_FORMAT", "COUNTERFACTUALS_PERPLEXITY", "DEFAULT_LOADING",
    "DEFAULT_SOURCE", "EDITS_WITHHELD", "EFFICACY", "FACTS_PERPLEXITY", "FLUENCY", "JUDGE_UNSURE", "LOCALITY",
    "NAME_PATTERN", "NOT_ON_RECORD", "NO_SUBJECT", "PARAPHRASE", "PHASES", "PORTABILITY", "PROBABILITY", "QUERY_TAG",
    "QUESTION_ENTITIES", "SHARE", "SINGLE_ASPECTS", "SLOT", "SUB_QUESTIONS", "THOUGHT", "TOO_DEEPLY_NESTED", "UNSPACED",
    "Answer", "ArtifactStore", "Artifacts", "BadConfig", "BadData", "BadPatch", "BadRun", "Case", "CaseRecord", "Cloze",
    "Completed", "ContentRefused", "ContextOverflow", "ContinuousModel", "Cost", "DataFile", "Dataset", "DatasetInfo",
    "DatasetSpec", "Decoding", "Defaults", "DeriveProbes", "Details", "Edit", "EditFailed", "Edited", "Editor",
    "EditorRequest", "EditorSpec", "Embed", "Encoder", "EncoderRequest", "EncoderSpec", "Engine", "Entity", "Fact",
    "Failure", "Finding", "Form", "ForwardCalls", "FreeForm", "Generate", "Generated", "Gold", "HasDependencies",
    "HealthFinding", "Hit", "Interval", "Item", "Judge", "JudgeSpec", "Judgment", "KEError", "KEWarning", "KnownModel",
    "LanguageModel", "LazyCommand", "Likelihood", "Material", "Metric", "MetricScore", "MetricSpec", "ModelFacts",
    "ModelMetric", "ModelRecord", "ModelRequest", "ModelSpec", "ModelUnavailable", "Nearest", "NeedsWeights",
    "NextRequests", "NoLikelihood", "NoValue", "Observed", "Outcome", "Parse", "PassthroughModel", "Peak", "Phase",
    "Place", "PluginBroken", "PluginConflict", "Probe", "Procedure", "ProcessLost", "Progress", "Prompt",
    "PublishedAudit", "Query", "Question", "Relation", "RemoteModel", "Reply", "ReportFormat", "Request", "Score",
    "Scored", "ServerDown", "ServerFailed", "ServerRefused", "Session", "Setting", "Settings", "Shape", "SourcedEdit",
    "Spec", "Step", "SubQuestion", "SupportsConcurrentSolve", "SupportsSave", "Trace", "TrainerSpec",
    "UninterruptibleContext", "UnknownComponent", "UnsupportedChange", "UnsupportedEdit", "Usage", "Value", "Verdict",
    "Victims", "across_lines", "cache_dir", "canonical", "continuation", "continued", "contradicting", "cut_at_stops",
    "cut_in_echo", "data_places", "did_you_mean", "digest", "distinct", "error_line", "expected", "file_errors",
    "find_model", "flush", "from_json", "has_content", "hidden_sibling", "holds", "hookimpl", "json_type_only", "loads",
    "locked", "log_probabilities", "measured", "noun", "observed", "one_slot", "option", "outcome_of", "parse_json",
    "parse_object", "parse_reference", "parse_toml", "problem", "prompt_text", "put", "read_at_most", "read_error_body",
    "read_json", "read_object", "read_toml", "read_value", "refuse_other_types", "sha256_of", "to_json",
    "uninterruptible", "uninterruptible_context", "verdict_of", "warn", "with_room", "withheld", "words",
    "write_atomic", "write_value",
]  # fmt: skip
