"""Many records at once: looked up as arrays, pinned, read and verified."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.ledger.records import ROW as PACKED_ROW
from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.state import State
from posthouse.store.bulk import Pinned, Records
from posthouse.store.bulk_rows import Look, cuts_of, look, rest, rows_of, within
from posthouse.store.bulk_rows import sizes as sizes_of
from posthouse.store.disk import RealDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import NOTHING, Rig, packet_of, sender_of

QUEUE = 7


def a_row(lookup_id: int, priority: int, size: int = 1, doomed: int = 0) -> Row:
    return NOTHING._replace(
        lookup_id=lookup_id, queue=QUEUE, priority=priority, size=size, doomed=doomed
    )


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 40), st.booleans()), max_size=60),
    st.integers(0, 70),
    st.integers(0, 70),
    st.integers(1, 20),
)
def test_a_look_finds_what_is_in_the_range_in_order(
    arrivals: list[tuple[int, int, bool]], after: int, through: int, count: int
) -> None:
    """Whatever the priorities, the holes and the numbers between: step by step, all of it."""
    state, number, there = State(), 0, dict[int, int]()
    for lookup_id, (priority, gap, ends) in enumerate(arrivals, 1):
        number += 1 + gap
        state.arrive(number, a_row(lookup_id, priority, doomed=gap == 3))
        if ends:
            state.end(number, 1)
        elif gap != 3:
            there[lookup_id] = number
    found, at = dict[int, int](), after
    while at < through:
        step = look(state, QUEUE, at, through, count)
        assert step.last > at
        found |= dict(zip(step.ids.tolist(), step.numbers.tolist(), strict=True))
        at = step.last
    assert list(found.items()) == [(i, n) for i, n in there.items() if after < i <= through]


def test_rows_are_those_of_the_table() -> None:
    state = State()
    rows = {n: a_row(n, n % 8, size=n * 3) for n in (1, 2, 3, 300, 301, 900)}
    for number, row in rows.items():
        state.arrive(number, row)
    numbers = np.array([900, 1, 300, 301, 2], np.uint64)
    for number, packed in zip(numbers.tolist(), rows_of(state, numbers), strict=True):
        assert Row(*PACKED_ROW.unpack(packed.tobytes())) == rows[number]


def looked(sizes: list[int]) -> Look:
    state = State()
    for number, size in enumerate(sizes, 1):
        state.arrive(number, a_row(number * 2, 3, size))
    return look(state, QUEUE, 0, 1000, 1000)


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(None, None, 5), (3, None, 3), (None, 25, 2), (None, 1, 1), (1, 100, 1), (9, 50, 5)],
)
def test_a_look_is_cut_by_count_and_bytes(
    count: int | None, size: int | None, expected: int
) -> None:
    found = looked([10] * 5)
    some = within(found, count, size)
    assert len(some.numbers) == expected
    assert some.last == (1000 if expected == 5 else 2 * expected + 1)
    assert len(rest(found, expected).numbers) == 5 - expected
    assert len(within(found, 0, None, 0).numbers) == 0


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=50),
    st.integers(1, 60),
    st.none() | st.integers(1, 60),
)
def test_cuts_share_the_bytes(sizes: list[int], parts: int, most: int | None) -> None:
    cuts = cuts_of([sizes_of(looked(sizes))], parts, most)
    assert sum(cut.messages for cut in cuts) == len(sizes)
    assert sum(cut.bytes for cut in cuts) == sum(sizes)
    assert all(cut.messages > 0 for cut in cuts)
    assert [cut.through for cut in cuts] == sorted({cut.through for cut in cuts})
    assert most is None or max(cut.messages for cut in cuts) <= most
    if most is None:
        assert len(cuts) <= parts
        assert max(cut.bytes for cut in cuts) <= sum(sizes) / parts + max(sizes)


# -- reading


class Shelf:
    """A store with messages of one queue, some express."""

    def __init__(self, folder: Path, **values: int) -> None:
        self.folder = folder
        settings = StoreSettings(store_id=os.urandom(16), segment_size=4096, **values)
        self.store = LogStore(RealDisk(folder), settings)
        self.rig = Rig(self.store)

    def pinned(self) -> Pinned:
        found = look(self.rig.state, 1, 0, 1 << 40, 1000)
        return Pinned(self.store, found.numbers, found.rows)

    def read(self) -> Records:
        pinned = self.pinned()
        try:
            return pinned.read()
        finally:
            pinned.close()


def check(records: Records, numbers: list[int]) -> None:
    """Every packet, in whatever order they lie; `chosen` says which is which."""
    assert sorted(records.numbers.tolist()) == numbers
    ids = records.rows["lookup_id"][np.argsort(records.chosen)].tolist()
    assert ids == sorted(ids)
    for number, begin, end in zip(
        records.numbers.tolist(), records.begins.tolist(), records.ends.tolist(), strict=True
    ):
        block = records.data[begin:end]
        assert int.from_bytes(block[:8], "little") == number
        assert block.endswith(packet_of(number))
        assert sender_of(number) in block


def test_records_come_with_what_lies_between_left_out(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    rig, mine = shelf.rig, list[int]()
    for at in range(200):
        mine.append(rig.send())
        for _ in range(at % 4):
            rig.send(2)
        if at % 9 == 0:
            rig.keep()
    rig.keep()
    check(shelf.read(), mine)


def test_moved_and_copied_messages_are_found_where_they_are(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    rig = shelf.rig
    numbers = [rig.send(2) for _ in range(300)]
    rig.keep()
    for number in numbers[::-7]:
        rig.move(number, 1)
    rig.end(*[n for n in numbers if n not in numbers[::-7]])
    rig.keep()
    rig.tidy()
    check(shelf.read(), sorted(numbers[::-7]))


def test_express_messages_in_memory_and_on_disk_are_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, express_memory=2000)
    rig = shelf.rig
    numbers = [rig.send_express() if at % 3 else rig.send() for at in range(60)]
    rig.keep()
    rig.tidy()
    assert shelf.store.express.segments
    assert shelf.store.express.memory
    check(shelf.read(), numbers)


def test_what_is_pinned_stays_until_it_is_let_go(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, express_memory=1)
    rig = shelf.rig
    durable = [rig.send() for _ in range(100)]
    express = [rig.send_express() for _ in range(50)]
    rig.keep()
    rig.tidy()
    pinned = shelf.pinned()
    rig.end(*durable)
    for number in express:
        rig.drop(number)
    for _ in range(100):
        rig.send(2)
    rig.keep()
    rig.tidy()
    check(pinned.read(), durable + express)
    segments = shelf.store.ledger.segments.values()
    assert sum(segment.pins for segment in segments) > 0
    assert shelf.store.express.segments
    pinned.close()
    rig.tidy()
    assert sum(segment.pins for segment in segments) == 0
    assert not shelf.store.express.segments


def test_what_is_gone_before_it_is_pinned_is_left_out(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    rig = shelf.rig
    gone = [rig.send() for _ in range(100)]
    kept = [rig.send() for _ in range(5)]
    dropped = rig.send_express()
    rig.keep()
    found = look(rig.state, 1, 0, 1 << 40, 1000)
    rig.end(*gone)
    rig.drop(dropped)
    for _ in range(100):
        rig.send(2)
    rig.keep()
    rig.tidy()
    pinned = Pinned(shelf.store, found.numbers, found.rows)
    records = pinned.read()
    pinned.close()
    assert set(kept) <= set(records.numbers.tolist()) <= set(gone + kept)
    check(records, sorted(records.numbers.tolist()))


def test_every_record_is_verified(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    numbers = [shelf.rig.send() for _ in range(20)]
    shelf.rig.keep()
    place = shelf.store.ledger.positions.get(numbers[13])
    assert place is not None
    path = tmp_path / f"{place.segment:08d}.log"
    sound = path.read_bytes()
    for at in (0, 5, 30, place.size - 1):
        data = bytearray(sound)
        data[place.offset + at] ^= 1
        path.write_bytes(data)
        with pytest.raises(StoreDamaged) as damage:
            shelf.read()
        assert damage.value.offset == place.offset
        assert f"lookup id {numbers[13]}" in str(damage.value)
    path.write_bytes(sound[: place.offset + 10])
    with pytest.raises(StoreDamaged):
        shelf.read()
    path.write_bytes(sound)
    check(shelf.read(), numbers)


def test_no_message_is_no_bytes(tmp_path: Path) -> None:
    records = Shelf(tmp_path).read()
    assert (len(records.begins), records.data) == (0, b"")
