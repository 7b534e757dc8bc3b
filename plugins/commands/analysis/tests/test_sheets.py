"""CSV files for spreadsheets, and the formats that spreadsheets save."""

import csv
import io

import pytest

from ke_core.plugin import BadData
from ke_plugin_analysis.sheets import LONGEST, harmless, read_sheet, write_sheet

ATTACKS = [
    "=1+1", "+1", "-1+2", "@SUM(A1)", '=HYPERLINK("http://x","y")', " =1+1", "\t=1+1", "\n=1+1", "\r=1+1",
    "\uff1d1+1", "\uff0b1", "\u00a0=1", "%0A=1", "|calc",
]  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS)
def test_a_cell_that_could_be_a_formula_gets_an_apostrophe(text):
    assert harmless(text)[0] == "'"


@pytest.mark.parametrize(
    "text", ["Paris", "", " ", "a = b", "-", "%", " = ", "3-1", 'say "x"; then, y', "1-2", "Ünï", "line\nline"]
)
def test_other_cells_are_unchanged(text):
    assert harmless(text) == text


def test_control_characters_are_removed_and_long_cells_cut():
    assert harmless("a\x00b\x1b[31mc") == "a b [31mc"
    assert len(harmless("x" * 50_000)) == LONGEST + 3


def test_a_sheet_round_trips(tmp_path):
    rows = [{"a": 'x,"y";z', "b": "two\nlines"}, {"a": "=2", "b": ""}]
    write_sheet(tmp_path / "s.csv", ["a", "b"], rows)
    raw = (tmp_path / "s.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")  # else a spreadsheet guesses the encoding
    assert list(read_sheet(tmp_path / "s.csv", ["a"])) == [
        (2, {"a": 'x,"y";z', "b": "two\nlines"}), (3, {"a": "'=2", "b": ""}),
    ]  # fmt: skip
    assert all(cell[:1] != "=" for row in csv.reader(io.StringIO(raw.decode("utf-8-sig"))) for cell in row)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_separator_that_spreadsheets_save_with_is_read(tmp_path, separator, end):
    text = end.join([separator.join(["Item", "Label "]), separator.join(["q1", "right"]), separator, ""])
    (tmp_path / "s.csv").write_bytes(text.encode())
    assert list(read_sheet(tmp_path / "s.csv", ["item", "label"])) == [(2, {"item": "q1", "label": "right"})]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"item,lable\nq1,right\n", r"row 1: column 'label' is missing"),
        (b"", "row 1: column 'item' is missing"),
        ("item,label\nq1,Zürich\n".encode("latin-1"), "is not in UTF-8"),
        (b'item,label\n"q1,right\n', "is not CSV"),
    ],
)
def test_sheet_errors_name_the_place(tmp_path, content, says):
    (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(BadData, match=says):
        list(read_sheet(tmp_path / "s.csv", ["item", "label"]))


def test_a_missing_sheet_is_a_one_line_error(tmp_path):
    with pytest.raises(BadData, match=r"cannot read .*no such file"):
        list(read_sheet(tmp_path / "none.csv", ["item"]))
