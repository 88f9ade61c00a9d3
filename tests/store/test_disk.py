"""One contract, two disks: the files of the system and the simulated ones."""

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.sim import SimDisk
from posthouse.store.disk import IOV_MAX, Disk, RealDisk, RealFile, behind

MakeDisk = Callable[[bool], Disk]


@pytest.fixture(params=["real", "sim"])
def make_disk(request: pytest.FixtureRequest, tmp_path: Path) -> MakeDisk:
    """Opens the same directory again on each call, read-only if asked."""
    simulated = SimDisk()

    def make(read_only: bool) -> Disk:
        if request.param == "real":
            return RealDisk(tmp_path / "store", read_only=read_only)
        simulated.read_only = read_only
        return simulated

    return make


@pytest.fixture
def disk(make_disk: MakeDisk) -> Disk:
    return make_disk(False)


def put(disk: Disk, name: str, data: bytes) -> None:
    file = disk.open(name, create=True)
    file.write([data], 0)
    file.close()


def get(disk: Disk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def test_written_bytes_are_read_back(disk: Disk) -> None:
    file = disk.open("a", create=True)
    assert file.name == "a"
    assert file.write([b"one", bytearray(b"two"), memoryview(b"three")], 0) == 11
    assert file.size() == disk.size("a") == 11
    assert file.read(0, 11) == b"onetwothree"
    assert file.read(3, 3) == b"two"


def test_write_of_nothing_changes_nothing(disk: Disk) -> None:
    file = disk.open("a", create=True)
    assert file.write([], 5) == 0
    assert file.write([b"", b""], 5) == 0
    assert file.size() == 0


def test_write_in_the_middle_keeps_what_is_around_it(disk: Disk) -> None:
    put(disk, "a", b"0123456789")
    disk.open("a").write([b"AB", b"C"], 4)
    assert get(disk, "a") == b"0123ABC789"


def test_write_behind_the_end_leaves_zeros(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write([b"x"], 3)
    assert file.read(0, 10) == b"\0\0\0x"


def test_more_buffers_than_one_call_takes_are_all_written(disk: Disk) -> None:
    buffers = [bytes([number % 251]) * (number % 5) for number in range(3 * IOV_MAX + 7)]
    file = disk.open("a", create=True)
    assert file.write(buffers, 1) == len(b"".join(buffers))
    assert get(disk, "a") == b"\0" + b"".join(buffers)


def test_read_is_short_only_at_the_end(disk: Disk) -> None:
    put(disk, "a", b"0123456789")
    file = disk.open("a")
    assert file.read(8, 100) == b"89"
    assert file.read(10, 1) == b""
    assert file.read(99, 1) == b""
    assert file.read(0, 0) == b""


@pytest.mark.parametrize("place", [-1, -2])
def test_negative_place_is_a_bug(disk: Disk, place: int) -> None:
    file = disk.open("a", create=True)
    for call in (
        lambda: file.write([b"x"], place),
        lambda: file.read(place, 1),
        lambda: file.truncate(place),
    ):
        with pytest.raises(AssertionError):
            call()
    assert file.size() == 0


def test_truncate_cuts_and_grows_with_zeros(disk: Disk) -> None:
    put(disk, "a", b"0123456789")
    file = disk.open("a")
    file.truncate(4)
    assert get(disk, "a") == b"0123"
    file.truncate(6)
    assert get(disk, "a") == b"0123\0\0"


def test_sync_changes_nothing_a_reader_sees(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write([b"data"], 0)
    file.sync()
    disk.sync_directory()
    assert get(disk, "a") == b"data"


def test_names_are_sorted(disk: Disk) -> None:
    for name in ("b", "c", "a"):
        put(disk, name, b"")
    assert disk.names() == ["a", "b", "c"]
    assert disk.exists("b")
    assert not disk.exists("d")


def test_create_refuses_a_name_in_use(disk: Disk) -> None:
    put(disk, "a", b"kept")
    with pytest.raises(FileExistsError):
        disk.open("a", create=True)
    assert get(disk, "a") == b"kept"


@pytest.mark.parametrize("call", ["open", "size", "unlink", "rename"])
def test_missing_file_is_reported_by_name(disk: Disk, call: str) -> None:
    arguments = ("gone", "new") if call == "rename" else ("gone",)
    with pytest.raises(FileNotFoundError, match="gone"):
        getattr(disk, call)(*arguments)


def test_rename_replaces(disk: Disk) -> None:
    put(disk, "new", b"new")
    put(disk, "current", b"old")
    disk.rename("new", "current")
    assert disk.names() == ["current"]
    assert get(disk, "current") == b"new"


def test_rename_to_itself_changes_nothing(disk: Disk) -> None:
    put(disk, "a", b"data")
    disk.rename("a", "a")
    assert get(disk, "a") == b"data"


def test_open_file_outlives_its_name(disk: Disk) -> None:
    put(disk, "a", b"data")
    file = disk.open("a")
    disk.unlink("a")
    assert disk.names() == []
    assert file.read(0, 4) == b"data"
    put(disk, "a", b"other")
    file.write([b"DATA"], 0)
    assert get(disk, "a") == b"other"


def test_two_open_files_of_one_name_see_each_other(disk: Disk) -> None:
    first = disk.open("a", create=True)
    second = disk.open("a")
    first.write([b"data"], 0)
    assert second.read(0, 10) == b"data"


def test_closed_file_is_refused_and_closing_twice_is_not(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.close()
    file.close()
    for call in (file.size, file.sync, lambda: file.read(0, 1), lambda: file.write([b"x"], 0)):
        with pytest.raises((OSError, ValueError), match="descriptor"):
            call()


def test_disk_closes_twice(disk: Disk) -> None:
    disk.close()
    disk.close()


def test_free_space_is_within_the_whole(disk: Disk) -> None:
    free, total = disk.free_space()
    assert 0 < free <= total


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0"])
def test_name_that_leaves_the_directory_is_a_bug(disk: Disk, name: str) -> None:
    for call in (disk.open, disk.size, disk.exists, disk.unlink):
        with pytest.raises(AssertionError):
            call(name)


def test_read_only_disk_reads_and_refuses_every_change(make_disk: MakeDisk) -> None:
    put(make_disk(False), "a", b"data")
    disk = make_disk(True)
    file = disk.open("a")
    changes: list[Callable[[], object]] = [
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
        file.sync,
        lambda: disk.open("b", create=True),
        lambda: disk.rename("a", "b"),
        lambda: disk.unlink("a"),
        disk.sync_directory,
    ]
    for change in changes:
        with pytest.raises(OSError, match="Read-only") as caught:
            change()
        assert caught.value.errno == errno.EROFS
    assert disk.names() == ["a"]
    assert get(disk, "a") == b"data"


def test_a_write_that_begins_at_once_is_a_write(make_disk: MakeDisk) -> None:
    file = make_disk(False).open("a", create=True)
    assert file.write([b"da", b"ta"], 3, begin=True) == 4
    file.sync()
    assert file.read(0, 9) == b"\0\0\0data"


def test_a_file_system_that_cannot_begin_early_is_synced_as_usual(tmp_path: Path) -> None:
    descriptor = os.memfd_create("memory")  # it has nothing to begin with
    file = RealFile(descriptor, "memory", False)
    assert file.write([b"data"], 0, begin=True) == 4
    file.close()


@pytest.mark.peer("strace")
def test_the_system_is_asked_to_begin_with_what_was_written(tmp_path: Path) -> None:
    program = (
        "from posthouse.store.disk import RealDisk;"
        f"RealDisk({str(tmp_path)!r}).open('a', create=True).write([b'data'], 5, begin=True)"
    )
    trace = tmp_path / "trace"
    words = ["strace", "-f", "-o", str(trace), "-e", "trace=sync_file_range"]
    subprocess.run([*words, sys.executable, "-c", program], check=True)
    assert ", 5, 4, SYNC_FILE_RANGE_WRITE) = 0" in trace.read_text()


ASKED = """
import sys
from posthouse.store.disk import RealDisk
file = RealDisk(sys.argv[1]).open("a", create=True)
try:
    file.write([b"data"], 0, begin=True)
except OSError as error:
    print(error)
file.sync()
"""


@pytest.mark.peer("strace")
@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ENOSYS", ""),
        ("EINVAL", ""),
        ("EPERM", ""),
        ("EINTR", ""),
        ("EIO", "[Errno 5] Input/output error: 'a'"),
        ("ENOSPC", "[Errno 5] No space left on device: 'a'"),
    ],
)
def test_a_disk_that_refuses_to_begin_early_is_told_from_one_that_cannot(
    error: str, told: str, tmp_path: Path
) -> None:
    """A refusal is final, a full disk too: it does not help to write the bytes again."""
    words = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=sync_file_range"]
    words += ["-e", f"inject=sync_file_range:error={error}", sys.executable, "-c", ASKED]
    done = subprocess.run([*words, str(tmp_path)], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == told


OPERATION = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 40), st.binary(max_size=20)),
    st.tuples(st.just("truncate"), st.integers(0, 60)),
    st.tuples(st.just("sync")),
    st.tuples(st.just("rename"), st.sampled_from("abc")),
    st.tuples(st.just("unlink"), st.sampled_from("abc")),
)


@given(operations=st.lists(OPERATION, max_size=25))
def test_both_disks_show_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[object, ...]]
) -> None:
    real = RealDisk(tmp_path_factory.mktemp("disk"))
    disks: list[Disk] = [real, SimDisk()]
    seen = [[outcome(disk, operation) for operation in operations] for disk in disks]
    assert seen[0] == seen[1]
    real.close()


def outcome(disk: Disk, operation: tuple[object, ...]) -> object:
    """Carry out one operation on file `a`; the files then, or the error."""
    kind, *arguments = operation
    try:
        if kind == "rename":
            disk.rename("a", *arguments)  # type: ignore[arg-type]
        elif kind == "unlink":
            disk.unlink(*arguments)  # type: ignore[arg-type]
        else:
            change(disk, kind, arguments)
    except OSError as error:
        return error.errno
    return {name: get(disk, name) for name in disk.names()}


def change(disk: Disk, kind: object, arguments: list[object]) -> None:
    file = disk.open("a", create=not disk.exists("a"))
    if kind == "write":
        offset, data = arguments
        file.write([data], offset)  # type: ignore[list-item, arg-type]
    elif kind == "truncate":
        file.truncate(*arguments)  # type: ignore[arg-type]
    else:
        file.sync()
    file.close()


# The real disk alone


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "deep" / "store")
    put(disk, "a", b"")
    modes = [tmp_path / "deep", tmp_path / "deep" / "store", tmp_path / "deep" / "store" / "a"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in modes] == [0o700, 0o700, 0o600]


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    file = disk.open("a", create=True)
    assert not os.get_inheritable(disk.fileno())
    assert not os.get_inheritable(file.fileno())


def test_read_only_disk_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RealDisk(tmp_path / "missing", read_only=True)
    assert not (tmp_path / "missing").exists()


def test_only_regular_files_are_seen(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    disk = RealDisk(tmp_path)
    assert disk.names() == ["file"]
    assert [disk.exists(name) for name in ("file", "link", "folder")] == [True, False, False]
    with pytest.raises(OSError, match="link"):
        disk.open("link")


def test_write_that_the_system_cuts_short_raises_with_its_name(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("a", create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large: 'a'"):
            file.write([b"x" * 60, b"y" * 60], 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read(0, 200) == b"x" * 60 + b"y" * 40


def test_write_that_the_system_takes_in_parts_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, pwritev = RealDisk(tmp_path).open("a", create=True), os.pwritev

    def some(descriptor: int, buffers: Sequence[bytes], offset: int) -> int:
        return pwritev(descriptor, [b"".join(buffers)[:7]], offset)

    monkeypatch.setattr(os, "pwritev", some)
    assert file.write([b"0123456789", b"abcdef", b"", b"ghijkl"], 3) == 22
    assert file.read(3, 30) == b"0123456789abcdefghijkl"
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    with pytest.raises(OSError, match="accepts no more bytes"):
        file.write([b"more"], 25)


@pytest.mark.parametrize(("call", "arguments"), [("read", (0, -1)), ("truncate", (1 << 62,))])
def test_error_of_the_system_carries_the_name_of_the_file(
    tmp_path: Path, call: str, arguments: tuple[int, ...]
) -> None:
    file = RealDisk(tmp_path).open("a", create=True)
    with pytest.raises(OSError, match="'a'"):
        getattr(file, call)(*arguments)


def test_real_disk_is_found_again(tmp_path: Path) -> None:
    put(RealDisk(tmp_path), "a", b"data")
    assert get(RealDisk(tmp_path), "a") == b"data"


@given(buffers=st.lists(st.binary(max_size=5), max_size=6), done=st.integers(0, 40))
def test_what_is_behind_a_short_write(buffers: list[bytes], done: int) -> None:
    assert b"".join(behind(buffers, done)) == b"".join(buffers)[done:]


WITHOUT_DESCRIPTORS = """
import resource, socket, sys
import posthouse
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from pathlib import Path
home = Path(sys.argv[1])
home.mkdir()
(home / "posthouse.toml").write_text('[store]\\nsegment_size = "1MiB"\\n')
with posthouse.open(home, name="ALPHA") as qm:
    queue = qm.create_queue(r".\\private$\\orders")
    taken = []
    try:
        while True:
            taken.append(socket.socket())
    except OSError:
        pass
    queue.send(bytes(2_000_000), recoverable=True)
    queue.send(b"in the next segment", recoverable=True)
    print(queue.count())
"""


def test_the_next_segment_opens_where_the_process_has_no_descriptor_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(tmp_path / "home")],
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr
