"""Backup while messages come and go; restore, and what is refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event

import msgspec
import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import OperationCancelled, ServiceNotAvailable
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.runtime.backup import (
    LOOKUP_IDS_RAISED,
    MANIFEST_NAME,
    MESSAGE_IDS_RAISED,
    BackupRefused,
    Cut,
    Entry,
    Manifest,
    backup,
    backup_embedded,
    copy_cut,
    read_manifest,
    restore,
)
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.home import STORE, Home, Started, start_manager
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from posthouse.store.disk import RealDisk
from posthouse.store.doctor import check
from posthouse.store.settings import StoreSettings
from posthouse.wire.packet.message import deserialize
from tests.support.machine_books import machine_books

ADMIN = Caller.administrator()
ORDERS = r".\private$\orders"
SMALL = StoreSettings(segment_size=16_000, store_id=b"0123456789abcdef", checkpoint_ratio=1)
SEND, RECEIVE = QueueAccessType.SEND, QueueAccessType.RECEIVE


def opened(home: Path, settings: StoreSettings = SMALL) -> EmbeddedQueueManager:
    return EmbeddedQueueManager(home, settings=EngineSettings("ALPHA"), store_settings=settings)


def durable(label: str) -> Message:
    return Message(label=label, body=b"x" * 100, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)


def labels(manager: EmbeddedQueueManager) -> list[str]:
    reader = manager.open(ORDERS, RECEIVE)
    found = manager.read_many(lambda m: m.messages.dequeue_messages(reader, 100_000))
    return [delivery.message.label for delivery in found]


class Load:
    """Sends and receives in order, one call after the other, until it is told to stop."""

    def __init__(self, desk: Loop, sender: OpenQueueDescriptor, reader: OpenQueueDescriptor):
        self.desk, self.sender, self.reader = desk, sender, reader
        self.sent = self.received = 0
        self.ended = False
        self.reached: dict[int, Event] = {}

    async def run(self) -> None:
        while not self.ended:
            await self.desk.run(self.step)
            self.sent += 3
            self.received += 2
            for count in [count for count in self.reached if count <= self.sent]:
                self.reached.pop(count).set()

    def step(self, manager: QueueManager) -> None:
        for number in range(self.sent, self.sent + 3):
            message = durable(f"{number}")
            manager.messages.enqueue_message_to_an_open_queue(self.sender, message)
        manager.messages.dequeue_messages(self.reader, 2)


def start(home: Home) -> Started:
    return start_manager(home, EngineSettings("ALPHA"), SMALL, lambda event: None)


def test_a_backup_under_load_restores_to_a_state_that_balances(tmp_path: Path) -> None:
    figures: dict[str, int] = {}

    async def main() -> Manifest:
        home = Home(tmp_path / "home")
        started = start(home)
        desk = Loop(started.driver)
        desk.start()
        await desk.run(lambda m: m.queues.create_queue(ORDERS, QueueProperties(), ADMIN))
        sender = await desk.run(lambda m: m.queues.open_queue(ORDERS, SEND, ADMIN))
        reader = await desk.run(lambda m: m.queues.open_queue(ORDERS, RECEIVE, ADMIN))
        load = Load(desk, sender, reader)
        task = asyncio.create_task(load.run())
        while load.sent < 600:
            await desk.run(lambda m: None)
        before = load.sent, load.received
        more = load.reached[load.sent + 300] = Event()

        def progress(done: int, total: int) -> None:
            assert more.wait(30)  # the copy has begun, and a lot happens before it goes on

        manifest = await backup(desk, started.store, tmp_path / "copy", home.path, progress)
        figures["sent"], figures["received"] = before
        assert load.sent > before[0] + 300
        load.ended = True
        await task
        assert not any(s.pins for s in started.store.ledger.segments.values())
        await desk.stop()
        home.close()
        return manifest

    manifest = asyncio.run(main())
    assert len(manifest.files) > 3
    restored = restore(tmp_path / "copy", tmp_path / "new")
    with opened(tmp_path / "new") as manager:
        books = machine_books(manager.manager.queues.all())[r"ALPHA\private$\orders"]
        assert books.balanced
        assert books.accepted >= figures["sent"]
        assert books.received >= figures["received"]
        assert books.waiting == restored.messages
        expected = [str(number) for number in range(books.received, books.accepted)]
        assert labels(manager) == expected  # a moment of the original, exactly
    disk = RealDisk(tmp_path / "new" / STORE, read_only=True)
    assert check(disk).healthy


def filled(home: Path, count: int = 300) -> Manifest:
    """A home with some messages, copied to `copy` beside it."""
    with opened(home) as manager:
        manager.create_queue(ORDERS, QueueProperties())
        sender = manager.open(ORDERS, SEND)
        for number in range(count):
            manager.send(sender, durable(str(number)))
        manager.send(sender, Message(label="express"))
        return backup_embedded(manager.driver, manager.store, home.parent / "copy", home)


def test_identifiers_of_a_restored_store_were_never_given_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    filled(home)
    with opened(home) as manager:
        core = manager.manager.ledger
        was = core.lookup_ids.value, core.ordinals.value, manager.manager.machine.record
        guid = manager.manager.machine.identifier
    restored = restore(tmp_path / "copy", tmp_path / "new")
    with opened(tmp_path / "new") as manager:
        core, record = manager.manager.ledger, manager.manager.machine.record
        assert core.lookup_ids.value >= was[0] + LOOKUP_IDS_RAISED - (1 << 20)
        assert core.ordinals.value >= was[1] + MESSAGE_IDS_RAISED - (1 << 16)
        assert record.sequence_timestamp > was[2].sequence_timestamp
        assert manager.manager.machine.identifier == guid
        sender = manager.open(ORDERS, SEND)
        sent = manager.send(sender, durable("new"))
        assert sent.ordinal >= MESSAGE_IDS_RAISED
        assert restored.lookup_ids_from <= core.lookup_ids.value
    assert any(str(restored.lookup_ids_from) in note for note in restored.notes())
    assert any(str(restored.sequence_timestamp) in note for note in restored.notes())
    assert restored.messages == 300


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/7")
def test_transactional_messages_to_others_begin_new_sequences(tmp_path: Path) -> None:
    elsewhere = r"DIRECT=OS:beta\private$\orders"

    def send(manager: EmbeddedQueueManager, identifier: bytes) -> list[int]:
        sender = manager.open(elsewhere, SEND)

        def transaction(m: QueueManager) -> None:
            tx = m.transactions.create_transaction(identifier)
            m.messages.enqueue_message_to_an_open_queue(sender, Message(label="far"), tx)
            m.transactions.transaction_commit(identifier)

        manager.run(transaction)
        core = manager.manager.ledger
        packets = [manager.store.read(number) for number, _ in core.state.table.items()]
        found = [deserialize(p).transactional_message_sequence_identifier for p in packets]
        return [one.time_stamp for one in found if one is not None]

    with opened(tmp_path / "home") as manager:
        (first,) = send(manager, b"1" * 16)
        backup_embedded(manager.driver, manager.store, tmp_path / "copy", tmp_path / "home")
    restored = restore(tmp_path / "copy", tmp_path / "new")
    with opened(tmp_path / "new") as manager:
        assert send(manager, b"2" * 16) == [first, restored.sequence_timestamp]
    assert restored.sequence_timestamp > first


def test_the_settings_come_along_unless_the_home_has_its_own(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "posthouse.toml").write_text("[log]\nlevel = 'debug'\n")
    filled(home, 3)
    restore(tmp_path / "copy", tmp_path / "new")
    assert (tmp_path / "new" / "posthouse.toml").read_text() == "[log]\nlevel = 'debug'\n"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "posthouse.toml").write_text("")
    restore(tmp_path / "copy", tmp_path / "own")
    assert (tmp_path / "own" / "posthouse.toml").read_text() == ""


def test_a_damaged_checkpoint_is_left_out(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as manager:
        manager.create_queue(ORDERS, QueueProperties())
        manager.send(manager.open(ORDERS, SEND), durable("kept"))
    with opened(tmp_path / "home") as manager:
        for checkpoint in (tmp_path / "home" / STORE).glob("checkpoint-*"):
            checkpoint.write_bytes(b"rotten")
        made = backup_embedded(manager.driver, manager.store, tmp_path / "copy", tmp_path / "home")
        assert not [entry for entry in made.files if entry.name.startswith("checkpoint")]
        assert labels(manager) == ["kept"]
    restore(tmp_path / "copy", tmp_path / "again")
    with opened(tmp_path / "again") as manager:
        assert labels(manager) == ["kept"]


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    manifest = filled(tmp_path / "home")
    seen: list[tuple[int, int]] = []
    restore(tmp_path / "copy", tmp_path / "new", lambda done, total: seen.append((done, total)))
    assert seen[-1] == (manifest.size, manifest.size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_backup_called_off_leaves_no_backup_and_no_pins(tmp_path: Path) -> None:
    async def main() -> None:
        home = Home(tmp_path / "home")
        started = start(home)
        desk = Loop(started.driver)
        desk.start()
        begun, go_on = asyncio.Event(), Event()
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(30)

        copying = backup(desk, started.store, tmp_path / "copy", home.path, progress)
        task = asyncio.create_task(copying)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert not any(s.pins for s in started.store.ledger.segments.values())
        await desk.stop()
        home.close()

    asyncio.run(main())
    with pytest.raises(BackupRefused, match="not finished"):
        restore(tmp_path / "copy", tmp_path / "new")


# -- what is refused


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def first_segment(copy: Path) -> Path:
    return sorted((copy / STORE).glob("*.log"))[0]


def edited(copy: Path, *, signed: bool = True, **changes: object) -> None:
    """Changes the manifest; `signed`: by somebody who knows about its checksum."""
    path = copy / MANIFEST_NAME
    manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    manifest = msgspec.structs.replace(manifest, **changes)
    if signed:
        manifest.checksum = manifest.own_checksum()
    path.write_bytes(msgspec.json.encode(manifest))


def files(copy: Path) -> list[Entry]:
    return read_manifest(copy).files


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a changed byte": (lambda copy: flip(first_segment(copy), 700), "was changed"),
    "a byte less": (
        lambda copy: first_segment(copy).write_bytes(first_segment(copy).read_bytes()[:-1]),
        "another size",
    ),
    "a missing file": (lambda copy: first_segment(copy).unlink(), "missing"),
    "no manifest": (lambda copy: (copy / MANIFEST_NAME).unlink(), "not finished"),
    "half a manifest": (
        lambda copy: (copy / MANIFEST_NAME).write_bytes((copy / MANIFEST_NAME).read_bytes()[:100]),
        "damaged",
    ),
    "a changed manifest": (
        lambda copy: edited(copy, signed=False, name="BETA"),
        "manifest.json was changed",
    ),
    "another format": (
        lambda copy: edited(copy, format=2),
        "format 2",
    ),
    "a way out of the store": (
        lambda copy: edited(copy, files=[Entry("../../escape.log", 1, "")]),
        "belongs to no store",
    ),
    "another queue manager's store": (
        lambda copy: edited(copy, guid="0" * 36),
        "another queue manager",
    ),
    "a segment left out": (
        lambda copy: edited(copy, files=files(copy)[1:]),
        "cannot be opened",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_manipulated_backup_is_refused_and_leaves_the_home_empty(
    tmp_path: Path, damage: str
) -> None:
    filled(tmp_path / "home", 200)
    spoil, reason = DAMAGES[damage]
    spoil(tmp_path / "copy")
    with pytest.raises(BackupRefused, match=reason):
        restore(tmp_path / "copy", tmp_path / "new")
    assert not (tmp_path / "new" / STORE).exists()
    assert not (tmp_path / "escape.log").exists()


def test_a_restore_that_was_refused_can_be_tried_again(tmp_path: Path) -> None:
    filled(tmp_path / "home", 50)
    flip(first_segment(tmp_path / "copy"), 700)
    with pytest.raises(BackupRefused):
        restore(tmp_path / "copy", tmp_path / "new")
    flip(first_segment(tmp_path / "copy"), 700)
    assert restore(tmp_path / "copy", tmp_path / "new").messages == 50
    with opened(tmp_path / "new") as manager:
        assert labels(manager) == [str(number) for number in range(50)]


def test_a_home_with_a_store_or_in_use_is_not_overwritten(tmp_path: Path) -> None:
    filled(tmp_path / "home", 5)
    with pytest.raises(BackupRefused, match="holds a store"):
        restore(tmp_path / "copy", tmp_path / "home")
    with opened(tmp_path / "home") as manager:
        with pytest.raises(ServiceNotAvailable, match="in use"):
            restore(tmp_path / "copy", tmp_path / "home")
        assert len(labels(manager)) == 6


def test_a_backup_needs_a_new_folder_outside_the_home(tmp_path: Path) -> None:
    filled(tmp_path / "home", 5)
    with opened(tmp_path / "home") as manager:
        for target, reason in (("copy", "not empty"), ("home/copy", "in the home itself")):
            with pytest.raises(BackupRefused, match=reason):
                backup_embedded(manager.driver, manager.store, tmp_path / target, tmp_path / "home")
        assert not any(s.pins for s in manager.store.ledger.segments.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to another user")
def test_a_backup_goes_into_no_folder_of_another_user(tmp_path: Path) -> None:
    """Its owner could exchange the files before a restore."""
    filled(tmp_path / "home", 5)
    folders = {0: tmp_path / "own", 65534: tmp_path / "foreign"}
    for owner, folder in folders.items():
        folder.mkdir()
        os.chown(folder, owner, -1)
    with opened(tmp_path / "home") as manager:
        driver, store = manager.driver, manager.store
        with pytest.raises(BackupRefused, match="belongs to another user"):
            backup_embedded(driver, store, folders[65534], tmp_path / "home")
        assert list(folders[65534].iterdir()) == []
        assert backup_embedded(driver, store, folders[0], tmp_path / "home").files


def test_a_copy_that_was_called_off_says_so(tmp_path: Path) -> None:
    filled(tmp_path / "home", 5)
    with opened(tmp_path / "home") as manager:
        cut = manager.run(lambda m: Cut(manager.store))
        cut.cancelled.set()
        with pytest.raises(OperationCancelled):
            copy_cut(
                cut,
                manager.manager,
                tmp_path / "other",
                tmp_path / "home",
                lambda done, total: None,
            )
        cut.give_back()
    assert not (tmp_path / "other" / MANIFEST_NAME).exists()


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = filled(tmp_path / "home", 5)
    assert read_manifest(tmp_path / "copy") == manifest
