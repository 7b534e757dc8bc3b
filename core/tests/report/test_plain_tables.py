"""Column widths of terminal tables."""

import io

import pytest
from rich.console import Console

from ke_core.results.formatting import column_widths, plain_table


def drawn(table, width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(("least", "wanted", "room", "widths"), [
    ([3, 5], [10, 20], 40, [10, 20]),
    ([3, 5], [10, 20], 20, [9, 11]),
    ([8, 5], [8, 20], 20, [8, 12]),
    ([30, 5], [30, 5], 20, [15, 5]),
])  # fmt: skip
def test_each_column_first_gets_the_width_of_its_longest_word(least, wanted, room, widths):
    assert column_widths(least, wanted, room) == widths


def test_words_stay_whole_when_a_table_is_narrowed():
    table = plain_table("name", "summary", "metrics")
    table.add_row("a-long-name-of-a-dataset", "two sentences that need several lines", "multi-hop, retrieval")
    lines = drawn(table, 60)
    assert max(map(len, lines)) <= 60
    words = {word for line in lines for word in line.split()}
    assert {"a-long-name-of-a-dataset", "sentences", "several", "multi-hop,", "retrieval"} <= words


def one_line_rows(width):
    table = plain_table("name", "summary", "judge", "plugin")
    table.shorten, table.drop = "summary", ("plugin", "judge")
    table.add_row("atlas", "two- and three-hop questions over countries and capitals", "alias", "atlas")
    return drawn(table, width)


def test_a_table_of_one_line_rows_is_complete_if_it_fits():
    assert one_line_rows(100)[-2].split()[-3:] == ["capitals", "alias", "atlas"]


def test_columns_are_dropped_and_texts_cut_after_a_word():
    heads, _rule, row = (one_line_rows(58)[at] for at in (1, 2, 3))
    assert heads.split() == ["name", "summary", "judge"]
    assert row == " atlas  two- and three-hop questions over ...  alias"
    assert one_line_rows(50)[1].split() == ["name", "summary"]
