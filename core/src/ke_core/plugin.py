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
from ke_core.datasets.checks import all_labelled, all_said, labelled, said, some_said
from ke_core.datasets.family import (
    CaseDataset,
    Deferred,
    FileDataset,
    Variant,
    digest_of,
    fit,
    folder_of,
    own_file,
    queries_of,
)
from ke_core.engine.direct import Direct, put
from ke_core.engine.trained import Checkpoint, checkpoint_digest, read_checkpoint, trained_folder
from ke_core.errors import BadConfig, BadData, EditFailed, KEError, NoLikelihood, UnsupportedChange, UnsupportedEdit
from ke_core.files import data_places, find_data, sha256_of
from ke_core.hyper import (
    ModelFacts,
    Setting,
    Shape,
    SingleConfig,
    SpreadConfig,
    as_details,
    derived,
    not_negative,
    positive,
    settle,
    single_settings,
    spread_settings,
    template_length,
)
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
from ke_core.published import SPREAD, Published
from ke_core.reproduce.shipped import reproductions_in
from ke_core.requests import Embed, Encoder, Generate, Generated, Hit, Nearest, Procedure, Request, Score
from ke_core.specs import (
    DatasetSpec,
    EditorSpec,
    JudgeSpec,
    KnownModel,
    MetricSpec,
    ModelRequest,
    ModelSpec,
    ReproductionSpec,
    TrainerSpec,
    Usual,
)
from ke_core.trainers import Trainer, Training, TrainStep

hookimpl = pluggy.HookimplMarker("ke")

__all__ = [
    "CONSISTENT", "COUNTERFACTUALS_PERPLEXITY", "EDITS_WITHHELD", "EFFICACY", "FACTS_PERPLEXITY", "FACT_LABELS",
    "FACT_UNSURE", "FLUENCY", "INCONSISTENT", "JUDGE_UNSURE", "LOCALITY", "NOT_ON_RECORD", "NOT_SUPPORT", "NO_THOUGHTS",
    "PARAPHRASE", "PORTABILITY", "PROBABILITY", "QUERY_TAG", "QUESTION_ENTITIES", "SINGLE_ASPECTS", "SPREAD",
    "SUB_QUESTIONS", "SUPPORT", "SUPPORT_LABELS", "SUPPORT_UNSURE", "UNRELATED", "Answer", "Artifacts", "Ask",
    "BadConfig", "BadData", "Case", "CaseDataset", "CaseHeader", "CaseRecord", "Checkpoint", "Cloze", "Cost",
    "DataFile", "Dataset", "DatasetInfo", "DatasetSpec", "Decoding", "Deferred", "Details", "Direct", "Edit",
    "EditFailed", "Edited", "Editor", "EditorSpec", "Embed", "Encoder", "Engine", "Entity", "Fact", "Failure",
    "FileDataset", "Finding", "Form", "Generate", "Generated", "Gold", "Hit", "Item", "Judge", "JudgeSpec", "Judgement",
    "KEError", "KnownModel", "LanguageModel", "Likelihood", "Material", "Metric", "MetricSpec", "ModelFacts",
    "ModelMetric", "ModelRecord", "ModelRequest", "ModelSpec", "Nearest", "NoLikelihood", "Observed", "Outcome",
    "Parse", "Passes", "Peak", "Phase", "Probe", "Procedure", "Progress", "Prompt", "Published", "PublishedAudit",
    "Query", "Question", "Relation", "Reply", "ReproductionSpec", "Request", "Score", "Scored", "Session", "Setting",
    "Shape", "SingleConfig", "SpreadConfig", "Step", "SubQuestion", "TrainStep", "Trainer", "TrainerSpec", "Training",
    "TrainingExample", "UnsupportedChange", "UnsupportedEdit", "Usual", "Value", "Variant", "Verdict", "all_labelled",
    "all_said", "as_details", "checkpoint_digest", "contradicting", "data_places", "derived", "digest_of", "distinct",
    "expected", "find_data", "fit", "folder_of", "holds", "hookimpl", "is_intact", "labelled", "not_negative",
    "observed", "one_slot", "own_file", "parse_json", "parse_toml", "perplexity_probes", "positive", "prompt_text",
    "put", "queries_of", "question_entities", "read_arrays", "read_cases", "read_checkpoint", "read_header",
    "read_json", "read_toml", "reproductions_in", "said", "sentences", "settle", "sha256_of", "single_edit_probes",
    "single_settings", "some_said", "spread_settings", "sub_questions", "template_length", "thoughts_of",
    "trained_folder", "words", "write_arrays", "write_cases",
]  # fmt: skip
