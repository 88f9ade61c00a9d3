"""What a waiting message takes in memory, and memory that goes back to the system."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from benchmarks.meters import deep_size, resident_bytes
from posthouse.engine.ledger.records import NEVER, ROW, Row
from posthouse.engine.ledger.state import State
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore
from posthouse.store.positions import Positions
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig

BATCH, BATCHES = 128, 200
BLOCK, BLOCKS = 11_000, 4_000  # of a page of rows, and enough of them to be seen


def test_a_waiting_message_takes_no_object_of_its_own() -> None:
    """Row 44, identifier and number 16, place in the log 12; tables and chunks have the rest."""
    state, positions = State(), Positions()
    before = deep_size(state, positions)
    for at in range(1, BATCH * BATCHES, BATCH):
        row = Row(at, 5, NEVER, 1, 1_200, at, 0, 0, 0, 0, 3, 0, 0)
        packed = b"".join([ROW.pack(*row._replace(lookup_id=at + n)) for n in range(BATCH)])
        state.arrive(at, row, b"", packed, BATCH * 1_200)
        numbers = [*range(at, at + BATCH)]
        positions.put_run(numbers, 1, [n * 1_200 for n in range(BATCH)], BATCH * 1_200)
    assert len(state.table) == BATCH * BATCHES
    assert deep_size(state, positions) - before < 78 * BATCH * BATCHES


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other ways")
@pytest.mark.parametrize("large", [True, False])
def test_after_a_large_checkpoint_free_memory_goes_back_to_the_system(
    large: bool, tmp_path: Path
) -> None:
    settings = StoreSettings(store_id=bytes(16), checkpoint_inline=0 if large else 1 << 20)
    rig = Rig(LogStore(RealDisk(tmp_path), settings))
    rig.send()
    rig.flush()
    blocks = [bytes([at % 251]) * BLOCK for at in range(BLOCKS)]
    kept = blocks[::50]
    full = resident_bytes()
    blocks.clear()  # between those that are kept
    freed = full - resident_bytes()
    assert rig.store._upkeep is not None
    rig.store._upkeep.checkpoint_wanted = True
    rig.store.tidy()
    rig.store._upkeep.checkpoints.join()
    for _ in range(9):
        rig.store.sync()
        rig.store.tidy()
    assert rig.store._upkeep.pictures == 1
    given_back = full - resident_bytes() - freed
    assert (given_back > BLOCK * BLOCKS / 2) is large
    assert len(kept) == BLOCKS / 50
    rig.store.close()
