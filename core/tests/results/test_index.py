"""Which lines of a record count, and where they stand."""

import pytest

from ke_core.results.index import Index, key_of
from ke_core.results.lines import to_line
from ke_core.results.tally import tally
from ke_core.spec.errors import BadRun
from ke_core.spec.records import Batch, Judged, Probed, Replied, Usage
from ke_core.spec.results import Answer, Failure, Judgment, Verdict
from ke_core.spec.runspec import Component

ONE, OTHER = (Component(name=name, distribution="d", version="1") for name in ("one", "other"))
BATCH = Batch(batch="batch-1", cases=("1",), controls=("2",), edits=1, skipped={"3": "no subject"}, details={"a": 1})


def replied(case, text, phase="after", batch="batch-1"):
    reply = Answer(text=text) if text else Failure(error="ServerDown", message="")
    return Replied(batch=batch, case=case, phase=phase, style="direct", replies={"q": reply})


def judged(case, judge, verdict=Verdict.RIGHT, phase="after", batch="batch-1"):
    said = {"q": Judgment(verdict=verdict)}
    return Judged(batch=batch, case=case, phase=phase, style="direct", judge=judge, judgments=said)


@pytest.fixture
def index(tmp_path):
    """Makes the index of a file of records."""

    def made(*records):
        file = tmp_path / "records.jsonl"
        file.write_bytes(b"".join(map(to_line, records)))
        return Index.of(file)

    return made


def texts(lines):
    return [(line.phase, line.replies["q"].text) for line in lines]


def test_later_line_of_a_place_replaces_the_earlier_one(index):
    found = index(
        replied("1", "old", "before", "base"), BATCH, replied("1", "new"), replied("1", "newer", "before", "base")
    )
    assert texts(found.replies("1")) == [("before", "newer"), ("after", "new")]
    assert found.count() == 2
    assert found.replies("9") == []


def test_repeated_request_counts_once_with_its_last_reply(index):
    found = tally(index(BATCH, replied("1", ""), replied("1", "x")).records())
    assert (found.failed, found.answers) == (0, 1)


def test_judgment_of_an_earlier_reply_is_ignored(index):
    found = index(BATCH, replied("1", ""), judged("1", ONE, Verdict.WRONG), replied("1", "x"))
    assert found.judgments("1", key_of(ONE)) == {}
    assert texts(found.unjudged("1", key_of(ONE))) == [("after", "x")]
    assert found.count(key_of(ONE)) == found.count(key_of(OTHER)) == 1
    again = index(BATCH, replied("1", ""), judged("1", ONE, Verdict.WRONG), replied("1", "x"), judged("1", ONE))
    (said,) = again.judgments("1", key_of(ONE)).values()
    assert said.judgments["q"].verdict is Verdict.RIGHT
    assert again.unjudged("1", key_of(ONE)) == []


def test_judges_are_in_the_order_of_their_last_line(index):
    found = index(BATCH, replied("1", "x"), judged("1", ONE), judged("1", OTHER), judged("1", ONE))
    assert [*found.judges.values()] == [OTHER, ONE]
    assert found.last(key_of(OTHER)) == judged("1", OTHER)


def test_within_returns_batches_and_whether_the_case_is_edited(index):
    found = index(BATCH, Batch(batch="batch-2", step=2, cases=("2",), edits=1))
    assert [(batch.batch, edited) for batch, edited in found.within("2")] == [("batch-1", False), ("batch-2", True)]
    assert [(batch.batch, edited) for batch, edited in found.within("3")] == [("batch-1", True)]
    assert found.within("1")[0][0].details == {}
    assert [*found.cases] == ["1", "2", "3"]


def test_records_yields_every_record_that_counts(index):
    probed = Probed(batch="batch-1", metric="m", phase="after", replies={"q": Answer(text="a")})
    spent = Usage(id="s", requests=2)
    found = index(BATCH, replied("1", "a"), spent, probed, judged("1", ONE), judged("1", OTHER))
    kinds = [type(record) for record in found.records()]
    assert kinds == [Batch, Usage, Probed, Replied, Judged]
    assert found.probed("batch-1", "m") == probed
    assert found.probed("batch-1", "other") is None


@pytest.mark.parametrize("line", [b'{"kind":"replied","schema":1,"batch":"b"}\n', b"{not\n", b'{"kind":"other"}\n'])
def test_index_names_a_damaged_line(index, line):
    file = index(BATCH, replied("1", "a")).file
    file.write_bytes(file.read_bytes() + line)
    with pytest.raises(BadRun, match="line 3"):
        Index.of(file)


def test_line_with_a_wrong_field_is_named_when_it_is_read(index):
    made = index(BATCH, replied("1", "a"))
    made.file.write_bytes(made.file.read_bytes().replace(b'"text"', b'"txet"'))
    with pytest.raises(BadRun, match="line 2"):
        made.replies("1")
