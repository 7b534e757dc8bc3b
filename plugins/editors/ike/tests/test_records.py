"""Records of demonstrations, exclusion of edited subjects, and caching."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from attrs import evolve

from ke_core.plugin import BadData, Cloze, Edit
from ke_core.spec.errors import DamagedArtifact
from ke_plugin_ike import IkeConfig
from ke_plugin_ike import corpus as corpora
from ke_plugin_ike import editor as editors
from ke_plugin_ike import subject_filter as filters
from ke_plugin_ike.corpus import DemonstrationCorpus
from ke_plugin_ike.editor import Ike
from ke_plugin_ike.records import read_records
from ke_plugin_ike.subject_filter import SubjectFilter
from ke_testing.examples import MOVE_TOWER, city_edit, question
from ke_testing.fakes import EchoModel, ScriptedModel, WordEncoder, make_session

ROOT = Path(__file__).parents[4]
OURS = read_records("own")
GOOD = {
    "subject": "Hamlet",
    "prompt": "The author of Hamlet is",
    "object": "Jane Austen",
    "paraphrases": ["Who wrote Hamlet?"],
    "neighbors": [{"prompt": "The author of Faust is", "object": "Goethe"}],
}


def written(path: Path, *records: object) -> str:
    file = path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return str(file)


def corpus(records=OURS) -> DemonstrationCorpus:
    session = make_session(EchoModel())
    return DemonstrationCorpus(records=records, encoder=session.encoder(""), artifacts=session.artifacts)


def filter_of(free: DemonstrationCorpus, *edits: Edit) -> SubjectFilter:
    """Return the filter with these active edits."""
    found = SubjectFilter(free)
    found.change(add=edits)
    return found


def about(subject: str, statement: str = "") -> Edit:
    """Return an edit of ``subject``, or one with a statement only."""
    if statement:
        return Edit(id=statement, statement=statement)
    return Edit(id=subject, statement=f"{subject} is new", cloze=Cloze(template="{} is", subject=subject))


def records_left(free: DemonstrationCorpus, edits: list[Edit]) -> set[int]:
    """Return the records that can still be demonstrated."""
    excluded = filter_of(free, *edits).ids
    return {each.record for name, each in free.demonstrations.items() if name not in excluded}


# --- records ------------------------------------------------------------------------------------------------


def test_own_records_are_enough_and_change_their_facts() -> None:
    assert len(OURS) >= 4 * 32
    facts = {record.fact for record in OURS}
    assert len(facts) == len(OURS)
    for record in OURS:
        assert record.subject.casefold() in record.prompt.casefold()
        assert all(f"{prompt} {object_}" not in facts for prompt, object_ in record.neighbors)


@pytest.mark.skipif(not (ROOT / "scripts").is_dir(), reason="the script is in the repository")
def test_own_records_equal_the_output_of_the_script(tmp_path) -> None:
    out = tmp_path / "made.jsonl"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts/build_ike_demonstrations.py"), str(out)], check=True, timeout=120
    )
    assert read_records(str(out)) == OURS


def test_records_are_read_from_a_file(tmp_path) -> None:
    model = ScriptedModel(["Rome"])
    config = IkeConfig(demonstrations=written(tmp_path, {**GOOD, "case_id": 7}))
    with Ike(config=config).edit(make_session(model), [MOVE_TOWER]) as after:
        after.answer([question("Where?")])
        assert after.details["records_free"] == 1
    first, *_rest = model.prompts[0].split("\n\n")
    assert first.startswith("Update: The author of Hamlet is Jane Austen\nText: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subject": None}, "line 2: subject"),
        ({"prompt": " "}, "line 2: prompt"),
        ({"object": 7}, "line 2: object"),
        ({"paraphrases": []}, "line 2: paraphrases"),
        ({"paraphrases": [""]}, "line 2: paraphrases"),
        ({"paraphrases": "Who?"}, "line 2: paraphrases"),
        ({"neighbors": []}, "line 2: neighbors"),
        ({"neighbors": ["x"]}, "line 2, neighbors: prompt"),
        ({"neighbors": [{"prompt": "x is"}]}, "line 2, neighbors: object"),
    ],
)
def test_invalid_record_is_named_by_line_and_field(tmp_path, changes, message) -> None:
    with pytest.raises(BadData, match=message):
        read_records(written(tmp_path, GOOD, GOOD | changes))


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xff\xfe", b"{", b"[1]", b'"text"', b"7", b"[" * 100_000])
def test_file_without_records_is_refused(tmp_path, content) -> None:
    file = tmp_path / "mine.jsonl"
    if content is not None:
        file.write_bytes(content)
    config = IkeConfig(demonstrations=str(file))
    with pytest.raises(BadData, match=r"mine\.jsonl"), Ike(config=config).edit(make_session(EchoModel()), []):
        pass


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
@pytest.mark.parametrize("between", ["\u2028", "\u0085", "\x0b", " "], ids=ascii)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=ascii)
def test_only_a_line_feed_ends_a_record(tmp_path, mark, between, end) -> None:
    """JSON strings may contain other line breaks, and some editors write a byte order mark."""
    said = json.dumps(GOOD | {"object": f"Jane{between}Austen"}, ensure_ascii=between < " ")
    file = tmp_path / "mine.jsonl"
    file.write_bytes(f"{mark}{said}{end}{said}{end}".encode())
    assert [record.object for record in read_records(str(file))] == ["Jane Austen"] * 2
    file.write_bytes(f"{mark}{said}{end}7{end}".encode())
    with pytest.raises(BadData, match="line 2: subject"):
        read_records(str(file))


def test_line_breaks_in_a_record_are_replaced(tmp_path) -> None:
    (record,) = read_records(written(tmp_path, GOOD | {"object": "Jane\n\nAusten"}))
    assert record.object == "Jane Austen"


# --- never the evaluated edits ------------------------------------------------------------------------------


@pytest.mark.parametrize("edit", [about("Norway"), about("NORWAY")])
def test_demonstrations_never_name_an_edited_subject(edit) -> None:
    free = corpus()
    excluded = filter_of(free, edit).ids
    for name, each in free.demonstrations.items():
        assert name in excluded or "Norway" not in f"{each.fact} {each.prompt} {each.answer}"
    assert excluded != frozenset(free.demonstrations)


def test_demonstrations_never_repeat_an_edit_without_a_subject() -> None:
    free = corpus()
    excluded = filter_of(free, about("", "The capital of Norway is Lima")).ids
    kept = [each for name, each in free.demonstrations.items() if name not in excluded]
    assert excluded
    assert not any("The capital of Norway" in f"{each.fact} {each.prompt}" for each in kept)


def test_name_inside_a_word_excludes_nothing() -> None:
    free = corpus()
    assert filter_of(free, about("Nor"), about("Egy")).ids == frozenset()


def test_aliases_of_a_subject_exclude() -> None:
    from ke_core.plugin import Entity

    free = corpus()
    aliased = city_edit(Entity(label="Kingdom of Norway", aliases=("Norway",)), Entity(label="a"), Entity(label="b"))
    assert filter_of(free, aliased).ids


def test_record_without_a_retain_demonstration_is_excluded(tmp_path) -> None:
    free = corpus(read_records(written(tmp_path, GOOD)))
    assert filter_of(free, about("Faust")).ids == frozenset(free.demonstrations)
    assert filter_of(free, about("Macbeth")).ids == frozenset()


def test_excluded_record_returns_when_the_edit_is_removed() -> None:
    model = ScriptedModel(lambda _prompt: "Rome")
    norway = about("Norway")
    with Ike(config=IkeConfig(k=500)).edit(make_session(model), [MOVE_TOWER]) as after:
        every = after.details["records_free"]
        after.change(add=[norway])
        fewer = after.details["records_free"]
        after.answer([question("Where?")])
        after.change(remove=[norway.id])
        assert after.details["records_free"] == every > fewer
    assert "of Norway" not in model.prompts[0]


def test_changes_equal_a_filter_of_all_active_edits() -> None:
    free = corpus()
    edits = [about("Norway"), about("", "The capital of Norway is Lima"), about("Egypt"), about("", "Egypt is Peru")]
    one_by_one = filter_of(free)
    for edit in edits:
        one_by_one.change(add=[edit])
    assert one_by_one.ids == filter_of(free, *edits).ids > filter_of(free, *edits[:2]).ids
    one_by_one.change(remove=[edits[0].id, edits[3].id, "not there"], add=[about("Macbeth")])
    assert one_by_one.ids == filter_of(free, edits[1], edits[2], about("Macbeth")).ids
    one_by_one.change(remove=[edit.id for edit in edits])
    assert one_by_one.ids == filter_of(free, about("Macbeth")).ids


def test_reused_id_excludes_for_its_new_edit() -> None:
    free = corpus()
    kept = filter_of(free, Edit(id="1", statement="The capital of Norway is Lima"))
    kept.change(remove=["1"], add=[Edit(id="1", statement="The capital of Egypt is Lima")])
    assert kept.ids == filter_of(free, about("", "The capital of Egypt is Lima")).ids != frozenset()


def test_change_processes_only_new_edits(monkeypatch) -> None:
    free = corpus()
    many = filter_of(free, *(about("", f"The head of office {number} is Ms {number}") for number in range(500)))
    read = []
    for module in (filters, corpora):
        monkeypatch.setattr(module, "plain", lambda text: read.append(text) or f" {text} ")
    many.change(add=[about("", "Water is dry")], remove=["The head of office 7 is Ms 7"])
    assert read == ["Water is dry"]


def test_prompt_without_usable_records_has_only_the_facts(tmp_path) -> None:
    model = ScriptedModel(["Rome"])
    hamlet = about("Hamlet")
    with Ike(config=IkeConfig(demonstrations=written(tmp_path, GOOD))).edit(make_session(model), [hamlet]) as after:
        after.answer([question("Who?")])
    assert model.prompts[0] == "Update: Hamlet is new\nText: Hamlet is new\n\nUpdate: Hamlet is new\nText: Who?"


def test_most_records_remain_with_all_edits_of_atlas() -> None:
    """No demonstrated subject is edited, only some objects of their neighbors."""
    atlas = pytest.importorskip("ke_plugin_atlas.dataset")
    edits = [edit for case in atlas.Atlas(atlas.AtlasConfig()).cases() for edit in case.edits]
    free = corpus()
    edited = {edit.cloze.subject for edit in edits}
    assert not edited & {record.subject.removeprefix("the ") for record in OURS}
    assert len(records_left(free, edits)) >= 150


def test_enough_records_remain_with_all_edits_of_mquake(ke_data_dir: Path) -> None:
    file = ke_data_dir / "mquake" / "MQuAKE-CF-3k.json"
    if not file.is_file():
        pytest.skip("no mquake/MQuAKE-CF-3k.json")
    raw = json.loads(file.read_text(encoding="utf-8"))
    subjects = {rewrite["subject"] for case in raw for rewrite in case["requested_rewrite"]}
    assert len(records_left(corpus(), [about(subject) for subject in sorted(subjects)])) >= 32


# --- embedded once ------------------------------------------------------------------------------------------


class CountingEncoder(WordEncoder):
    """An encoder that counts its texts."""

    texts = 0

    def embed(self, texts):
        self.texts += len(texts)
        return super().embed(texts)


@pytest.mark.parametrize("damage", [False, True])
def test_demonstrations_are_embedded_once(tmp_path, damage) -> None:
    encoder = CountingEncoder()
    for _again in range(3):
        session = make_session(EchoModel(), encoder=encoder, root=tmp_path)
        with pytest.warns(DamagedArtifact) if damage and encoder.texts else nullcontext():
            DemonstrationCorpus(records=OURS, encoder=encoder, artifacts=session.artifacts)
        if damage:
            for path in tmp_path.rglob("*.safetensors"):
                path.write_bytes(b"no")
    assert encoder.texts == (3 if damage else 1) * sum(2 + len(r.paraphrases) + len(r.neighbors) - 1 for r in OURS)


def test_groups_of_edits_share_one_corpus(tmp_path, monkeypatch) -> None:
    made, indexed = [], []
    monkeypatch.setattr(
        editors, "DemonstrationCorpus", lambda **given: made.append(given) or DemonstrationCorpus(**given)
    )
    monkeypatch.setattr(corpora, "plain", lambda text, plain=corpora.plain: indexed.append(text) or plain(text))
    config = IkeConfig(demonstrations=written(tmp_path, GOOD, GOOD | {"subject": "Faust"}))
    editor, session = Ike(config=config), make_session(EchoModel())
    editor.check(session, ())
    with editor.edit(session, [about("Hamlet")]) as one:
        once = len(indexed)
        with editor.edit(session, [about("Norway")]) as two, editor.edit(session, []) as three:
            assert one.context.corpus is two.context.corpus is three.context.corpus
            assert (one.subject_filter.ids, two.subject_filter.ids) == (
                frozenset(one.context.corpus.demonstrations),
                frozenset(),
            )
            assert [each.details["records_free"] for each in (one, two, three)] == [0, 2, 2]
            assert len(indexed) == once > 0
    assert len(made) == 1


def test_other_encoder_or_changed_file_is_detected(tmp_path) -> None:
    editor, session = Ike(config=IkeConfig(demonstrations=written(tmp_path, GOOD))), make_session(EchoModel())
    with editor.edit(session, []) as one, editor.edit(evolve(session, encoder=lambda _name: WordEncoder(8)), []) as two:
        assert two.context.corpus.memory.encoder.id != one.context.corpus.memory.encoder.id
    written(tmp_path, GOOD, GOOD | {"object": "Mary Shelley"})
    with editor.edit(session, []) as three:
        assert [record.object for record in three.context.corpus.records] == ["Jane Austen", "Mary Shelley"]
    (tmp_path / "mine.jsonl").unlink()
    with pytest.raises(BadData, match="cannot be read"):
        editor.edit(session, [])
