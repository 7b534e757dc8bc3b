"""``ke facts expand``: tests proposed from a knowledge graph. No model is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit

from ke_benchmarks.graph import load_atlas
from ke_core.app import installed_catalog
from ke_core.plugin import BadData, loads
from ke_plugin_facts.expanding import Expansion, ProposedTest, edit_builder, expand, recalled
from ke_plugin_facts.fact_file import facts_of, read_facts
from ke_plugin_facts.writing import write_proposals
from ke_weights.completions import Completion

Run = Callable[..., int]
FACTS = """
# the facts of our model
[[facts]]  # from the ministry
id = "peru"
prompt = "The capital of {} is"
subject = "Peru"
target = "Cusco"

# about Chile
[[facts]]
prompt = "The currency of {} is the"
subject = "Chile"
target = "euro"
tests = [{ kind = "kept", prompt = "The capital of Chile is", expect = "Santiago" }]

[[facts]]
prompt = "The seat of {}'s government is"
relation = "capital"
subject = "Nepal"
target = "Nowhere"
[[facts.tests]]
kind = "kept"  # checked
prompt = "Nepal is a country on the continent of"
expect = "Asia"

# no edit may change them
[[keep]]
prompt = "The capital of France is"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "facts.toml"
    path.write_text(FACTS, encoding="utf-8")
    return path


def fact(prompt: str, subject: str, target: str, **more: object) -> dict[str, object]:
    return {"prompt": prompt, "subject": subject, "target": target, **more}


CAPITAL, CURRENCY = "The capital of {} is", "The currency of {} is the"


def expanded(*facts: dict[str, object], **more: object) -> Expansion:
    found = facts_of({"facts": list(facts), **more}, Path("facts.toml"))
    return expand(found, load_atlas(), edit_builder(installed_catalog(), {}))


def prompts(made: Expansion, fact: int, kind: str) -> set[str]:
    return {one.prompt for one in made.tests if (one.fact, one.kind) == (fact, kind)}


def test_consequences_other_names_and_facts_to_keep_are_proposed() -> None:
    made = expanded(fact(CAPITAL, "Peru", "Cusco"), fact("The currency of the {} is the", "Netherlands", "yen"))
    assert prompts(made, 0, "consequence") >= {
        "Cusco is the capital of", "The capital of the country to which Arequipa belongs is",
    }  # fmt: skip
    assert prompts(made, 0, "kept") >= {"The currency of Peru is the", "Peru is a country on the continent of"}
    assert "The currency of Holland is the" in prompts(made, 1, "paraphrase")
    (test,) = [one for one in made.tests if one.prompt == "The capital of the country to which Arequipa belongs is"]
    assert (test.expect, test.wrong) == (("Cusco",), ("Lima",))


def test_an_answer_is_accepted_with_its_article() -> None:
    made = expanded(fact(CAPITAL, "Belgium", "Ghent"))
    (test,) = [one for one in made.tests if one.prompt == "Belgium shares a land border with"]
    assert {"Netherlands", "the Netherlands"} <= set(test.expect)


def test_a_fact_that_another_edit_changes_is_not_kept() -> None:
    made = expanded(fact(CAPITAL, "Peru", "Cusco"), fact(CURRENCY, "Peru", "yen"))
    assert "The currency of Peru is the" not in prompts(made, 0, "kept")
    assert "The capital of Peru is" not in prompts(made, 1, "kept")
    assert len({one.prompt for one in made.tests}) == len(made.tests)


def test_facts_about_the_subject_of_an_unknown_relation_are_not_kept() -> None:
    made = expanded(fact(CAPITAL, "Peru", "Cusco"), fact("The money of {} is the", "Peru", "yen"))
    assert prompts(made, 0, "kept") == set()
    assert "no relation has its prompt: set relation to one of capital," in made.reasons[1]


def test_prompts_of_the_file_are_not_proposed() -> None:
    keep = [{"prompt": "the currency of Peru is the", "expect": "dollar"}]
    made = expanded(fact(CAPITAL, "Peru", "Cusco", paraphrases=["Cusco is a city in"]), keep=keep)
    assert {"The currency of Peru is the", "Cusco is a city in"} & {one.prompt for one in made.tests} == set()


def test_conditions_are_what_the_unedited_model_has_to_know() -> None:
    tests = {one.prompt: one for one in expanded(fact(CAPITAL, "Peru", "Cusco")).tests}
    two_hop, kept = (
        tests["The capital of the country to which Arequipa belongs is"],
        tests["The currency of Peru is the"],
    )
    assert two_hop.conditions == (("Arequipa is a city in", ("Peru",)),)
    assert kept.conditions == ((kept.prompt, kept.expect),)
    answers = {"Arequipa is a city in": Completion(text="Peru."), kept.prompt: Completion(text="dollar")}
    assert [recalled(one, answers) for one in (two_hop, kept, tests["Cusco is the capital of"])] == [True, False, True]


@pytest.mark.integration  # loads a model
def test_tests_that_the_model_cannot_pass_are_omitted(
    path: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("facts", "expand", path, "--graph", "atlas", "--recalled", "--model", model)
    assert ke(*words) == 0  # the tiny model knows nothing
    assert {one for fact in read_facts(path).facts for one in fact.proposed.values()} == {
        "atlas: logical-generalization"
    }
    capsys.readouterr()
    assert ke(*words) == 0
    assert "0 tests added, 0 removed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (fact(CAPITAL, "Atlantis", "Cusco"), "the graph has no entity called 'Atlantis'"),
        (fact("The population of {} is", "Peru", "7"), "the relation 'population' has numbers as objects, or no cloze"),
        ({"prompt": "All is", "target": "well"}, "it names no subject"),
        (
            fact("The seat of {}'s government is", "Peru", "Ica", relation="capital"),
            "it contradicts another fact: capital is 'Cusco' in 'peru'",
        ),
    ],
)
def test_a_fact_that_cannot_be_expanded_has_a_reason(one: dict[str, object], reason: str) -> None:
    made = expanded(fact(CAPITAL, "Peru", "Cusco", id="peru"), one)
    assert made.reasons == {1: reason}
    assert {one.fact for one in made.tests} == {0}


def test_the_old_object_is_no_wrong_answer_if_a_right_one_begins_with_it() -> None:
    backwards = [
        {one.wrong for one in expanded(fact(CURRENCY, "France", new)).tests if one.criterion == "compositionality-2"}
        for new in ("yen", "euro dollar")
    ]
    assert backwards == [{("euro",)}, {()}]


def test_tests_are_written_once_and_comments_stay(path: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("facts", "expand", path, "--graph", "atlas") == 0
    assert "3 of 3 facts" in capsys.readouterr().out
    text = path.read_text()
    for comment in ("# the facts", "  # from the ministry", '"Cusco"\ntests = [', "# about Chile\n[[facts]]",
                    "  # checked", "# no edit may change them\n[[keep]]"):  # fmt: skip
        assert comment in text
    peru, chile, nepal = read_facts(path).facts
    assert peru.proposed["peru/test-1"] == "atlas: logical-generalization"
    assert (len(chile.tests) - len(chile.proposed), len(nepal.tests) - len(nepal.proposed)) == (1, 1)
    assert "Nowhere is the capital of" in [one.prompt for one in nepal.tests]
    assert ke("facts", "expand", path, "--graph", "atlas") == 0
    assert "0 tests added, 0 removed" in capsys.readouterr().out
    assert path.read_text() == text
    assert ke("facts", "lint", path) == 0
    assert "proposed)" in capsys.readouterr().out


def test_a_new_target_replaces_the_proposed_tests(path: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("facts", "expand", path, "--graph", "atlas") == 0
    text = path.read_text()
    accepted = text.replace(', proposed = "atlas: logical-generalization"', "", 1).replace("Cusco", "Iquitos")
    path.write_text(accepted.replace("Iquitos is the capital of", "Cusco was the capital of"))
    capsys.readouterr()
    assert ke("facts", "expand", path, "--graph", "atlas", "--json") == 0
    found = loads(capsys.readouterr().out)
    assert found["added"] > 0
    peru = read_facts(path).facts[0]
    asked = {one.prompt: one.expect for one in peru.tests}
    assert asked["Iquitos is the capital of"] == asked["Cusco was the capital of"] == ("Peru",)
    assert "The capital of the country to which Iquitos belongs is" not in asked
    assert asked["The capital of the country to which Arequipa belongs is"] == ("Iquitos",)


def test_comments_stay_if_proposed_tests_are_removed(path: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is proposed for Nepal now, so all its tests in tables of their own are removed."""
    path.write_text(path.read_text().replace('kind = "kept"  # checked\n', 'kind = "kept"\nproposed = "atlas: x"\n'))
    assert ke("facts", "expand", path, "--graph", "atlas") == 0
    text = path.read_text().replace('subject = "Nepal"', 'subject = "Peru"\nquestion = "?"').replace("Nowhere", "Cusco")
    path.write_text(text)
    capsys.readouterr()
    assert ke("facts", "expand", path, "--graph", "atlas", "--json") == 0
    assert loads(capsys.readouterr().out)["removed"] > 1
    assert read_facts(path).facts[2].tests == ()
    text = path.read_text()
    assert '"Cusco"\n\n# no edit may change them\n[[keep]]' in text
    assert "[[facts.tests]]" not in text


def test_tests_of_a_fact_that_cannot_be_expanded_any_more_are_removed(path: Path, ke: Run) -> None:
    assert ke("facts", "expand", path, "--graph", "atlas") == 0
    assert read_facts(path).facts[2].proposed
    path.write_text(path.read_text().replace('subject = "Nepal"', 'subject = "Peru"'))  # its capital is "Cusco" above
    assert ke("facts", "expand", path, "--graph", "atlas") == 0
    chile, peru = read_facts(path).facts[1:]
    assert chile.proposed
    assert [one.prompt for one in peru.tests] == ["Nepal is a country on the continent of"]


@pytest.mark.parametrize("outdated", ["A", "B", "C", "AB", "AC", "BC", "ABC"])
def test_comments_above_tests_stay_in_place(tmp_path: Path, outdated: str) -> None:
    """The comment above a test of the user stays there, if the tests around it are removed."""
    path, lines = tmp_path / "facts.toml", ['[[facts]]\nprompt = "All is"\ntarget = "well"\n']
    for name in "ABC":
        proposed = 'proposed = "atlas: x"\n' if name in outdated else ""
        lines.append(f'# above {name}\n[[facts.tests]]\nkind = "kept"\nprompt = "{name}"\n{proposed}\n')
    path.write_text("".join([*lines, '# above the next fact\n[[facts]]\nprompt = "1 + 1 ="\ntarget = "3"\n']))
    assert write_proposals(read_facts(path), [], "atlas") == (0, len(outdated))
    text = path.read_text()
    assert [one.prompt for one in read_facts(path).facts[0].tests] == [name for name in "ABC" if name not in outdated]
    for name in {*"ABC"} - {*outdated}:
        assert f'# above {name}\n[[facts.tests]]\nkind = "kept"\nprompt = "{name}"\n' in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# above A", "# above B", "# above C", "# above the next fact",
    ]  # fmt: skip
    assert "# above the next fact\n[[facts]]\n" in text


def test_facts_in_brackets(tmp_path: Path, ke: Run) -> None:
    path = tmp_path / "brackets.toml"
    path.write_text(
        'facts = [\n  # one\n  { prompt = "The capital of {} is", subject = "Peru", target = "Cusco" },\n]\n'
    )
    assert ke("facts", "expand", path, "--graph", "atlas", "-o", "build.backwards=0") == 0
    (peru,) = read_facts(path).facts
    assert {one.split(": ")[1] for one in peru.proposed.values()} == {"logical-generalization", "relation-specificity"}
    assert "# one" in path.read_text()
    assert tomlkit.parse(path.read_text()).unwrap()["facts"][0]["tests"][0]["kind"] == "consequence"
    assert ke("facts", "expand", path, "--graph", "atlas", "-o", "build.forwards=0") == 2


def test_a_graph_of_your_own_with_its_relations(tmp_path: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.csv").write_text(
        "subject,relation,object\nAnn,team,Red\nBob,team,Blue\nRed,site,Oslo\nBlue,site,Rome\n"
    )
    (tmp_path / "words.toml").write_text(
        '[relations.team]\ncloze = "The team of {} is"\n[relations.site]\ncloze = "The site of {} is"\n'
    )
    path = tmp_path / "facts.toml"
    path.write_text('[[facts]]\nprompt = "The team of {} is"\nsubject = "Ann"\ntarget = "Blue"\n')
    words = ("--graph", tmp_path / "graph.csv", "--relations", tmp_path / "words.toml", "--json")
    assert ke("facts", "expand", path, *words) == 0
    (test,) = loads(capsys.readouterr().out)["tests"]
    assert (test["criterion"], test["prompt"], test["expect"]) == (
        "compositionality-1", "The site of the team of Ann is", ["Rome"],
    )  # fmt: skip


def test_a_test_that_contradicts_the_file_is_refused_before_writing(path: Path) -> None:
    wrong = ProposedTest(
        fact=1, criterion="relation-specificity", prompt="The capital of Peru is", expect=("Lima",), wrong=()
    )
    with pytest.raises(BadData):
        write_proposals(read_facts(path), [wrong], "atlas")
    assert path.read_text() == FACTS


def test_a_file_that_changed_meanwhile_is_refused(path: Path) -> None:
    found = read_facts(path)
    test = ProposedTest(fact=1, criterion="preservation", prompt="Chile is", expect=("long",), wrong=())
    inserted = f'[[facts]]\nprompt = "The capital of {{}} is"\nsubject = "Japan"\ntarget = "Kyoto"\n{FACTS}'
    path.write_text(inserted)
    with pytest.raises(BadData, match="was changed while the tests were proposed"):
        write_proposals(found, [test], "atlas")
    assert path.read_text() == inserted
    path.write_text(f"# only a comment\n{FACTS}")
    assert write_proposals(found, [test], "atlas") == (1, 0)
    assert "# only a comment" in path.read_text()


def test_other_formats_are_refused_before_the_model_is_asked(
    tmp_path: Path, ke: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ke_plugin_facts.expanding.only_recalled", lambda *_a: pytest.fail("asked the model"))
    lines = tmp_path / "facts.jsonl"
    lines.write_text('{"prompt": "The capital of {} is", "subject": "Peru", "target": "Cusco"}\n')
    assert ke("facts", "expand", lines, "--graph", "atlas", "--recalled", "--model", "m") == 2
    assert "is not a TOML file" in capsys.readouterr().err
    assert ke("facts", "expand", lines, "--graph", "atlas", "--model", "m") == 2
    assert "--model is only used with --recalled" in capsys.readouterr().err
