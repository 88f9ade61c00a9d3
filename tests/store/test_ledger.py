"""The accounts by which compaction decides."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import (
    TABLE_BOOKS,
    Change,
    Define,
    End,
    Row,
    Settle,
    skim_change,
)
from posthouse.store import ledger as ledger_module
from posthouse.store.ledger import CHANGE_WEIGHT, DEFINE_WEIGHT, END_WEIGHT, ROW_WEIGHT, StoreLedger
from posthouse.store.segment import Segment

ROW = Row(*[1] * len(Row._fields))


def ledger_of(*numbers: int) -> StoreLedger:
    ledger = StoreLedger()
    for number in numbers:
        ledger.segments[number] = Segment(number, bytes(16), 1)
    return ledger


def told(
    ledger: StoreLedger, segment: int, *steps: Settle | End | Define, carried: bool = False
) -> None:
    change = Change()
    change.settles += [step for step in steps if isinstance(step, Settle)]
    change.ends += [step for step in steps if isinstance(step, End)]
    change.defines += [step for step in steps if isinstance(step, Define)]
    ledger.change(change, ledger.segments[segment], carried=carried)


def weights(ledger: StoreLedger) -> list[int]:
    """Of each segment, without its header."""
    return [ledger.weight(s) - 48 for s in ledger.segments.values()]


def test_a_living_message_weighs_what_it_is() -> None:
    ledger = ledger_of(1, 2)
    ledger.message(7, ledger.segments[1], 48, 500)
    assert weights(ledger) == [500, 0]


def test_an_ending_weighs_while_the_message_lies_elsewhere() -> None:
    ledger = ledger_of(1, 2)
    ledger.message(7, ledger.segments[1], 48, 500)
    ledger.message(8, ledger.segments[2], 48, 300)
    told(ledger, 2, End(7, 1), End(8, 1), End(9, 1))
    assert weights(ledger) == [0, END_WEIGHT]
    assert ledger.dead_bytes == 800
    ledger.release(1)
    assert weights(ledger) == [0]


@given(
    st.lists(st.tuples(st.integers(1, 600), st.sampled_from([1, 2])), max_size=300),
    st.lists(st.integers(1, 600), max_size=12)
    | st.builds(lambda a, n: [*range(a, a + n)], st.integers(1, 300), st.integers(1, 300)),
)
def test_endings_in_a_row_weigh_what_each_of_them_does(
    messages: list[tuple[int, int]], ended: list[int]
) -> None:
    runs, singles = ledger_of(1, 2, 3), ledger_of(1, 2, 3)
    for ledger in (runs, singles):
        for number in range(100, 500):
            ledger.message(number, ledger.segments[1 + number // 400], 48, 10)
        for number, segment in messages:
            ledger.copy(number, ledger.segments[segment], 48, 20)
        ledger.release(2)
    told(runs, 3, *[End(number, 1) for number in ended])
    for number in ended:
        told(singles, 3, End(number, 1))
    assert weights(runs) == weights(singles)
    assert runs.dead_bytes == singles.dead_bytes
    assert runs.segments[3].needs == singles.segments[3].needs
    assert runs.positions.share() == singles.positions.share()


@given(
    st.lists(st.tuples(st.integers(1, 600), st.sampled_from([1, 3])), max_size=4),
    st.lists(st.tuples(st.integers(1, 600), st.binary(max_size=2)), max_size=6)
    | st.builds(
        lambda a, n: [(number, b"") for number in range(a, a + n)],
        st.integers(1, 500),
        st.integers(1, 300),
    ),
)
def test_rows_in_a_row_weigh_what_each_of_them_does(
    messages: list[tuple[int, int]], settled: list[tuple[int, bytes]]
) -> None:
    runs, singles = ledger_of(1, 2, 3), ledger_of(1, 2, 3)
    for ledger in (runs, singles):
        for number in range(100, 500):
            ledger.message(number, ledger.segments[3 if number < 450 else 1], 48, 10)
        for number, segment in messages:
            ledger.copy(number, ledger.segments[segment], 48, 20)
    settles = [Settle(number, 0, ROW, extra) for number, extra in settled]
    change = Change()
    change.settles += settles
    runs.said(skim_change(change.pack()), runs.segments[3], carried=False)
    for settle in settles:
        told(singles, 3, settle)
    assert weights(runs) == weights(singles)
    assert runs.segments[3].keeps == singles.segments[3].keeps


def test_a_row_weighs_while_the_message_lies_elsewhere() -> None:
    ledger = ledger_of(1, 2)
    ledger.message(7, ledger.segments[1], 48, 500)
    told(ledger, 1, Settle(7, 0, ROW, b""))
    assert weights(ledger) == [500, 0]
    told(ledger, 2, Settle(7, 0, ROW, b"extra"), Settle(99, 0, ROW, b""))
    assert weights(ledger) == [500, ROW_WEIGHT + 5]


def test_a_copy_takes_the_weight_along() -> None:
    ledger = ledger_of(1, 2)
    ledger.message(7, ledger.segments[1], 48, 500)
    ledger.copy(7, ledger.segments[2], 48, 510)
    assert weights(ledger) == [0, 510]
    assert ledger.copied_from == {1}
    ledger.release(1)
    assert ledger.copied_from == set()


def test_the_newest_definition_weighs() -> None:
    ledger = ledger_of(1, 2)
    told(ledger, 1, Define(3, b"key", b"value"))
    assert weights(ledger) == [DEFINE_WEIGHT + 8, 0]
    told(ledger, 2, Define(3, b"key", b"new"))
    assert weights(ledger) == [0, DEFINE_WEIGHT + 6]


def test_a_deletion_weighs_while_something_older_defines_the_key() -> None:
    ledger = ledger_of(1, 2)
    told(ledger, 1, Define(3, b"key", b"value"))
    told(ledger, 2, Define(3, b"key", None))
    assert weights(ledger) == [0, DEFINE_WEIGHT + 3]
    ledger.release(1)
    assert weights(ledger) == [0]
    assert ledger.definitions == {}


def test_a_deletion_of_what_nobody_defines_weighs_nothing() -> None:
    ledger = ledger_of(1)
    told(ledger, 1, Define(3, b"key", None))
    told(ledger, 1, Define(3, b"other", b"value"), Define(3, b"other", None))
    assert weights(ledger) == [0]
    assert ledger.definitions == {}


def test_what_every_segment_has_is_never_worth_compacting() -> None:
    ledger = ledger_of(1)
    told(ledger, 1, Define(TABLE_BOOKS, b"books", b"12345"), carried=True)
    assert weights(ledger) == [CHANGE_WEIGHT + DEFINE_WEIGHT + 10]
    assert ledger.definitions == {}


STEPS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.booleans(), st.booleans()), max_size=20
)


@given(STEPS, STEPS, STEPS, st.booleans())
def test_a_segment_may_be_forgotten_in_steps(
    first: list[tuple[bytes, bool, bool]],
    second: list[tuple[bytes, bool, bool]],
    third: list[tuple[bytes, bool, bool]],
    deletions: bool,
) -> None:
    """What is defined between the steps lies where it lies; too much may be said of deletions."""
    at_once, in_steps = ledger_of(1, 2, 3), ledger_of(1, 2, 3)

    def define(segment: int, key: bytes, deleted: bool) -> None:
        value = None if deleted and deletions else b"value"
        for ledger in (at_once, in_steps):
            told(ledger, segment, Define(2, key, value))

    for segment, steps in ((1, first), (2, second)):
        for key, deleted, _ in steps:
            define(segment, key, deleted)
    at_once.release(1)
    with patch.object(ledger_module, "FORGOTTEN", 1):
        in_steps.leave(1)
        for key, deleted, goes_on in third:
            define(3, key, deleted)
            if goes_on:
                in_steps.forget_some()
        while in_steps.forget_some():
            pass
    assert not any(1 in known.segments for known in in_steps.definitions.values())
    assert at_once.definitions.keys() <= in_steps.definitions.keys()
    for key, known in at_once.definitions.items():
        found = in_steps.definitions[key]
        assert found.segments[-len(known.segments) :] == known.segments
        assert found[1:] == known[1:]
    if not deletions:
        assert in_steps.definitions == at_once.definitions
        assert weights(in_steps) == weights(at_once)


def test_segments_that_are_not_there_are_forgotten_with_a_checkpoint() -> None:
    """It may have been taken while one was being forgotten."""
    ledger = ledger_of(1, 2, 3)
    told(ledger, 1, Define(2, b"a", b"v"), Define(2, b"b", b"v"), Define(2, b"c", b"v"))
    told(ledger, 2, Define(2, b"a", b"w"), Define(2, b"b", None))
    ledger.leave(1)
    ledger.forget_absent()
    assert {key: known.segments for key, known in ledger.definitions.items()} == {(2, b"a"): (2,)}
