"""The one module a plugin author imports from. Re-exports only; nothing here loads torch."""

import pluggy

from ke_core.data.facts import Cloze, Edit, Entity, Fact, Relation, distinct
from ke_core.data.masking import contradicting
from ke_core.data.prompts import Decoding, Parse, Prompt
from ke_core.data.queries import EFFICACY, Case, Form, Gold, Phase, Probe, Query, expected
from ke_core.data.results import (
    Answer,
    CaseRecord,
    Cost,
    Details,
    Failure,
    Finding,
    Item,
    Judgement,
    Outcome,
    Reply,
    Scored,
    Step,
    Value,
    Verdict,
)
from ke_core.engine.direct import Direct
from ke_core.errors import BadConfig, BadData, EditFailed, KEError, NoLikelihood, UnsupportedChange, UnsupportedEdit
from ke_core.files import find_data
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
    Progress,
    Question,
    Session,
)
from ke_core.requests import Embed, Encoder, Generate, Generated, Hit, Nearest, Procedure, Request, Score
from ke_core.specs import DatasetSpec, EditorSpec, JudgeSpec, KnownModel, MetricSpec, ModelRequest, ModelSpec

hookimpl = pluggy.HookimplMarker("ke")

__all__ = [
    "EFFICACY", "Answer", "Artifacts", "Ask", "BadConfig", "BadData", "Case", "CaseRecord", "Cloze", "Cost",
    "Dataset", "DatasetInfo", "DatasetSpec", "Decoding", "Details", "Direct", "Edit", "EditFailed", "Edited",
    "Editor", "EditorSpec", "Embed", "Encoder", "Engine", "Entity", "Fact", "Failure", "Finding", "Form",
    "Generate", "Generated", "Gold", "Hit", "Item", "Judge", "JudgeSpec", "Judgement", "KEError", "KnownModel",
    "LanguageModel", "Likelihood", "Material", "Metric", "MetricSpec", "ModelRequest", "ModelSpec", "Nearest",
    "NoLikelihood", "Outcome", "Parse", "Phase", "Probe", "Procedure", "Progress", "Prompt", "Query",
    "Question", "Relation", "Reply", "Request", "Score", "Scored", "Session", "Step", "UnsupportedChange",
    "UnsupportedEdit", "Value", "Verdict", "contradicting", "distinct", "expected", "find_data", "hookimpl",
]  # fmt: skip
