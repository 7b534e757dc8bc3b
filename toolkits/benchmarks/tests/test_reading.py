"""Records of a published file are read strictly: no value is converted to another type."""

from __future__ import annotations

import json

import pytest
from attrs import field, frozen

from ke_benchmarks import has_label, not_blank, some_not_blank
from ke_benchmarks.files.records import read_records
from ke_core.plugin import BadData, parse_json


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


def test_json_lines_are_read_if_enabled(tmp_path) -> None:
    lines = "".join(json.dumps(thing(name)) + "\n" for name in "abc").encode()
    path = write(tmp_path / "lines.json", lines)
    assert [one.id for one in read_records(path, Thing, key="id", lines=True)] == ["a", "b", "c"]
    assert refused(path) == " is not JSON: extra data (line 2, column 1)"


@pytest.mark.parametrize(("content", "message"), [
    (b'[{"id": oops}]', " is not JSON: expecting value (column 9)"),
    (b'[\n{"id": "a", "labels": ["A"]},\n{"id', " is cut off (line 3, column 2)"),
    (b"", " is empty"),
    (b"{}", " contains an object, not a list of cases"),
    (b"[]", " contains no case"),
])  # fmt: skip
def test_invalid_file_is_reported_with_the_position(tmp_path, content, message) -> None:
    assert refused(write(tmp_path / "invalid.json", content)) == message


def test_invalid_json_line_is_reported_with_its_number(tmp_path) -> None:
    path = write(tmp_path / "lines.json", b'{"id": "a", "labels": ["A"]}\n{"id"')
    assert refused(path, lines=True) == ", line 2 is cut off (column 6)"


def test_byte_order_mark_is_ignored(tmp_path) -> None:
    path = write(tmp_path / "bom.json", b"\xef\xbb\xbf" + json.dumps([thing()]).encode())
    assert len(list(read_records(path, Thing, key="id"))) == 1


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
def test_invalid_record_error_names_the_field(tmp_path, item, said_) -> None:
    assert said_ in refused(write(tmp_path / "wrong.json", [thing("b"), item]))


def test_valid_values_are_unchanged(tmp_path) -> None:
    item = thing(weight=0.5, note=None, parts={"k": [1, 2]}, main="Q1", unknown={"left": "alone"})
    (found,) = read_records(write(tmp_path / "good.json", [item]), Thing, key="id")
    assert found == Thing(id="a", labels=("A",), weight=0.5, parts={"k": (1, 2)}, main="Q1")


def test_integer_is_accepted_as_a_number(tmp_path) -> None:
    (found,) = read_records(write(tmp_path / "number.json", [thing(weight=2)]), Thing, key="id")
    assert found.weight == 2


def test_parse_json_reports_a_truncated_file(tmp_path) -> None:
    assert parse_json(b'{"a": [1]}', tmp_path / "small.json") == {"a": [1]}
    with pytest.raises(BadData, match=r"small\.json is cut off \(column 2\)"):
        parse_json(b"{ ", tmp_path / "small.json")


@frozen(kw_only=True)
class Renamed:
    id: str
    parts: tuple[str, ...] = field(default=(), metadata={"key": "2nd-parts"})


def test_field_can_have_another_name_in_the_file(tmp_path) -> None:
    path = write(tmp_path / "renamed.json", [{"id": "a", "2nd-parts": ["x"]}, {"id": "b", "parts": ["y"]}])
    assert [one.parts for one in read_records(path, Renamed, key="id")] == [("x",), ()]
