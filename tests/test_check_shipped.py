"""``ke plugins check`` on every shipped component: it passes its contract, or names what it needs.

The contracts themselves run in each plugin's own tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import fields_dict

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_testing.trial import contract_of

pytestmark = pytest.mark.integration

SMALL = {"tokens": "1500", "document_length": "64", "steps": "2", "clamp": "0.75", "template_length": "6"}
"""The options of the plugins' own tests, for a tiny model."""
FULL = {
    "editor": {"EditorContract", "WeightEditorContract", "AdaptorContract"},
    "dataset": {"DatasetContract"},
    "metric": {"MetricContract"},
    "judge": {"JudgeContract"},
}
NEEDS = {
    ("dataset", "cases"): "cases.file=FILE",
    ("dataset", "mquake"): "mquake.file=FILE",
    ("dataset", "ripple-edits"): "ke build ripple-edits",
    ("editor", "gwalk"): "gwalk.threshold=calibrated",
    ("editor", "malmen"): "ke train malmen",
    ("editor", "mend"): "ke train mend",
    ("editor", "pokemqa"): "pokemqa.detector=nearest",
    ("editor", "qlora"): "--dtype nf4",
    ("editor", "rledit"): "ke train rledit",
    ("editor", "serac"): "ke train serac",
    ("judge", "llm"): "a model",
    ("judge", "llm-correct"): "a model",
    ("judge", "nli"): "facts to label",
    ("judge", "probability"): "log-probabilities",
    ("metric", "cost"): "the record of an edited model",
    ("metric", "drift"): "the record of an edited model",
    ("metric", "lm-eval"): "the record of an edited model",
    ("encoder", "hf"): "an id to load",
    ("model", "hf"): "an id to load",
    ("model", "openai"): "an id to load",
}
CATALOG = read_catalog(discover(disabled=frozenset()))
OFFERS = [(kind, name) for kind in CATALOG.registrations for name in CATALOG.names(kind)]


@pytest.mark.usefixtures("one_thread", "ke_cache_dir")
@pytest.mark.parametrize(("kind", "name"), OFFERS)
def test_components_pass_their_contract_or_name_what_they_need(kind: str, name: str, tmp_path: Path) -> None:
    registration = CATALOG.registration(kind, name)
    options = {option: value for option, value in SMALL.items() if option in fields_dict(registration.spec.config)}
    found = contract_of(kind, registration, options, tmp_path)
    if (kind, name) in NEEDS:
        assert [result.outcome for result in found.first] == ["skipped"]
        assert NEEDS[kind, name] in found.first[0].found
    else:
        assert found.first == ()
        assert found.base in FULL[kind]
