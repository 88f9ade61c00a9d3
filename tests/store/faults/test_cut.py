"""The last write of the log is cut at any byte: the rest of it is there, or nothing of it."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import CHANGE, MESSAGE
from posthouse.sim import SimDisk
from posthouse.store.format import unpack_segment_header
from posthouse.store.segment import Scanner
from tests.conftest import Dose
from tests.store.faults.harness import Moment, check, moments, play, records
from tests.store.faults.world import STORE, World

FULLY_MAX = 700  # bytes of a group that is cut at each of them; a longer one at some


def last_write(disk: SimDisk) -> tuple[int, int] | None:
    """Place and size of the last change, if it is a write to the log that is not synced."""
    pending = disk.pending()
    if not pending or pending[-1].kind != "write" or not pending[-1].name.endswith(".log"):
        return None
    return len(pending) - 1, pending[-1].size


def cuts(size: int) -> list[int]:
    """Where to cut a write: at every byte, or with long ones at both ends and in between."""
    if size <= FULLY_MAX:
        return list(range(size))
    return sorted({*range(120), *range(120, size, 61), *range(size - 60, size)})


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14", "MS-MQDMPR 3.1.4.4/7", "MS-MQDMPR 3.1.7.1.9/11")
def test_the_last_group_cut_at_every_byte_is_there_in_part_or_not_at_all(dose: Dose) -> None:
    """Records in front of the cut may be there, once; everything answered before surely is."""
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        found = last_write(moment.disk)
        if found is None:
            return
        seen["writes"] += 1
        if seen["writes"] % dose(41, 2):
            return
        place, size = found
        rest = range(place)
        for length in cuts(size):
            left = moment.disk.clone().crash(keep=rest, torn={place: length})
            why = f"operation {moment.number} cut at {length} of {size}"
            world = check(left, moment.witness, why)
            seen["kept in part"] += moment.witness.answered < world.kept < moment.witness.written
            seen["kept nothing"] += world.kept == moment.witness.answered
            seen["cuts"] += 1

    moments(look)
    print(dict(seen))
    assert seen["cuts"] > 500
    assert seen["kept in part"] > 20
    assert seen["kept nothing"] > 250


def test_a_cut_store_is_as_good_as_before(dose: Dose) -> None:
    """The bytes behind the cut are gone, and life goes on."""
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        found = last_write(moment.disk)
        if found is None:
            return
        place, size = found
        name = moment.disk.pending()[place].name
        for length in (1, size // 2, size - 1):
            left = moment.disk.clone().crash(keep=range(place), torn={place: length})
            world = World(left, moment.witness).start()
            assert whole(left, name), f"{name} ends in rubble"
            world.check_goes_on()
            seen["lives"] += 1

    moments(look, every=dose(17, 2))
    print(dict(seen))
    assert seen["lives"] > 20


def whole(disk: SimDisk, name: str) -> bool:
    """A segment that was cut ends with a whole record, or is gone.

    Behind it are perhaps zeros, or what lay in the file before it became this segment.
    """
    if not disk.exists(name):
        return True
    data = disk.contents()[name]
    header = unpack_segment_header(data, name, int(name.removesuffix(".log")))
    scanner = Scanner(data, header.generation, header.first_sequence, recycled=header.recycled)
    return bool(list(scanner)) and not scanner.reason


def test_old_records_behind_the_end_are_not_taken_for_new_ones() -> None:
    """A file may have grown over blocks that held a segment before: whole records, good checksums.

    They are of another segment, or of this one with another number, and are cut off.
    """
    without_spares = replace(STORE, spare_segments=0)  # old bytes in those are not torn ones
    world = play(World(SimDisk(), store=without_spares).start())
    disk, seen = world.disk.crash(), Counter[str]()
    name = max(name for name in disk.names() if name.endswith(".log"))
    end = records(disk.contents()[name])[-1][2]
    for old in [n for n in disk.names() if n.endswith(".log")]:
        data = disk.contents()[old]
        for kind, offset, stop in records(data):
            if kind not in (MESSAGE, CHANGE):
                continue
            copy = disk.clone()
            copy.open(name).write([data[offset:stop]], end)
            after = check(copy, world.witness, f"{old} {offset} behind the end")
            assert after.recovered.torn_bytes == len(data[offset:stop].rstrip(b"\0"))
            seen["of this segment" if old == name else "of another one"] += 1
    print(dict(seen))
    assert min(seen["of this segment"], seen["of another one"]) > 2
