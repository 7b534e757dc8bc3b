"""A published file is read record by record, strictly, and in memory for one record."""

from __future__ import annotations

import json
import tracemalloc
from itertools import islice

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from ke_benchmarks import has_label, not_blank, some_not_blank
from ke_benchmarks.files import records as stream
from ke_benchmarks.files.records import json_values, read_records
from ke_core.plugin import BadData, loads, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@frozen(kw_only=True)
class Thing:
    id: str = field(validator=not_blank)
    labels: tuple[str, ...] = field(validator=some_not_blank)
    weight: float = 1.0
    note: str | None = None
    parts: dict[str, tuple[int, ...]] = field(factory=dict)
    main: str = field(default="x", validator=has_label)


def thing(name="a", **more):
    return {"id": name, "labels": ["A"], **more}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def refused(path, **how) -> str:
    with pytest.raises(BadData) as caught:
        list(read_records(path, Thing, key="id", **how))
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return str(caught.value).removeprefix(str(path))


@given(values=st.lists(VALUES, max_size=6), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_any_list_is_read_as_the_whole_text_is_however_it_is_cut_into_pieces(
    tmp_path_factory, values, indent, ascii_only
) -> None:
    path = tmp_path_factory.mktemp("any") / "list.json"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=ascii_only), encoding="utf-8", errors="ignore")
    expected = loads(path.read_bytes())
    for piece in (1, 2, 7, 1 << 16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stream, "PIECE", piece)
            assert list(json_values(path)) == expected


@given(text=st.text(alphabet='[]{}",:0123456789eE+-. \n\\utrufalsnNI', max_size=24))
def test_what_the_reader_of_whole_texts_refuses_is_refused_and_nothing_else(tmp_path_factory, text) -> None:
    path = write(tmp_path_factory.mktemp("odd") / "odd.json", f"[{text}".encode())
    try:
        expected = loads(f"[{text}")
    except ValueError:
        with pytest.raises(BadData):
            list(json_values(path))
    else:
        assert list(json_values(path)) == expected


def test_one_record_a_line_is_read_where_a_family_says_so(tmp_path) -> None:
    lines = "".join(json.dumps(thing(name)) + "\n" for name in "abc").encode()
    path = write(tmp_path / "lines.json", lines)
    assert [one.id for one in read_records(path, Thing, key="id", lines=True)] == ["a", "b", "c"]
    assert refused(path) == " contains an object, not a list of cases"


def test_a_byte_order_mark_is_no_content(tmp_path) -> None:
    path = write(tmp_path / "bom.json", b"\xef\xbb\xbf" + json.dumps([thing()]).encode())
    assert len(list(read_records(path, Thing, key="id"))) == 1


def test_line_and_column_are_those_of_the_whole_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(stream, "PIECE", 16)
    text = json.dumps([thing(name) for name in "abcdef"], indent=1)
    damaged = text.replace('"f"', "oops")
    with pytest.raises(json.JSONDecodeError) as known:
        json.loads(damaged)
    where = f"(line {known.value.lineno}, column {known.value.colno})"
    assert refused(write(tmp_path / "damaged.json", damaged.encode())) == f" is not JSON {where}"


def test_records_before_the_damage_are_given_out(tmp_path) -> None:
    whole = json.dumps([thing(name) for name in "abc"]).encode()
    path = write(tmp_path / "cut.json", whole[:-10])
    assert [one.id for one in islice(read_records(path, Thing, key="id"), 2)] == ["a", "b"]
    assert " is cut off (line 1, column " in refused(path)


def test_a_damaged_record_at_the_front_does_not_read_the_rest(tmp_path, monkeypatch) -> None:
    path = write(tmp_path / "front.json", b'[{"id": oops}, ' + b'"x", ' * 400_000 + b'"x"]')
    read = []
    monkeypatch.setattr(
        stream.JsonStreamReader, "_read", lambda self, old=stream.JsonStreamReader._read: (read.append(1), old(self))[1]
    )
    assert " is not JSON (line 1, column 9)" in refused(path)
    assert len(read) == 1


@pytest.mark.parametrize(("item", "said_"), [
    (thing(labels=[]), "case a: labels is empty"),
    (thing(labels=["A", " "]), "case a: one of labels is blank"),
    (thing(labels="A"), "case a: labels: must be a list, not a text"),
    (thing(weight="1"), "case a: weight: must be a number, not a text"),
    (thing(weight=True), "case a: weight: must be a number, not true or false"),
    (thing(note=3), "case a: note: must be a text, not a whole number"),
    (thing(parts=[]), "case a: parts: must be an object, not a list"),
    (thing(parts={"k": ["1"]}), "must be a whole number, not a text"),
    (thing(main="Q969340"), "case a: main is Q969340: no label, only its Wikidata id"),
    ({"id": 3, "labels": ["A"]}, "record 2: id: must be a text, not a whole number"),
    (thing("b"), "record 2: id: b occurs twice"),
])  # fmt: skip
def test_a_wrong_record_is_named_with_its_field(tmp_path, item, said_) -> None:
    assert said_ in refused(write(tmp_path / "wrong.json", [thing("b"), item]))


def test_values_of_the_right_types_are_kept_as_they_are(tmp_path) -> None:
    item = thing(weight=0.5, note=None, parts={"k": [1, 2]}, main="Q1", unknown={"left": "alone"})
    (found,) = read_records(write(tmp_path / "good.json", [item]), Thing, key="id")
    assert found == Thing(id="a", labels=("A",), weight=0.5, parts={"k": (1, 2)}, main="Q1")


def test_a_whole_number_is_a_number(tmp_path) -> None:
    (found,) = read_records(write(tmp_path / "number.json", [thing(weight=2)]), Thing, key="id")
    assert found.weight == 2


def test_a_small_file_is_parsed_at_once(tmp_path) -> None:
    assert parse_json(b'{"a": [1]}', tmp_path / "small.json") == {"a": [1]}
    with pytest.raises(BadData, match=r"small\.json is cut off \(column 2\)"):
        parse_json(b"{ ", tmp_path / "small.json")


@pytest.fixture(scope="module")
def hundred_megabytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("big") / "big.json"
    record = json.dumps(thing("NAME", note="n" * 4000))
    with path.open("w") as out:
        out.write("[")
        for number in range(25_000):
            out.write((",\n" if number else "") + record.replace("NAME", f"t{number}"))
        out.write("]")
    assert path.stat().st_size > 100_000_000
    yield path
    path.unlink()


def test_the_first_records_of_a_file_of_100_mb_take_little_memory(hundred_megabytes) -> None:
    tracemalloc.start()
    first = list(islice(read_records(hundred_megabytes, Thing, key="id"), 3))
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.id for one in first] == ["t0", "t1", "t2"]
    assert peak < 4_000_000


def test_a_file_of_100_mb_is_gone_through_in_memory_for_a_few_records(hundred_megabytes) -> None:
    tracemalloc.start()
    assert sum(1 for _ in json_values(hundred_megabytes)) == 25_000
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


@frozen(kw_only=True)
class Renamed:
    id: str
    parts: tuple[str, ...] = field(default=(), metadata={"key": "2nd-parts"})


def test_a_field_may_have_another_name_in_the_file(tmp_path) -> None:
    path = write(tmp_path / "renamed.json", [{"id": "a", "2nd-parts": ["x"]}, {"id": "b", "parts": ["y"]}])
    assert [one.parts for one in read_records(path, Renamed, key="id")] == [("x",), ()]
