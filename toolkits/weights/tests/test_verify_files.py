"""The files of ``ke verify`` for continuous integration."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

from ke_weights.bounds import bounds
from ke_weights.completions import Completion
from ke_weights.report.verify_files import junit, markdown
from ke_weights.suites import Check
from ke_weights.verify import compare_answers

SUITE = (
    Check(id="peru", kind="changed", prompt="The capital of Peru is", expect=("Cusco",), wrong=()),
    Check(id="chile", kind="changed", prompt="The capital of Chile is", expect=("Arica",), wrong=()),
    Check(id="france", kind="kept", prompt="The capital of France is", expect=("Paris",), wrong=()),
)
BEFORE = {"peru": Completion(text="Lima"), "chile": Completion(text="Santiago"), "france": Completion(text="Paris")}
AFTER = BEFORE | {"peru": Completion(text="Cusco"), "chile": Completion(text="a | b")}


def found(*least: str):
    wanted = bounds(least, ())
    return compare_answers(BEFORE, AFTER, SUITE, wanted), wanted


def test_junit_counts_a_missed_bound_and_the_facts_that_failed() -> None:
    suite = fromstring(junit(*found("efficacy=0.9", "kept=1")))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "2", "0")
    failures = {
        case.get("name"): case.find("failure").get("message") for case in suite if case.find("failure") is not None
    }
    assert failures == {
        "efficacy >= 0.9": "efficacy is 0.500",
        "chile: The capital of Chile is": "expected Arica; answered 'a | b'",
    }


def test_junit_skips_facts_that_failed_within_the_bounds() -> None:
    suite = fromstring(junit(*found("efficacy=0.5")))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert fromstring(junit(*found())).get("failures") == "1"


def test_markdown_has_the_numbers_and_the_facts_that_failed() -> None:
    lines = markdown(*found("efficacy=0.9")).splitlines()
    assert "| efficacy | 0.500 | 2 | >= 0.9 | **missed** |" in lines
    assert lines[-1] == "| chile | The capital of Chile is | Arica | Santiago | a \\| b |"
