"""The packed rows of waiting messages behave as a dictionary does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import ROW, Row
from posthouse.engine.ledger.table import PAGE_ROWS, MessageTable
from tests.support.row_strategies import ROWS

# Few pages, so that they fill, empty and come back.
NUMBERS = st.integers(0, 2 * PAGE_ROWS + 3) | st.sampled_from([1 << 40, (1 << 63) - 1])
STEPS = st.lists(st.tuples(st.sampled_from("pppd"), NUMBERS, ROWS), max_size=80)
SOME = Row(7, 16, 0, 0, 100, 1, 0, 0, 0, 0, 3, 0, 0)


def agree(table: MessageTable, model: dict[int, Row]) -> None:
    assert len(table) == table.count == len(model)
    assert list(table.items()) == sorted(model.items())
    for number, row in model.items():
        assert table.get(number) == row
        assert number in table


@given(STEPS)
def test_a_table_is_a_dictionary(steps: list[tuple[str, int, Row]]) -> None:
    table, model = MessageTable(), dict[int, Row]()
    for action, number, row in steps:
        row = row._replace(queue=row.queue or 1)
        if action == "p":
            if number in model or row.size % 2:
                table.put(number, row)
            else:
                table.add(number, ROW.pack(*row))
            model[number] = row
        elif number in model:
            table.drop(number)
            del model[number]
        assert table.get(number) == model.get(number)
    agree(table, model)
    copy = MessageTable()
    copy.load(table.share())
    agree(copy, model)


def test_an_empty_page_is_given_back() -> None:
    table = MessageTable()
    for number in range(PAGE_ROWS):
        table.add(number, ROW.pack(*SOME))
    assert len(table.share()) == 1
    for number in range(PAGE_ROWS):
        table.drop(number)
    assert table.share() == {}
    assert table.get(5) is None


def test_a_loaded_table_knows_when_a_page_is_empty() -> None:
    table = MessageTable()
    table.add(3, ROW.pack(*SOME))
    table.add(4, ROW.pack(*SOME))
    copy = MessageTable()
    copy.load(table.share())
    copy.drop(3)
    copy.drop(4)
    assert copy.share() == {}


def test_a_page_of_a_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        MessageTable().load({0: bytes(100)})


def test_messages_that_are_gone_have_neither_queue_nor_expiry() -> None:
    table = MessageTable()
    row = Row(1, 16, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    for number in (3, 4, 600):
        table.add(number, ROW.pack(*row._replace(expires=number)))
    table.drop(4)
    found = table.find([3, 4, 600, 9000])
    assert [(entry.queue, entry.expires) for entry in found] == [(16, 3), (0, 0), (16, 600), (0, 0)]
    assert table.expiries([3, 4, 600, 9000]) == [3, 0, 600, 0]
