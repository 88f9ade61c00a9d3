"""The simulated disk: the call that fails, the power that goes, the space that ends."""

import errno
from collections.abc import Callable

import pytest

from posthouse.sim import Operation, PowerLost, SimDisk

OLD = b"o" * 1000
SEEDS = range(400)


def with_file(seed: int = 0, content: bytes = OLD, capacity: int = 1 << 20) -> SimDisk:
    return SimDisk(seed, capacity=capacity, files={"a": content})


def outcome(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or 0
    return 0


@pytest.mark.parametrize("place", [1, 2, 3])
def test_nth_write_fails_and_has_written_some_first_part(place: int) -> None:
    disk = with_file(place, b"")
    disk.fail_at(place, "write")
    file = disk.open("a")
    for number in range(1, 4):
        if number == place:
            with pytest.raises(OSError, match="'a'") as caught:
                file.write([b"x" * 100], 0)
            assert caught.value.errno == errno.EIO
            assert file.read(0, 200) == b"x" * file.size()
            file.truncate(0)
        else:
            file.write([b"y"], 0)
    assert disk.calls["write"] == 3


def test_failed_write_leaves_any_length() -> None:
    lengths = set()
    for seed in SEEDS:
        disk = with_file(seed, b"")
        disk.fail_at(1, "write")
        with pytest.raises(OSError, match="error"):
            disk.open("a").write([b"x" * 10], 0)
        lengths.add(disk.size("a"))
    assert lengths == set(range(11))


def test_failed_sync_loses_writes_that_the_next_sync_does_not_bring() -> None:
    lost = kept = forgotten = seen_but_lost = 0
    for seed in SEEDS:
        disk = with_file(seed, b"old")
        file = disk.open("a")
        file.write([b"new"], 0)
        disk.fail_at(1, "sync")
        with pytest.raises(OSError, match="error"):
            file.sync()
        seen = file.read(0, 3) == b"new"
        file.sync()
        gone = disk.durable()["a"] == b"old"
        assert disk.crash("everything").contents() == disk.durable()
        lost += gone
        kept += disk.durable()["a"] == b"new"
        forgotten += not seen
        seen_but_lost += seen and gone
    assert min(lost, kept, forgotten, seen_but_lost) > 0


def test_file_written_after_a_failed_sync_is_synced_again() -> None:
    disk = with_file(content=b"old")
    file = disk.open("a")
    file.write([b"lost?"], 0)
    disk.fail_at(1, "sync")
    with pytest.raises(OSError, match="error"):
        file.sync()
    file.write([b"again"], 0)
    file.sync()
    assert disk.crash().contents() == {"a": b"again"}


def test_failed_directory_sync_loses_entries_for_good() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimDisk(seed)
        disk.open("a", create=True)
        disk.fail_at(1, "sync_directory")
        with pytest.raises(OSError, match="error"):
            disk.sync_directory()
        disk.sync_directory()
        assert disk.names() == ["a"]
        found.add(tuple(disk.durable()))
    assert found == {("a",), ()}


def test_faults_count_from_the_call_that_planned_them() -> None:
    disk = with_file()
    file = disk.open("a")
    file.sync()
    disk.fail_at(2, "sync", times=2, error=errno.ENOSPC)
    outcomes = [outcome(file.sync) for _ in range(4)]
    assert outcomes == [0, errno.ENOSPC, errno.ENOSPC, 0]


def script(disk: SimDisk) -> None:
    """Every kind of change once."""
    file = disk.open("new", create=True)
    file.write([b"data"], 0)
    file.truncate(2)
    file.sync()
    disk.rename("new", "renamed")
    disk.sync_directory()
    disk.unlink("renamed")


KINDS = ["create", "write", "truncate", "sync", "rename", "sync_directory", "unlink"]


def test_operations_list_every_change_in_order() -> None:
    disk = SimDisk()
    seen: list[Operation] = []
    disk.on_operation = seen.append
    script(disk)
    disk.open("a", create=True).read(0, 1)
    assert [operation.kind for operation in disk.operations] == [*KINDS, "create"]
    assert seen == disk.operations
    assert disk.calls["any"] == 8
    assert disk.calls["read"] == 1


@pytest.mark.parametrize("place", range(1, 8))
def test_any_call_fails_once(place: int) -> None:
    disk = SimDisk()
    disk.fail_at(place)
    with pytest.raises(OSError, match="Input/output error"):
        script(disk)
    assert [operation.error for operation in disk.operations] == [0] * (place - 1) + [errno.EIO]
    assert disk.operations[-1].kind == KINDS[place - 1]


def test_failed_directory_change_changes_nothing() -> None:
    disk = with_file()
    disk.fail_at(1, "any", times=3)
    for call in (
        lambda: disk.open("b", create=True),
        lambda: disk.rename("a", "b"),
        lambda: disk.unlink("a"),
    ):
        assert outcome(call) == errno.EIO
    assert disk.contents() == {"a": OLD}


def test_nth_read_fails() -> None:
    disk = with_file()
    disk.fail_at(2, "read")
    file = disk.open("a")
    assert [outcome(lambda: file.read(0, 1)) for _ in range(3)] == [0, errno.EIO, 0]


@pytest.mark.parametrize("place", range(1, 8))
def test_power_goes_during_any_call(place: int) -> None:
    disk = SimDisk()
    disk.lose_power_at(place)
    with pytest.raises(PowerLost):
        script(disk)
    with pytest.raises(PowerLost):
        disk.names()
    assert disk.calls["any"] == place
    assert isinstance(disk.crash("random"), SimDisk)


def test_power_lost_during_a_write_may_keep_it_and_during_a_sync_may_lose_it() -> None:
    disk = with_file(content=b"")
    disk.lose_power_at(1, "write")
    with pytest.raises(PowerLost):
        disk.open("a").write([b"data"], 0)
    assert disk.crash("everything").contents() == {"a": b"data"}
    disk = with_file(content=b"")
    file = disk.open("a")
    file.write([b"data"], 0)
    disk.lose_power_at(1, "sync")
    with pytest.raises(PowerLost):
        file.sync()
    assert disk.crash("nothing").contents() == {"a": b""}


def test_full_disk_takes_what_fits() -> None:
    disk = with_file(content=b"1234", capacity=100)
    disk.fill_up(after_bytes=6)
    assert disk.free_space() == (6, 100)
    file = disk.open("a")
    with pytest.raises(OSError, match="No space") as caught:
        file.write([b"x" * 10], 2)
    assert caught.value.errno == errno.ENOSPC
    assert file.read(0, 20) == b"12" + b"x" * 8
    assert disk.free_space() == (0, 100)
    assert disk.operations[-1] == Operation("write", "a", 2, 10, error=errno.ENOSPC)


def test_full_disk_overwrites_and_cuts_but_grows_and_creates_nothing() -> None:
    disk = with_file(content=b"1234", capacity=4)
    file = disk.open("a")
    file.write([b"abcd"], 0)
    assert outcome(lambda: file.write([b"e"], 4)) == errno.ENOSPC
    assert outcome(lambda: file.write([b"e"], 9)) == errno.ENOSPC
    assert outcome(lambda: file.truncate(5)) == errno.ENOSPC
    assert outcome(lambda: disk.open("b", create=True)) == errno.ENOSPC
    assert disk.contents() == {"a": b"abcd"}
    file.truncate(2)
    assert disk.free_space() == (2, 4)


def test_space_comes_back_when_the_last_user_is_gone() -> None:
    disk = with_file(content=b"1234", capacity=10)
    file = disk.open("a")
    disk.unlink("a")
    assert disk.free_space()[0] == 6
    file.close()
    assert disk.free_space()[0] == 10
    file = disk.open("b", create=True)
    file.write([b"12"], 0)
    disk.open("c", create=True)
    disk.rename("c", "b")
    assert disk.free_space()[0] == 8
    file.close()
    disk.fill_up(0)
    assert disk.free_space()[0] == 0
    disk.fill_up(10)
    assert disk.free_space()[0] == 10


def test_full_disk_is_still_full_after_a_crash() -> None:
    disk = with_file(content=b"1234", capacity=10)
    disk.fill_up(1)
    assert disk.crash().free_space() == (1, 10)
