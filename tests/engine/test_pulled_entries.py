"""The entries of a pull: any order of identifiers, and work that does not grow with all of them."""

from __future__ import annotations

from array import array
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.pulls import entries as module
from posthouse.engine.pulls.entries import PulledEntries, PullEntry

IDS = st.integers(0, 2**64 - 2)


def pages(taken: dict[int, int]) -> bytes:
    return array("Q", [word for entry in taken.items() for word in entry]).tobytes()


def check(found: PulledEntries, taken: dict[int, int], probe: int) -> None:
    ordered = [PullEntry(*pair) for pair in sorted(taken.items())]
    assert found.count == len(taken)
    assert found.after(0, len(taken) + 1) == [one for one in ordered if one.lookup_id > 0]
    assert sorted(found.digests()) == sorted(taken.values())
    assert found.digest_of(probe) == taken.get(probe)
    assert all(found.digest_of(one) == digest for one, digest in taken.items())
    later = [one for one in ordered if one.lookup_id > probe]
    assert found.after(probe, 3) == later[:3]
    assert found.after(probe, 0) == []


@given(st.lists(IDS, unique=True, max_size=60), st.lists(IDS, unique=True, max_size=60), IDS)
def test_entries_are_those_of_a_dict(kept: list[int], added: list[int], probe: int) -> None:
    size, module.CHUNK = module.CHUNK, 4  # type: ignore[misc]
    try:
        taken = {one: one // 3 for one in kept}
        found = PulledEntries()
        found.load(pages(taken))
        check(found, taken, probe)
        for one in added:
            if one not in taken:
                taken[one] = one // 3
                found.add(PullEntry(one, one // 3))
        check(found, taken, probe)
    finally:
        module.CHUNK = size  # type: ignore[misc]


def test_an_entry_in_the_middle_moves_a_chunk_and_not_all_that_follow() -> None:
    count, chance = 100_000, Random(24)
    found = PulledEntries()
    ids = list(range(1, count + 1))
    chance.shuffle(ids)
    for one in ids:
        found.add(PullEntry(one, one))
    assert found.moved < 1_024 * count
    assert [one.lookup_id for one in found.after(0, 10)] == list(range(1, 11))
    in_order = PulledEntries()
    for one in range(1, count + 1):
        in_order.add(PullEntry(one, one))
    assert in_order.moved == 0


def test_priorities_by_turns() -> None:
    """The usual order of a source: all of the highest priority, then all of the next."""
    found = PulledEntries()
    count = 5_000
    for start in range(1, 9):
        for one in range(start, count, 8):
            found.add(PullEntry(one, one))
    assert found.moved < 1_024 * count
    assert [one.lookup_id for one in found.after(0, count)] == list(range(1, count))
