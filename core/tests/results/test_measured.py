"""A score is in the unit that it names; fractions are never called percentages."""

import pytest

from ke_core.results.folder import RunFolder
from ke_core.results.load import read_scores
from ke_core.spec.codec import to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.results import SHARE, MetricScore
from ke_core.spec.runspec import Component
from ke_core.spec.specs import MetricSpec
from ke_testing.records import make_run_spec
from ke_testing.toy import ToyConfig

EXACT = Component(name="exact", distribution="d", version="1")


@pytest.fixture
def written(tmp_path):
    """Write a score as scores.json holds it, and read it back."""

    def scored(**changed):
        folder = RunFolder.create(tmp_path / "run", make_run_spec())
        score = to_json(MetricScore(metric="m", aspect="a", value=0.5, n=2)) | changed
        metric = {"component": to_json(EXACT), "scores": [score]}
        folder.write_scores({"schema": 1, "judge": to_json(EXACT), "metrics": [metric]})
        return read_scores(folder).scores

    return scored


def test_numbers_from_0_to_1_are_stored_as_fractions(written):
    (score,) = written()
    assert (score.value, score.measure) == (0.5, SHARE) == (0.5, "fraction")


def test_scores_in_percent_are_refused(written):
    with pytest.raises(BadRun, match=r"(?s)scores.json does not fit.*measure cannot be '%'") as caught:
        written(measure="%")
    assert caught.value.hint.startswith("ke score ")


def test_a_metric_cannot_declare_percent():
    with pytest.raises(ValueError, match="measures cannot be '%'"):
        MetricSpec(name="m", summary="s", config=ToyConfig, build=lambda _config: None, measures={"a": "%"})
