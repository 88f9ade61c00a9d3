"""A directory in one file: what is read, what is written, who waits for whom."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory import objects
from posthouse.directory.authority import AuthorityAway, Changes, Refused
from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.mirror import Action, Order, TakesTogether, carry_out
from posthouse.runtime.directory.file import _take_over
from tests.runtime.sharing import HandyFile, file_of

SITE = objects.Site(identifier=b"s" * 16, name="North")
MACHINE = objects.QueueManager(identifier=b"m" * 16, computer_name="ALPHA")
UTC = 1_700_000_000


def opened(path: Path, seed: int = 1) -> HandyFile:
    return HandyFile(path, _guids(seed), 0.05)


def _guids(seed: int) -> Callable[[], bytes]:
    chance = random.Random(seed)
    return lambda: chance.randbytes(16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return file_of(tmp_path / "directory.toml")


def test_the_first_answer_is_everything(path: Path) -> None:
    file_of(path, SITE, MACHINE)
    changes = opened(path).changes("")
    assert changes.whole
    assert {type(one) for one in changes.objects} == {objects.Site, objects.QueueManager}


def test_later_answers_are_what_changed(path: Path) -> None:
    file_of(path, SITE, MACHINE)
    authority = opened(path)
    token = authority.changes("").token
    assert authority.changes(token) == Changes([], [], False, token)
    file_of(path, msgspec.structs.replace(SITE, foreign_site=True))
    changes = authority.changes(token)
    assert not changes.whole
    assert [type(one) for one in changes.objects] == [objects.Site]
    assert changes.gone == [(objects.QueueManager, MACHINE.identifier)]


def test_an_unknown_token_gets_everything(path: Path) -> None:
    file_of(path, SITE)
    assert opened(path).changes("another one").whole


def test_an_empty_file_is_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "new.toml").touch()
    assert opened(tmp_path / "new.toml").changes("").objects == []


def test_what_is_created_is_as_it_is_read_later(path: Path) -> None:
    queue = objects.Queue(pathname="ALPHA\\orders", label='Ä " ü', quota=12, security=b"")
    authority = opened(path)
    stored = authority.create(queue, UTC)
    assert stored.identifier != bytes(16)
    assert (stored.create_time, stored.modify_time) == (UTC, UTC)  # type: ignore[attr-defined]
    assert stored.full_path.startswith("CN=orders,")  # type: ignore[attr-defined]
    assert opened(path).changes("").objects == [stored]


def test_what_is_written_keeps_the_rest(path: Path) -> None:
    file_of(path, msgspec.structs.replace(MACHINE, addresses=("here:1801",)))
    authority = opened(path)
    changed = msgspec.structs.replace(MACHINE, routing_server=True)
    stored = authority.write(changed, UTC, {"routing_server"})
    assert isinstance(stored, objects.QueueManager)
    assert (stored.routing_server, stored.addresses) == (True, ("here:1801",))
    assert opened(path).changes("").objects == [stored]


def test_what_is_deleted_is_gone(path: Path) -> None:
    file_of(path, SITE, MACHINE)
    opened(path).delete(SITE)
    assert [type(one) for one in opened(path).changes("").objects] == [objects.QueueManager]


@pytest.mark.parametrize(
    ("order", "status"),
    [
        (Order(Action.CREATE, SITE, 1), DirectoryOperationResult.OBJECT_ALREADY_EXISTS),
        (
            Order(Action.CREATE, objects.Site(name="north"), 1),
            DirectoryOperationResult.OBJECT_ALREADY_EXISTS,
        ),
        (Order(Action.WRITE, MACHINE, 1), DirectoryOperationResult.OBJECT_NOT_FOUND),
        (Order(Action.DELETE, MACHINE, 1), DirectoryOperationResult.OBJECT_NOT_FOUND),
        (
            Order(Action.CREATE, objects.Site(name=" "), 1),
            DirectoryOperationResult.GENERIC_ERROR,
        ),
    ],
)
def test_a_refused_change_says_why_and_leaves_the_file(
    path: Path, order: Order, status: DirectoryOperationResult
) -> None:
    file_of(path, SITE)
    before = path.read_bytes()
    with pytest.raises(Refused) as caught:
        carry_out(opened(path), [order])
    assert caught.value.status is status
    assert str(caught.value)
    assert path.read_bytes() == before


def test_several_changes_are_one_or_none(path: Path) -> None:
    authority = opened(path)
    assert isinstance(authority, TakesTogether)
    before = path.read_bytes()
    with pytest.raises(Refused):
        carry_out(authority, [Order(Action.CREATE, SITE, 1), Order(Action.CREATE, SITE, 1)])
    assert path.read_bytes() == before
    other = objects.Site(name="South")
    carry_out(authority, [Order(Action.CREATE, SITE, 1), Order(Action.CREATE, other, 1)])
    assert len(opened(path).changes("").objects) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x = [", "not TOML"),
        (b"\n\n[[sites]]\nname = 7\n", "line 3"),
        (b"\nname = '\xff'\n", "line 2: this is not UTF-8"),
        (b"[[sites]]\nname = 'A'\n[[sites]]\nname = 'a'\n", "twice"),
        (b"[[machines]]\nname = 'A'\nguid = 'x'\n", "A"),
        (b"[[queues]]\npath = 'A\\b'\nguid = '" + b"0" * 31 + b"'\n", "queue"),
        (b"[other]\n", "other"),
    ],
)
def test_a_broken_file_is_an_authority_that_is_away(path: Path, content: bytes, words: str) -> None:
    authority = opened(path)
    token = authority.changes("").token
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(AuthorityAway, match=words):
            authority.changes(token)
    with pytest.raises(AuthorityAway):
        authority.create(SITE, UTC)
    assert path.read_bytes() == content
    file_of(path, SITE)
    assert [one.identifier for one in authority.changes(token).objects] == [SITE.identifier]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_directory_or_an_authority_that_is_away(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with contextlib.suppress(AuthorityAway):
        assert opened(path).changes("").whole


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    authority = opened(tmp_path / "none.toml")
    with pytest.raises(AuthorityAway, match="directory export"):
        authority.changes("")
    with pytest.raises(AuthorityAway):
        authority.create(SITE, UTC)
    assert not (tmp_path / "none.toml").exists()


def test_a_folder_is_not_a_directory_file(tmp_path: Path) -> None:
    with pytest.raises(AuthorityAway, match="cannot be read"):
        opened(tmp_path).changes("")


def test_whoever_holds_the_lock_is_waited_for_but_not_for_ever(path: Path) -> None:
    handle = os.open(path.with_name("directory.toml.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    authority = opened(path)
    assert authority.changes("").whole
    with pytest.raises(AuthorityAway, match="locked by another process"):
        authority.create(SITE, UTC)
    os.close(handle)
    authority.create(SITE, UTC)


def test_two_who_write_at_once_lose_nothing(path: Path) -> None:
    def write(letter: str) -> None:
        authority = HandyFile(path, _guids(ord(letter)), 60)
        for number in range(10):
            authority.create(objects.Site(name=f"{letter}{number}"), UTC)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened(path).changes("").objects) == 20


def test_a_lock_that_was_taken_away_holds_nobody(path: Path) -> None:
    """Two who hold two files of one name would undo each other's changes."""
    place = path.with_name("directory.toml.lock")
    ours, theirs = opened(path), opened(path, 2)
    ours.create(SITE, UTC)
    with ours._locked():
        place.unlink()
        with theirs._locked():
            pass
    handle = os.open(place, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    waiting = HandyFile(path, _guids(3), 30)
    maker = threading.Thread(target=lambda: waiting.create(MACHINE, UTC))
    maker.start()
    place.unlink()  # the other one may be waiting for it already
    with theirs._locked():
        before = path.read_bytes()
        os.close(handle)
        maker.join(0.2)
        assert path.read_bytes() == before, "what we hold, nobody else writes"
    maker.join()
    assert len(opened(path).changes("").objects) == 2


def test_a_new_version_keeps_the_group_and_leaves_nothing_behind(
    path: Path, tmp_path: Path
) -> None:
    others = [one for one in os.getgroups() if one != os.getegid()]
    group = others[0] if others else (4711 if os.geteuid() == 0 else os.getegid())
    os.chown(path, -1, group)
    path.chmod(0o660)
    (tmp_path / f".{path.name}.new").write_text("of one that was killed")
    opened(path).create(SITE, UTC)
    found = [path.stat(), path.with_name("directory.toml.lock").stat()]
    assert [(one.st_gid, stat.S_IMODE(one.st_mode)) for one in found] == [(group, 0o660)] * 2
    assert not list(tmp_path.glob(".*.new"))


@pytest.mark.parametrize(
    ("mode", "needed"),
    [(0o660, True), (0o640, True), (0o664, True), (0o644, False), (0o666, False)],
)
def test_the_group_of_another_owner_is_needed_where_it_may_more_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, needed: bool
) -> None:
    asked: list[tuple[int, int]] = []

    def fchown(handle: int, owner: int, group: int) -> None:
        asked.append((owner, group))
        if owner != -1:
            raise PermissionError

    monkeypatch.setattr("os.fchown", fchown)
    new = tmp_path / "new"
    new.touch()
    owner, group = new.stat().st_uid + 1, new.stat().st_gid + 1
    model = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, group, 0, 0, 0, 0))
    with new.open("w") as file:
        _take_over(file.fileno(), model)
    assert asked == [(owner, group), (-1, group)][: 1 + needed]
    assert stat.S_IMODE(new.stat().st_mode) == mode


def test_a_new_version_keeps_the_mode_and_the_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    path.chmod(0o640)
    opened(link).create(SITE, UTC)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "North" in path.read_text()
    assert not list(tmp_path.glob(".*.new"))


def test_a_disk_that_is_full_refuses_and_leaves_nothing_behind(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Refused, match="No space left") as caught:
        opened(path).create(SITE, UTC)
    assert caught.value.status is DirectoryOperationResult.GENERIC_ERROR
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*.new"))


def test_a_huge_file_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posthouse.runtime.directory.file.FILE_SIZE_MAX", 10)
    path.write_text("# more than ten bytes\n")
    with pytest.raises(AuthorityAway, match="MiB"):
        opened(path).changes("")


def test_what_we_wrote_and_somebody_deleted_is_told_as_gone(path: Path) -> None:
    authority = opened(path)
    token = authority.changes("").token
    stored = authority.create(SITE, UTC)
    opened(path).delete(stored)
    assert authority.changes(token).gone == [(objects.Site, SITE.identifier)]
    authority.close()


def test_a_pipe_keeps_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "directory.toml")
    with pytest.raises(AuthorityAway, match="is not a file"):
        opened(tmp_path / "directory.toml").changes("")


class Written(HandyFile):
    """Somebody writes the file in place, a line with every look at it."""

    lines: tuple[str, ...] = ()

    def _read_once(self) -> tuple[Any, bytes, bool]:
        found = super()._read_once()
        line, *rest = self.lines or ("",)
        self.lines = tuple(rest)
        with self.path.open("a") as file:
            file.write(line)
        return found


def test_half_a_file_is_no_directory(tmp_path: Path) -> None:
    """What an editor has not written yet would count as deleted."""
    path = tmp_path / "directory.toml"
    path.touch()
    authority = Written(path, _guids(1))
    authority.lines = ('[[sites]]\nname = "North"\n', "[[sites]]\n", 'name = "South"\n')
    assert {one.unique_name for one in authority.changes("").objects} == {"north", "south"}


def test_a_file_that_is_written_all_the_time_is_away(tmp_path: Path) -> None:
    path = tmp_path / "directory.toml"
    path.touch()
    authority = Written(path, _guids(1))
    authority.lines = ("# more\n",) * 100
    with pytest.raises(AuthorityAway, match="is being written"):
        authority.create(SITE, UTC)
    assert "North" not in path.read_text()


def test_nothing_is_written_through_a_link_that_was_laid_for_us(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".{path.name}.new").symlink_to(victim)
    opened(path).create(SITE, UTC)
    assert victim.read_text() == "precious"
    assert "North" in path.read_text()
