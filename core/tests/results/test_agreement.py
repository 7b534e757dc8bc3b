"""What reports are told about a judge."""

import pytest

from ke_core.results.agreement import KIND, Agreement, AgreementCheck, agreement_warning, kept, save_check
from ke_core.spec.errors import DamagedArtifact
from ke_core.spec.runspec import Component, ModelRef

MODEL = ModelRef(source="hf", id="small", digest="0" * 64)
JUDGE = Component(name="llm", distribution="d", version="1", options={"label": "both"}, model=MODEL)
RULE = Component(name="alias", distribution="d", version="1")


def check(judge, kappa):
    found = Agreement(n=50, agreed=40, kappa=kappa)
    return AgreementCheck(judge=judge, items="0" * 64, agreements={"facts": found})


def test_saved_check_is_found_by_judge_options_and_model(ke_cache_dir):
    save_check(check(JUDGE, 0.96))
    assert kept(JUDGE).agreements["facts"].kappa == 0.96
    other = ModelRef(source="hf", id="small", digest="1" * 64)
    for changed in ({"options": {"label": "facts"}}, {"model": other}, {"version": "2"}):
        fields = {"name": "llm", "distribution": "d", "version": "1", "options": {"label": "both"}, "model": MODEL}
        assert kept(Component(**(fields | changed))) is None


def test_judge_with_a_model_warns_until_a_check_succeeds(ke_cache_dir):
    assert agreement_warning(JUDGE) == "judge llm has not been checked: ke judges check llm --judge-model small"
    save_check(check(JUDGE, 0.4))
    assert agreement_warning(JUDGE).startswith(
        "judge llm agrees too little with manual labels: facts kappa 0.40 (n 50)"
    )
    save_check(check(JUDGE, 0.96))
    assert agreement_warning(JUDGE) == ""


def test_judge_without_a_model_warns_only_after_a_failed_check(ke_cache_dir):
    assert agreement_warning(RULE) == ""
    save_check(check(RULE, 0.4))
    assert "alias agrees too little" in agreement_warning(RULE)


def test_damaged_check_is_ignored(ke_cache_dir):
    save_check(check(JUDGE, 0.96)).write_text("{", encoding="utf-8")
    with pytest.warns(DamagedArtifact, match="checksum does not match; check the judge again"):
        assert kept(JUDGE) is None
    assert [path.suffix for path in (ke_cache_dir / "artifacts" / KIND).iterdir()]
