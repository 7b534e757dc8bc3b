"""What ``ke advise`` asks, and how it identifies a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ke_plugin_facts.advising import SHORT, questions
from ke_weights.completions import PromptWithObjects, greedy_request
from ke_weights.suites import Check

Run = Callable[..., int]


def check(*expect: str) -> Check:
    return Check(id=expect[0], kind="changed", prompt="The motto of Peru is", expect=expect, wrong=())


def test_long_and_multi_line_targets_have_the_room_of_ke_apply() -> None:
    long, lines = "word " * 30, "one\ntwo"
    asks = questions([check("Cusco"), check(long), check(lines)])
    assert asks[0].prompt.decoding == SHORT
    for one, expect in zip(asks[1:], (long, lines), strict=True):
        wanted = greedy_request(PromptWithObjects(id="", prompt=one.texts[0], expect=(expect,)))
        decoding = one.prompt.decoding
        assert (one.prompt.text, decoding.max_tokens, decoding.stop) == (wanted.prompt, wanted.max_tokens, wanted.stop)
    assert asks[2].prompt.several_lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--candidate", "ft", "-o", "ftt.epochs=3"), "did you mean ft.epochs?"),
        (("--candidate", "ft", "-o", "memit.steps=3"), "does not use"),
        (("--candidate", "ft", "-o", "ft.epochss=3"), "did you mean ft.epochs?"),
    ],
)
def test_options_without_effect_are_refused(
    facts: Path, ke: Run, words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ke("advise", "--facts", facts, *words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_file_without_facts_is_refused(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    facts.write_text(facts.read_text().partition("[[facts]]")[0])
    assert ke("advise", "--facts", facts, "--candidate", "ft") == 2
    assert "facts.toml has no facts to try" in " ".join(capsys.readouterr().err.split())
