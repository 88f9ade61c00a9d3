"""The kernel's own account of a server: its answers leave the socket when the log is synced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process.strace_server import (
    BATCHES,
    COMMITS,
    RECEIVES,
    SENDS,
    account,
    traced,
    work,
)


@pytest.mark.peer("strace")
@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/11")
def test_answers_leave_the_socket_when_the_kernel_has_synced(tmp_path: Path) -> None:
    calls = traced(tmp_path, work)
    store = str((tmp_path / "home" / "store").resolve())
    seen, early = account(calls, store)
    print(dict(seen))
    assert early == []
    assert seen["SENT"] >= 2 * SENDS + BATCHES + 2 * COMMITS
    assert seen["ENDED"] == RECEIVES
    assert seen["DONE"] >= COMMITS
    assert seen["log syncs"] >= SENDS + BATCHES + RECEIVES + COMMITS

    unsynced = [call for call in calls if call.name not in ("fdatasync", "fsync")]
    _, early = account(unsynced, store)
    assert len(early) > SENDS + RECEIVES + COMMITS  # without syncs it would have been noticed
