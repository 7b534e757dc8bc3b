"""Files of cases preserve every valid case, and errors name the position."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ke_benchmarks.files.cases import CaseHeader, read_cases, read_header, scan_cases, write_cases
from ke_core.spec.errors import BadData
from ke_core.spec.facts import Entity
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_testing import strategies as ours
from ke_testing.toy import Toy

CASES = tuple(Toy().cases())
HEADER = CaseHeader(name="toy", cases=2)


def written(path: Path, header: CaseHeader = HEADER, cases: tuple[Case, ...] = CASES) -> Path:
    write_cases(path, header, cases)
    return path


def raw(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def dumped(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases=st.lists(ours.cases, max_size=2))
def test_cases_round_trip(tmp_path_factory: pytest.TempPathFactory, cases: list[Case]) -> None:
    path = tmp_path_factory.mktemp("cases") / "any.jsonl"
    write_cases(path, CaseHeader(name="any", cases=len(cases)), cases)
    assert list(read_cases(path)) == cases
    assert len(path.read_bytes().splitlines(keepends=True)) >= 1 + len(cases)


def test_header_round_trips(tmp_path: Path) -> None:
    header = CaseHeader(
        name="toy", title="Toy", license="CC0-1.0", source="here", cite="nobody", styles=("direct",),
        aspects=("efficacy",), judge="alias", metrics=("multi-hop",), cases=2, sha256="0" * 64,
    )  # fmt: skip
    assert read_header(written(tmp_path / "f", header)) == header


def test_format_and_schema_are_always_written(tmp_path: Path) -> None:
    assert raw(written(tmp_path / "f"))[0] == {"format": "ke-cases", "schema": 1, "name": "toy", "cases": 2}


def test_default_values_are_omitted(tmp_path: Path) -> None:
    first = raw(written(tmp_path / "f"))[1]
    assert "aliases" not in first["facts_after"][1]["objects"][0]
    assert "given" not in first["probes"][0]


def test_minimal_file_is_read(tmp_path: Path) -> None:
    query = {"id": "q", "texts": ["Who?"], "gold": {"entities": [{"label": "Ann"}]}}
    probe = {"id": "p", "aspect": "x", "queries": [query]}
    path = dumped(tmp_path / "f", [{"format": "ke-cases", "name": "mine"}, {"id": "1", "probes": [probe]}])
    asked = Query(id="q", texts=("Who?",), gold=Gold(entities=(Entity(label="Ann"),)))
    assert list(read_cases(path)) == [Case(id="1", probes=(Probe(id="p", aspect="x", queries=(asked,)),))]


def test_byte_order_mark_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    path = written(tmp_path / "f")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert tuple(read_cases(path)) == CASES


def test_line_separator_in_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    gold = Gold(entities=(Entity(label="a\u2028b\u0085c\x0bd"),))
    case = Case(id="1", probes=(Probe(id="p", aspect="x", queries=(Query(id="q", texts=("?",), gold=gold),)),))
    assert tuple(read_cases(written(tmp_path / "f", HEADER, (case, case)))) == (case, case)


def test_lone_surrogate_is_rejected_and_no_file_remains(tmp_path: Path) -> None:
    gold = Gold(entities=(Entity(label="\ud83d"),))
    case = Case(id="7", probes=(Probe(id="p", aspect="x", queries=(Query(id="q", texts=("?",), gold=gold),)),))
    with pytest.raises(BadData, match="case 7 cannot be written in UTF-8"):
        write_cases(tmp_path / "f", HEADER, (case,))
    assert list(tmp_path.iterdir()) == []


def test_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path / "f")

    def breaking() -> Any:
        yield CASES[0]
        raise KeyboardInterrupt

    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_cases(path, HEADER, breaking())
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [before]


def spoil(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    made = copy.deepcopy(GOOD)
    change(made)
    return made


GOOD: dict[str, Any] = {
    "id": "1",
    "edits": [{"id": "e", "statement": "s", "cloze": {"template": "{} is", "subject": "x"}}],
    "probes": [
        {
            "id": "p",
            "aspect": "efficacy",
            "queries": [{"id": "q", "texts": ["?"], "gold": {"entities": [{"label": "Ann"}]}, "hops": []}],
        }
    ],
}
WRONG: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda case: case.update(id=5), "line 2: id: must be a text, not a whole number"),
    (lambda case: case.update(id=""), "line 2: id is empty"),
    (lambda case: case.pop("probes"), "line 2 (case 1): probes: missing"),
    (lambda case: case.update(probes=[]), "line 2 (case 1): probes is empty"),
    (lambda case: case.update(probs=[]), "line 2 (case 1): unknown field 'probs'; did you mean 'probes'?"),
    (lambda case: case.update(edits=None), "line 2 (case 1): edits: must be a list, not null"),
    (lambda case: case.update(tags={"hops": 2}), "line 2 (case 1): tags['hops']: must be a text, not a whole number"),
    (lambda case: case.update(tags=[]), "line 2 (case 1): tags: must be an object, not a list"),
    (lambda case: case["probes"][0].update(require="some"), "probes[0].require: must be one of all, any"),
    (lambda case: case["probes"][0].update(queries="q"), "probes[0].queries: must be a list, not a text"),
    (lambda case: case["probes"][0]["queries"][0].update(texts="abc"), "queries[0].texts: must be a list, not a text"),
    (
        lambda case: case["probes"][0]["queries"][0].update(pre_edit=1),
        "pre_edit: must be an object, not a whole number",
    ),
    (
        lambda case: case["probes"][0]["queries"][0]["gold"]["entities"][0].update(lable="Bob"),
        "line 2 (case 1): probes[0].queries[0].gold.entities[0]: unknown field 'lable'; did you mean 'label'?",
    ),
    (lambda case: case["edits"][0]["cloze"].update(template="x"), "edits[0].cloze: template needs exactly one {}: 'x'"),
]


@pytest.mark.parametrize(("change", "what"), WRONG, ids=[what for _change, what in WRONG])
def test_invalid_field_error_names_file_line_and_field(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], what: str
) -> None:
    path = dumped(tmp_path / "f.jsonl", [{"format": "ke-cases", "name": "mine"}, spoil(change)])
    with pytest.raises(BadData) as wrong:
        list(read_cases(path))
    assert str(wrong.value).startswith(f"{path}, line 2")
    assert what in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert wrong.value.hint


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"id": "1"\n', "line 2 is cut off (column 11)"),
        (b'{"id": "1", "pro', "line 2 is cut off (column 13)"),
        (b"[1, 2]\n", "line 2: must be an object, not a list"),
        (b'{"id": "\xff"}\n', "line 2 is not JSON: byte 8 is not valid UTF-8"),
        (b"[" * 100_000 + b"\n", "line 2 is not JSON: it is nested more than 100 levels deep"),
    ],
)
def test_invalid_line_is_reported(tmp_path: Path, line: bytes, what: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"format": "ke-cases", "name": "mine"}\n' + line)
    with pytest.raises(BadData) as wrong:
        list(read_cases(path))
    assert what in str(wrong.value)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("", "is empty"),
        ("{}", "is not a file of cases: its first line is not a header"),
        ('{"id": "1", "probes": []}', "is not a file of cases"),
        ('[{"case_id": 1}]', "is not a file of cases"),
        ('{"format": "ke-cases", "name": "x", "schema": 2}', "line 1: schema is 2, but this version of ke reads 1"),
        ('{"format": "ke-cases", "name": "x", "schema": "1"}', "line 1: schema: must be a whole number, not a text"),
        ('{"format": "ke-cases"}', "line 1: name: missing"),
        (
            '{"format": "ke-cases", "name": "x", "licens": "MIT"}',
            "line 1: unknown field 'licens'; did you mean 'license'?",
        ),
        ("not json", "line 1 is not JSON: expecting value (column 1)"),
    ],
)
def test_invalid_header_error_shows_a_valid_one(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "f"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(BadData) as wrong:
        read_header(path)
    assert what in str(wrong.value)
    assert '{"format": "ke-cases", "schema": 1, "name": "..."}' in wrong.value.hint


def test_missing_file_gives_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"cannot read .*: no such file"):
        list(read_cases(tmp_path / "f"))


def test_missing_lines_are_detected(tmp_path: Path) -> None:
    path = written(tmp_path / "f")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    found = read_cases(path)
    assert next(found) == CASES[0]
    with pytest.raises(BadData, match="contains 1 cases, but its header states 2"):
        next(found)


def test_scan_continues_after_an_invalid_line(tmp_path: Path) -> None:
    lines = raw(written(tmp_path / "f"))
    path = dumped(tmp_path / "g", [{**lines[0], "cases": 3}, lines[1], {"id": "x"}, lines[2]])
    found = list(scan_cases(path))
    assert [one.id if isinstance(one, Case) else "wrong" for one in found] == ["1", "wrong", "2"]
    assert "line 3 (case x): probes: missing" in str(found[1])


def test_first_cases_of_a_large_file_need_little_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "f")
    head, *cases = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as stream:
        stream.write(head.replace(b'"cases":2', b'"cases":20000'))
        for _ in range(10_000):
            stream.writelines(cases)
    assert path.stat().st_size > 50_000_000
    list(islice(read_cases(path), 1))  # what is made once
    tracemalloc.start()
    assert [case.id for case in islice(read_cases(path), 3)] == ["1", "2", "1"]
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000
