"""The one module a plugin author imports from. Re-exports only; nothing here loads torch."""

import pluggy

from ke_core.checksums import is_intact, read_arrays, write_arrays
from ke_core.data.audits import PublishedAudit
from ke_core.data.facts import Cloze, Edit, Entity, Fact, Relation, distinct, one_slot
from ke_core.data.files import DataFile
from ke_core.data.masking import contradicting
from ke_core.data.observed import EDITS_WITHHELD, JUDGE_UNSURE, NOT_ON_RECORD, Observed, observed
from ke_core.data.perplexity import COUNTERFACTUALS_PERPLEXITY, FACTS_PERPLEXITY, perplexity_probes
from ke_core.data.prompts import Decoding, Parse, Prompt
from ke_core.data.queries import EFFICACY, Case, Form, Gold, Phase, Probe, Query, expected
from ke_core.data.question_entities import QUESTION_ENTITIES, question_entities
from ke_core.data.reading import parse_json, parse_toml, read_json, read_toml
from ke_core.data.results import (
    QUERY_TAG,
    Answer,
    CaseRecord,
    Cost,
    Details,
    Failure,
    Finding,
    Item,
    Judgement,
    ModelRecord,
    Outcome,
    Passes,
    Peak,
    Reply,
    Scored,
    Step,
    Value,
    Verdict,
)
from ke_core.data.single import (
    FLUENCY,
    LOCALITY,
    PARAPHRASE,
    PORTABILITY,
    PROBABILITY,
    SINGLE_ASPECTS,
    single_edit_probes,
)
from ke_core.data.subquestions import SUB_QUESTIONS, SubQuestion, sub_questions
from ke_core.data.thoughts import (
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
    sentences,
    thoughts_of,
)
from ke_core.data.training import TrainingExample
from ke_core.data.wording import holds, words
from ke_core.datasets.case_files import CaseHeader, read_cases, read_header, write_cases
from ke_core.engine.direct import Direct, put
from ke_core.errors import BadConfig, BadData, EditFailed, KEError, NoLikelihood, UnsupportedChange, UnsupportedEdit
from ke_core.files import data_places, find_data, sha256_of
from ke_core.hyper import ModelFacts, Setting, Shape
from ke_core.prompt_texts import prompt_text
from ke_core.protocols import (
    Artifacts,
    Ask,
    Dataset,
    DatasetInfo,
    Edited,
    Editor,
    Engine,
    Judge,
    LanguageModel,
    Likelihood,
    Material,
    Metric,
    ModelMetric,
    Progress,
    Question,
    Session,
)
from ke_core.requests import Embed, Encoder, Generate, Generated, Hit, Nearest, Procedure, Request, Score
from ke_core.specs import (
    DatasetSpec,
    EditorSpec,
    EncoderRequest,
    EncoderSpec,
    HealthFinding,
    JudgeSpec,
    KnownModel,
    MetricSpec,
    ModelRequest,
    ModelSpec,
    ReportFormat,
    TrainerSpec,
    Usual,
)
from ke_core.trainers import Trainer, Training, TrainStep

hookimpl = pluggy.HookimplMarker("ke")

__all__ = [
    "CONSISTENT", "COUNTERFACTUALS_PERPLEXITY", "EDITS_WITHHELD", "EFFICACY", "FACTS_PERPLEXITY", "FACT_LABELS",
    "FACT_UNSURE", "FLUENCY", "INCONSISTENT", "JUDGE_UNSURE", "LOCALITY", "NOT_ON_RECORD", "NOT_SUPPORT", "NO_THOUGHTS",
    "PARAPHRASE", "PORTABILITY", "PROBABILITY", "QUERY_TAG", "QUESTION_ENTITIES", "SINGLE_ASPECTS", "SUB_QUESTIONS",
    "SUPPORT", "SUPPORT_LABELS", "SUPPORT_UNSURE", "UNRELATED", "Answer", "Artifacts", "Ask", "BadConfig", "BadData",
    "Case", "CaseHeader", "CaseRecord", "Cloze", "Cost", "DataFile", "Dataset", "DatasetInfo", "DatasetSpec",
    "Decoding", "Details", "Direct", "Edit", "EditFailed", "Edited", "Editor", "EditorSpec", "Embed", "Encoder",
    "EncoderRequest", "EncoderSpec", "Engine", "Entity", "Fact", "Failure", "Finding", "Form", "Generate", "Generated",
    "Gold", "HealthFinding", "Hit", "Item", "Judge", "JudgeSpec", "Judgement", "KEError", "KnownModel", "LanguageModel",
    "Likelihood", "Material", "Metric", "MetricSpec", "ModelFacts", "ModelMetric", "ModelRecord", "ModelRequest",
    "ModelSpec", "Nearest", "NoLikelihood", "Observed", "Outcome", "Parse", "Passes", "Peak", "Phase", "Probe",
    "Procedure", "Progress", "Prompt", "PublishedAudit", "Query", "Question", "Relation", "Reply", "ReportFormat",
    "Request", "Score", "Scored", "Session", "Setting", "Shape", "Step", "SubQuestion", "TrainStep", "Trainer",
    "TrainerSpec", "Training", "TrainingExample", "UnsupportedChange", "UnsupportedEdit", "Usual", "Value", "Verdict",
    "contradicting", "data_places", "distinct", "expected", "find_data", "holds", "hookimpl", "is_intact", "observed",
    "one_slot", "parse_json", "parse_toml", "perplexity_probes", "prompt_text", "put", "question_entities",
    "read_arrays", "read_cases", "read_header", "read_json", "read_toml", "sentences", "sha256_of",
    "single_edit_probes", "sub_questions", "thoughts_of", "words", "write_arrays", "write_cases",
]  # fmt: skip
