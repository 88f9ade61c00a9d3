"""A directory file that others edit, break, lock or lose, under a real queue manager."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import DsError, NoDs, QueueError
from tests.process.offices import Office, wait_until
from tests.process.warm import Loaded
from tests.support.process.shared_directory import MACHINE, NEWS, OWN_QUEUE, SETTINGS


class Shared:
    """ALPHA, and the file."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.path = folder / "shared" / "directory.toml"
        self.path.parent.mkdir()
        self.path.touch()
        self.lock = self.path.with_name("directory.toml.lock")
        self.alpha = Office(folder / "ALPHA", "ALPHA", running, SETTINGS.format(path=self.path))
        self.qm = self.alpha.qm
        wait_until(lambda: "ALPHA" in self.path.read_text(), self.path.read_text)
        self.whole = self.path.read_text()

    def refreshed(self) -> str:
        """Why the directory is away now; nothing if it is not."""
        status = self.qm.call("POST", "/directory/refresh")
        assert bool(status["reason"]) is not status["online"]
        return str(status["reason"])

    def edit(self, text: str) -> str:
        """By hand; as it is told."""
        self.path.write_text(text)
        return self.refreshed()

    def queues(self) -> set[str]:
        return {queue.path for queue in self.qm.queues() if "private$" not in queue.path}

    def log(self) -> str:
        return (self.alpha.server.home / "logs" / "posthouse.log").read_text()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with ExitStack() as stack:
        found = Shared(tmp_path_factory.mktemp("faults"), stack)
        yield found
        found.alpha.server.stop()


@pytest.fixture
def shared(running: Shared) -> Shared:
    assert running.edit(running.whole) == ""
    return running


def be_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def be_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


BROKEN: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_bytes(b"# one\n\xff"), "line 2: this is not UTF-8"),
    (lambda path: path.write_text("[[sites]]\nname = 1\n"), "line 1"),
    (lambda path: path.write_text("[[users]]\nsid = 'x'\n"), "user 'x'"),
    (lambda path: path.open("wb").truncate((64 << 20) + 1), "more than 64 MiB"),
    (be_a_folder, "cannot be read"),
    (be_a_pipe, "is not a file"),
    (lambda path: path.unlink(), "does not exist"),
]


@pytest.mark.parametrize(("make", "reason"), BROKEN, ids=[reason for _, reason in BROKEN])
def test_a_file_that_says_nothing_is_a_directory_that_is_away(
    shared: Shared, make: Callable[[Path], object], reason: str
) -> None:
    make(shared.path)
    assert reason in shared.refreshed()
    assert reason in shared.refreshed()  # it is not read again, and is no better for it
    with pytest.raises(NoDs):
        shared.qm.create_queue(r"ALPHA\never")
    if shared.path.is_dir():
        shared.path.rmdir()
    shared.path.unlink(missing_ok=True)
    assert shared.edit(shared.whole) == ""


def test_changes_wait_for_the_lock_but_only_so_long(shared: Shared) -> None:
    with shared.lock.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        release = threading.Timer(0.3, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        release.start()
        shared.qm.create_queue(r"ALPHA\patient")
        release.join()
    shared.qm.delete_queue(r"ALPHA\patient")
    with shared.lock.open("wb") as lock:  # one that goes away holds nobody
        fcntl.flock(lock, fcntl.LOCK_EX)
        release = threading.Timer(0.3, lambda: (shared.lock.unlink(), lock.close()))
        release.start()
        shared.qm.create_queue(r"ALPHA\patient")
        release.join()
    shared.qm.delete_queue(r"ALPHA\patient")
    with shared.lock.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NoDs, match="locked by another process for 1 seconds"):
            shared.qm.create_queue(r"ALPHA\never")
    assert shared.refreshed() == ""
    assert "never" not in shared.path.read_text()


def test_a_file_that_cannot_be_changed_says_why(shared: Shared) -> None:
    shared.lock.unlink(missing_ok=True)
    shared.lock.mkdir()
    with pytest.raises(DsError, match="cannot be locked"):
        shared.qm.create_queue(r"ALPHA\never")
    shared.lock.rmdir()
    obstacle = shared.path.with_name(".directory.toml.new")
    obstacle.mkdir()
    with pytest.raises(DsError, match="cannot be written"):
        shared.qm.create_queue(r"ALPHA\never")
    obstacle.rmdir()
    assert shared.queues() == set()
    assert shared.path.read_text() == shared.whole


def test_what_somebody_else_entered_meanwhile_is_not_entered_twice(shared: Shared) -> None:
    shared.path.write_text(shared.whole + "\n[[sites]]\nname = 'Paris'\n")
    document = {"document": {"sites": [{"name": "Paris"}]}}
    with pytest.raises(QueueError, match="directory refresh"):
        shared.qm.call("POST", "/directory", document)
    assert shared.refreshed() == ""
    assert shared.qm.call("POST", "/directory", document)["changes"] == []
    (paris,) = shared.qm.call("GET", "/directory")["sites"]
    shared.path.write_text(shared.path.read_text() + "\n[[sites]]\nname = 'Lyon'\n")
    renamed = {"document": {"sites": [{"name": "Lyon", "guid": paris["guid"]}]}}
    with pytest.raises(QueueError, match="the file has another one"):
        shared.qm.call("POST", "/directory", renamed)


def test_queues_follow_what_others_write(shared: Shared) -> None:
    """A queue of ours comes with its entry, goes with it when it is empty, and loses nothing."""
    entry = OWN_QUEUE.format(name="made", guid=uuid.uuid4())
    assert shared.edit(f"{shared.whole}\n{entry}label = 'Made'\n") == ""
    made = shared.qm.queue(r"ALPHA\made")
    assert made.properties().label == "Made"
    made.send(b"x", recoverable=True)
    assert shared.edit(shared.whole) == ""
    assert "is deleted when it is empty" in made.properties().reason
    again = OWN_QUEUE.format(name="made", guid=uuid.uuid4())
    assert shared.edit(f"{shared.whole}\n{again}") == ""  # restored, under another identifier
    assert made.properties().reason == ""
    assert shared.edit(shared.whole) == ""
    assert made.receive(0).body == b"x"
    assert shared.edit(f"# once more\n{shared.whole}") == ""
    assert shared.queues() == set()


def test_another_machine_of_our_name_keeps_us_out(shared: Shared) -> None:
    shared.path.write_text(MACHINE.format(name="ALPHA", guid=uuid.uuid4()))
    assert "does not take this queue manager in" in shared.refreshed()


def text(words: str) -> bytes:
    return b"\2\1" + words.encode("utf-16-le")


NO_NEWS = [
    (b"\2", "without a change"),
    (b"\7\1" + NEWS[2:], "of version 7"),
    (NEWS + bytes(5000), "5"),
    (text("<Notification/>"), "with another text"),
    (b"\2\1\0\xd8", "with another text"),
    (
        NEWS.replace("71717171-7171".encode("utf-16-le"), ("-" * 13).encode("utf-16-le")),
        "is not a GUID",
    ),
    (b"\1\1\0", "breaks off"),
    (b"\1\1\0\1\0", "breaks off"),
    (b"\1\1\0\0ab", "without an end"),
]


def test_what_is_no_news_has_no_effect(shared: Shared, tmp_path: Path) -> None:
    more = SETTINGS.format(path=shared.path)
    with ExitStack() as stack:
        beta = Office(tmp_path / "BETA", "BETA", stack, more)
        wait_until(lambda: "BETA" in shared.path.read_text(), shared.path.read_text)
        assert shared.refreshed() == ""
        beta.qm.call("POST", "/directory/refresh")
        notify = beta.qm.queue(f"PRIVATE={shared.qm.guid}\\3")
        for body, _ in NO_NEWS:
            notify.send(body)
        notify.send(b"\1\1\0\0a\0\0\0" + bytes(60))  # from the oldest managers: not for us
        for _, words in NO_NEWS:
            wait_until(lambda words=words: words in shared.log(), shared.log)  # type: ignore[misc]
        shared.path.write_text(shared.path.read_text() + "\n[[sites]]\nname = 'Paris'\n")
        time.sleep(0.2)
        assert "Paris" not in str(shared.qm.call("GET", "/directory"))
        notify.send(NEWS)
        wait_until(lambda: "Paris" in str(shared.qm.call("GET", "/directory")), shared.log)
        lose_us(shared, lambda: notify.send(NEWS))


def lose_us(shared: Shared, have_it_read: Callable[[], object]) -> None:
    """The file of somebody else takes nothing of ours; an operator's word brings us back."""
    shared.qm.create_queue(r"ALPHA\ours")
    many = "".join(f"[[sites]]\nname = 'Site {number}'\n" for number in range(600))
    shared.path.write_text(MACHINE.format(name="OTHER", guid=uuid.uuid4()) + many)
    have_it_read()
    wait_until(lambda: "no longer has this queue manager" in str(shared.qm.status()), shared.log)
    assert shared.queues() == {r"ALPHA\ours"}
    assert "cannot be asked" in shared.qm.queue(r"ALPHA\ours").properties().reason
    assert shared.refreshed() == ""
    wait_until(lambda: "ours" in shared.path.read_text(), shared.path.read_text)
    assert shared.qm.queue(r"ALPHA\ours").properties().reason == ""
    shared.qm.delete_queue(r"ALPHA\ours")


def test_without_the_file_questions_are_answered_from_what_is_here(shared: Shared) -> None:
    """As far as the document lets them be: of others nothing is said, messages go on."""
    other, far, branches = (str(uuid.uuid4()) for _ in range(3))
    entries = (
        MACHINE.format(name="OTHER", guid=other),
        f"[[queues]]\npath = 'OTHER\\far'\nguid = '{far}'\n",
        f"[[lists]]\nname = 'Branches'\nguid = '{branches}'\nmembers = ['OTHER\\far']\n",
    )
    assert shared.edit(f"{shared.whole}\n{''.join(entries)}") == ""
    ours = shared.qm.create_queue(r"ALPHA\ours")
    text = shared.path.read_text()
    shared.path.unlink()
    assert "does not exist" in shared.refreshed()
    ours.send(b"x")
    assert shared.qm.queue(ours.properties().guid_name).receive(0).body == b"x"
    shared.qm.queue(f"PUBLIC={far}").send(b"x")
    for asked in (
        lambda: shared.qm.queue(f"DL={branches}").send(b"x"),
        lambda: shared.qm.queue(f"PUBLIC={uuid.uuid4()}").send(b"x"),
        lambda: shared.qm.find_queues(),
        lambda: shared.qm.call("GET", f"/directory/place?queue=PUBLIC={far}"),
        lambda: shared.qm.call("POST", "/directory/users", {"user": "S-1-5-21-7", "name": "Eve"}),
        lambda: shared.qm.call("POST", "/directory", {"document": {"sites": [{"name": "Ulm"}]}}),
    ):
        with pytest.raises(QueueError):
            asked()
    assert shared.edit(text) == ""
    shared.qm.delete_queue(r"ALPHA\ours")


def test_a_file_that_is_written_all_the_time_is_away(shared: Shared) -> None:
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        with shared.path.open("a") as file:
            while not ended.wait(0.005):
                file.write("#\n")
                file.flush()
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    try:
        assert "is being written by another process" in shared.refreshed()
    finally:
        ended.set()
        writer.join()


@pytest.mark.parametrize(
    "identified",
    ["", "guid = '5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b55'\n"],
    ids=["by name", "by guid"],
)
def test_the_file_may_speak_of_the_enterprise(shared: Shared, identified: str) -> None:
    enterprise = f"[enterprise]\nname = 'Post'\n{identified}"
    assert shared.edit(f"{enterprise}\n{shared.whole}") == ""
    found = shared.qm.call("GET", "/directory")["enterprise"]
    assert found["name"] == "Post"
    assert found["guid"] in identified or not identified


def test_a_program_of_its_own_shares_the_file(shared: Shared, tmp_path: Path) -> None:
    settings = SETTINGS.format(path=shared.path).replace("@PORT@", "1801")
    (tmp_path / "posthouse.toml").write_text(settings)
    with posthouse.open(tmp_path, name="GAMMA") as qm:
        mine = qm.create_queue(r"GAMMA\mine")
        assert shared.refreshed() == ""
        assert [one.path for one in shared.qm.find_queues()] == [r"GAMMA\mine"]
        mine.delete()


def test_whoever_shares_a_file_by_its_group_keeps_it_shared(tmp_path: Path) -> None:
    """Another user writes it, who may not give it back to its owner."""
    group = 4711 if os.geteuid() == 0 else os.getegid()
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are for their owner
        file = Path(folder, "directory.toml")
        file.touch()
        for place, mode in ((Path(folder), 0o770), (file, 0o660)):
            os.chown(place, -1, group)
            place.chmod(mode)
        changed_by_a_guest(file, group, tmp_path)
        assert "Berlin" in file.read_text()
        assert (file.stat().st_gid, file.stat().st_mode & 0o777) == (group, 0o660)


def changed_by_a_guest(file: Path, group: int, tmp_path: Path) -> None:
    loaded = Loaded(tmp_path, "tests.process.directory_guest")
    pid = loaded.fork("tests.process.directory_guest", str(file), str(group))
    assert loaded.wait(pid) == 0, loaded.errors.read_text()
    loaded.close()


def test_what_others_changed_meanwhile_may_not_suit_what_is_asked_for(shared: Shared) -> None:
    queue = {"path": r"OTHER\far", "guid": str(uuid.uuid4())}
    entries = MACHINE.format(name="OTHER", guid=uuid.uuid4())
    entries += f"[[queues]]\npath = 'OTHER\\far'\nguid = '{queue['guid']}'\n"
    assert shared.edit(f"{shared.whole}\n{entries}") == ""
    shared.path.write_text(f"{shared.path.read_text()}transactional = true\n")
    document = {"queues": [queue | {"multicast_address": "234.1.1.1:8001"}]}
    with pytest.raises(QueueError, match="multicast"):
        shared.qm.call("POST", "/directory", {"document": document})
    assert "multicast" not in shared.path.read_text()
    shared.path.write_text(
        shared.path.read_text().replace("'OTHER'\n", "'OTHER'\nclustered = true\n")
    )
    (other,) = [
        one for one in shared.qm.call("GET", "/directory")["machines"] if one["name"] == "OTHER"
    ]
    document = {"machines": [other | {"in_routing_servers": ["ALPHA"]}]}
    wanted = {"document": document, "only": ["in_routing_servers"]}
    shared.qm.call("POST", "/directory", wanted)
    assert "clustered = true" in shared.path.read_text()
