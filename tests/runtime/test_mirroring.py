"""A queue manager whose directory is a file that others change too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from posthouse.directory import objects
from posthouse.directory.base import equals
from posthouse.directory.document.document import Document, SitePart
from posthouse.directory.mirror import Action, Order
from posthouse.engine.directory.authority_calls import AuthorityNeeded
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import JOURNAL
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import DsError, NoDs, QueueExists, QueueNotFound
from posthouse.model.guids import format_guid
from posthouse.model.names import parse_format_name
from posthouse.model.properties import UNLIMITED, QueueProperties
from posthouse.runtime.directory.authority import reached_at
from tests.engine.rig import RECEIVE, RECOVERABLE, SEND, Rig
from tests.engine.settings import changed
from tests.runtime.sharing import SharingRig, file_of

SITE = objects.Site(identifier=b"s" * 16, name="North")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return file_of(tmp_path / "directory.toml")


@pytest.fixture
def rig(path: Path) -> SharingRig:
    made = SharingRig(path)
    assert made.refresh()
    return made


def names(rig: SharingRig, kind: type[objects.DirectoryObject]) -> set[str]:
    found = rig.manager.directory.service.read_all(kind, rig.clock.now_ms)
    assert found is not None
    return {one.unique_name for one in found}


def create(rig: SharingRig, path: str, **properties: object) -> None:
    rig.run(lambda m: m.queues.create_queue(path, QueueProperties(**properties), rig.admin))  # type: ignore[arg-type]


def local(rig: SharingRig, name: str) -> object:
    return rig.manager.queues.find_local(parse_format_name(f"DIRECT=OS:{name}"))


def test_the_own_object_is_entered_at_first_contact(rig: SharingRig, path: Path) -> None:
    text = path.read_text()
    assert 'name = "ALPHA"' in text
    assert format_guid(rig.manager.machine.identifier) in text
    assert rig.manager.directory.state().online


@pytest.mark.spec("MS-MQDMPR 3.1.3/11", "MS-MQDMPR 3.1.7.1.18/3")
def test_a_start_without_the_file_is_offline_and_goes_on_when_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "directory.toml"
    rig = SharingRig(path)
    assert not rig.refresh()
    state = rig.manager.directory.state()
    assert not state.online
    assert "does not exist" in state.reason
    with pytest.raises(NoDs, match="does not exist"):
        create(rig, "ALPHA\\orders")
    file_of(path)
    assert rig.refresh()
    create(rig, "ALPHA\\orders")
    assert "orders" in path.read_text()


def test_what_another_manager_enters_is_seen_after_a_refresh(rig: SharingRig, path: Path) -> None:
    other = SharingRig(path, computer_name="BETA")
    assert other.refresh()
    create(other, "BETA\\orders", label="Orders")
    assert rig.refresh()
    assert names(rig, objects.Queue) == {"beta\\orders"}
    assert names(rig, objects.QueueManager) == {"alpha", "beta"}


def test_a_queue_that_exists_in_the_authority_is_refused(rig: SharingRig, path: Path) -> None:
    rig.change(
        Order(Action.CREATE, objects.Queue(pathname="ALPHA\\orders"), 1),
    )
    with pytest.raises(QueueExists, match="another one"):
        create(rig, "ALPHA\\orders")
    assert local(rig, "ALPHA\\orders") is None


def test_a_public_queue_is_created_changed_and_deleted_in_both_places(
    rig: SharingRig, path: Path
) -> None:
    create(rig, "ALPHA\\orders", label="One")
    rig.run(lambda m: m.queues.set_queue("ALPHA\\orders", rig.admin, label="Two"))
    assert 'label = "Two"' in path.read_text()
    rig.restart()
    assert rig.refresh()
    queue = rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)
    assert queue.definition.label == "Two"
    rig.run(lambda m: m.queues.delete_queue("ALPHA\\orders", rig.admin))
    assert "orders" not in path.read_text()
    assert names(rig, objects.Queue) == set()


def test_a_queue_entered_by_somebody_else_comes_into_being(rig: SharingRig) -> None:
    value = objects.Queue(
        identifier=b"q" * 16, pathname="ALPHA\\orders", label="New", transactional=True
    )
    rig.change(Order(Action.CREATE, value, 1))
    assert rig.refresh()
    queue = rig.manager.queues.queue_properties(
        "PUBLIC=71717171-7171-7171-7171-717171717171", rig.admin
    )
    assert (queue.definition.label, queue.definition.transactional) == ("New", True)
    rig.restart()
    assert local(rig, "ALPHA\\orders") is not None


def test_a_queue_changed_by_somebody_else_changes(rig: SharingRig) -> None:
    create(rig, "ALPHA\\orders")
    (value,) = rig.manager.directory.queues.directory.all_known(objects.Queue)
    rig.change(Order(Action.WRITE, _with(value, label="Theirs", quota=7), 1))
    assert rig.refresh()
    queue = rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)
    assert (queue.definition.label, queue.definition.quota_kib) == ("Theirs", 7)


def test_quotas_of_the_machine_that_others_set_hold_beside_the_operators(rig: SharingRig) -> None:
    """Event 4 of a change notification: QueueManagerQuota, JournalQuota, Security ([MS-MQCN])."""
    own = equals("identifier", rig.manager.machine.identifier)

    def said(machine_kib: int, journal_kib: int) -> tuple[int, int]:
        value = rig.manager.directory.queues.directory.known(objects.QueueManager, own)
        assert value is not None
        quotas = {"queue_manager_quota": machine_kib, "journal_quota": journal_kib}
        there = msgspec.structs.replace(value, **quotas)
        rig.change(Order(Action.WRITE, there, 1, frozenset(quotas)))
        assert rig.refresh()
        return limits()

    def limits() -> tuple[int, int]:
        return rig.manager.machine.settings.machine_quota_kib, rig.manager.ledger.queues[
            JOURNAL
        ].limit

    assert said(700, 3) == (700, 3 << 10)
    rig.restart()  # and before the directory can be asked
    assert limits() == (700, 3 << 10)
    rig.run(lambda m: m.queues.set_queue(r".\system$;journal", rig.admin, quota_kib=2))
    assert limits() == (700, 2 << 10)
    assert said(UNLIMITED, UNLIMITED) == (UNLIMITED, 2 << 10)


def _with(value: objects.Queue, **changes: object) -> objects.Queue:
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return objects.Queue(**{**fields, **changes})


def test_an_empty_queue_that_somebody_else_deleted_goes(rig: SharingRig) -> None:
    create(rig, "ALPHA\\orders")
    (value,) = rig.manager.directory.queues.directory.all_known(objects.Queue)
    rig.change(Order(Action.DELETE, value, 1))
    assert rig.refresh()
    assert local(rig, "ALPHA\\orders") is None


def test_a_queue_with_messages_that_somebody_else_deleted_stays_until_it_is_empty(
    rig: SharingRig,
) -> None:
    create(rig, "ALPHA\\orders")
    rig.send(rig.open("ALPHA\\orders", SEND), b"one")
    (value,) = rig.manager.directory.queues.directory.all_known(objects.Queue)
    rig.change(Order(Action.DELETE, value, 1))
    assert rig.refresh()
    queue = rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)
    assert "no longer has this queue" in rig.manager.directory.mirroring.reason_of(queue)
    rig.restart()
    assert rig.refresh()
    assert rig.receive(rig.open("ALPHA\\orders", RECEIVE)).message.body == b"one"
    assert rig.refresh()
    assert local(rig, "ALPHA\\orders") is None


def test_a_queue_of_the_time_before_the_file_is_entered_there(tmp_path: Path) -> None:
    path = tmp_path / "directory.toml"
    rig = SharingRig(path)
    rig.settings = _following(rig, "")
    rig.restart()
    rig.run(lambda m: m.queues.create_queue("ALPHA\\orders", QueueProperties(), rig.admin))
    identifier = rig.manager.queues.queue_properties(
        "ALPHA\\orders", rig.admin
    ).definition.identifier
    rig.settings = _following(rig, f"file {path}")
    rig.restart()
    file_of(path)
    assert rig.refresh()
    assert format_guid(identifier) in path.read_text()
    assert rig.refresh()
    assert local(rig, "ALPHA\\orders") is not None
    queue = rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)
    assert rig.manager.directory.mirroring.reason_of(queue) == ""


def _following(rig: SharingRig, source: str) -> EngineSettings:
    return changed(rig.settings, directory_file=source.removeprefix("file "))


def test_a_broken_file_leaves_what_was_known_and_says_where(rig: SharingRig, path: Path) -> None:
    rig.change(Order(Action.CREATE, SITE, 1))
    assert rig.refresh()
    good = path.read_text()
    path.write_text(good + "\n[[sites]]\nname = 7\n")
    assert not rig.refresh()
    state = rig.manager.directory.state()
    assert not state.online
    assert f"{path}, line " in state.reason
    known = rig.manager.directory.service.known(
        objects.Site, equals("name", "North"), rig.clock.now_ms
    )
    assert known.value is not None
    path.write_text(good)
    assert rig.refresh()
    assert rig.manager.directory.state().online


def test_it_is_told_since_when_and_when_last(path: Path) -> None:
    rig = SharingRig(path)
    start = rig.clock.utc_seconds

    def told() -> tuple[int, int]:
        state = rig.manager.directory.state()
        return state.since, state.refreshed

    def told_after(seconds: int) -> tuple[int, int]:
        rig.advance(seconds)
        rig.refresh()
        since, refreshed = told()
        return since - start, refreshed - start

    assert told() == (0, 0)
    assert told_after(0) == (0, 0)
    assert told_after(10) == (0, 10)
    good = path.read_text()
    path.unlink()
    assert told_after(10) == (20, 10)
    assert told_after(10) == (20, 10)
    path.write_text(good)
    assert told_after(10) == (40, 40)


def test_a_file_that_is_gone_can_be_written_anew_from_what_is_known(
    rig: SharingRig, path: Path
) -> None:
    rig.change(Order(Action.CREATE, SITE, 1))
    assert rig.refresh()
    path.unlink()
    assert not rig.refresh()
    document = rig.run(lambda m: m.directory.document())
    assert [site.name for site in document.sites] == ["North"]
    assert [machine.name for machine in document.machines] == ["ALPHA"]
    other = Document(sites=[SitePart(name="South")])
    with pytest.raises(NoDs, match="does not exist"):
        rig.run(lambda m: m.directory.take_in(other, prune=False, dry_run=False))


def test_an_import_goes_into_the_file_as_a_whole(rig: SharingRig, path: Path) -> None:
    document = Document(sites=[SitePart(name="North"), SitePart(name="South")])
    made = rig.run(lambda m: m.directory.take_in(document, prune=False, dry_run=False))
    assert len(made.created) == 2
    assert names(rig, objects.Site) == {"north", "south"}
    before = path.read_text()
    rig.refresh()
    assert names(rig, objects.Site) == {"north", "south"}
    assert path.read_text() == before


def test_a_removal_goes_to_the_file(rig: SharingRig, path: Path) -> None:
    rig.change(Order(Action.CREATE, SITE, 1))
    assert rig.refresh()
    rig.run(lambda m: m.directory.remove("site", "North", dry_run=False))
    assert "North" not in path.read_text()
    assert names(rig, objects.Site) == set()


def test_another_manager_with_our_name_keeps_us_offline(path: Path) -> None:
    file_of(path, objects.QueueManager(identifier=b"x" * 16, computer_name="ALPHA"))
    rig = SharingRig(path)
    rig.refresh()
    state = rig.manager.directory.state()
    assert not state.online
    assert "another one" in state.reason
    assert format_guid(b"x" * 16) in path.read_text()
    assert format_guid(rig.manager.machine.identifier) not in path.read_text()


def test_a_refused_file_gives_the_reason_and_changes_nothing(
    rig: SharingRig, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(DsError, match="No space left"):
        create(rig, "ALPHA\\orders")
    monkeypatch.undo()
    assert local(rig, "ALPHA\\orders") is None
    assert rig.refresh()
    assert local(rig, "ALPHA\\orders") is None


def _full(handle: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_call_without_an_authority_is_refused(rig: SharingRig) -> None:
    rig.driver.on_need = None
    with pytest.raises(NoDs, match="asked first"):
        create(rig, "ALPHA\\orders")
    with pytest.raises(QueueNotFound):
        rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)


@pytest.mark.parametrize("emptied", [True, False])
def test_an_authority_that_lost_us_takes_nothing_of_ours_away(
    rig: SharingRig, path: Path, emptied: bool
) -> None:
    create(rig, "ALPHA\\orders")
    assert rig.refresh()
    if emptied:
        path.write_text("")
    else:
        file_of(path, SITE)
    for _ in range(3):
        rig.refresh()
    state = rig.manager.directory.state()
    assert not state.online
    assert "directory refresh" in state.reason
    assert local(rig, "ALPHA\\orders") is not None
    queue = rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)
    assert "no longer has" in rig.manager.directory.mirroring.reason_of(queue)
    assert "ALPHA" not in path.read_text()


@pytest.mark.parametrize("by_restart", [True, False])
def test_an_operator_or_a_restart_enters_us_again(
    rig: SharingRig, path: Path, by_restart: bool
) -> None:
    create(rig, "ALPHA\\orders")
    path.write_text("")
    rig.refresh()
    if by_restart:
        rig.restart()
    else:
        rig.run(lambda m: m.directory.begin_again())
    assert rig.refresh()
    assert rig.manager.directory.state().online
    assert local(rig, "ALPHA\\orders") is not None
    text = path.read_text()
    assert 'name = "ALPHA"' in text
    assert "orders" in text


class _Crash(Exception):
    """The process dies when the authority has done it, and before the engine hears of it."""


def _crashing(rig: SharingRig, call: Callable[[QueueManager], object]) -> None:
    def crash(need: AuthorityNeeded, call: object, release: object) -> None:
        assert isinstance(rig.feed.ask_now(need.orders), list)
        raise _Crash

    rig.driver.on_need = crash
    with pytest.raises(_Crash):
        rig.run(call)
    rig.restart()
    assert rig.refresh()


def test_a_crash_behind_the_creation_leaves_a_queue_in_both_places(rig: SharingRig) -> None:
    _crashing(rig, lambda m: m.queues.create_queue("ALPHA\\orders", QueueProperties(), rig.admin))
    queue = rig.manager.queues.queue_properties("ALPHA\\orders", rig.admin)
    known = rig.manager.directory.queues.directory.all_known(objects.Queue)
    assert [one.identifier for one in known] == [queue.definition.identifier]


@pytest.mark.parametrize("messages", [0, 1])
def test_a_crash_behind_the_deletion_loses_no_message(rig: SharingRig, messages: int) -> None:
    create(rig, "ALPHA\\orders")
    for _ in range(messages):
        rig.send(rig.open("ALPHA\\orders", SEND), b"one", delivery_guarantee=RECOVERABLE)
    _crashing(rig, lambda m: m.queues.delete_queue("ALPHA\\orders", rig.admin))
    assert (local(rig, "ALPHA\\orders") is not None) is bool(messages)
    if messages:
        assert rig.bodies("ALPHA\\orders") == [b"one"]
        rig.run(lambda m: m.queues.delete_queue("ALPHA\\orders", rig.admin))
        assert local(rig, "ALPHA\\orders") is None


def test_a_crash_behind_an_import_is_made_up_for(rig: SharingRig) -> None:
    document = Document(sites=[SitePart(name="North"), SitePart(name="South")])
    _crashing(rig, lambda m: m.directory.take_in(document, prune=False, dry_run=False))
    assert names(rig, objects.Site) == {"north", "south"}


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.25/1", "MS-MQDMPR 3.1.7.1.25/2")
def test_what_was_known_routes_messages_while_the_file_is_away(rig: SharingRig, path: Path) -> None:
    beta = objects.QueueManager(identifier=b"b" * 16, computer_name="BETA")
    rig.change(Order(Action.CREATE, beta, 1))
    assert rig.refresh()
    good = path.read_text()
    path.unlink()
    assert not rig.refresh()
    service, now_ms = rig.manager.directory.service, rig.clock.now_ms
    assert service.next_hops(beta.identifier, now_ms).candidates == (beta.identifier,)
    found = service.read_directory(
        objects.QueueManager, equals("identifier", beta.identifier), now_ms
    )
    assert found.value is None
    path.write_text(good)
    assert rig.refresh()
    assert not service.offline


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("127.0.0.1:1801", ()),
        ("[::1]:1801", ()),
        ("192.0.2.7:1801", ("192.0.2.7:1801",)),
        ("0.0.0.0:1801", ()),
        ("0.0.0.0:11801", ("alpha.example.com:11801",)),
    ],
)
def test_the_own_object_says_where_others_reach_us(
    endpoint: str, expected: tuple[str, ...]
) -> None:
    assert reached_at(endpoint, "alpha.example.com") == expected


@pytest.mark.spec("MS-MQDMPR 3.1.3/9")
def test_the_own_object_of_an_embedded_directory_says_who_we_are() -> None:
    rig = Rig(software_version="7", directory_addresses=("here:1801",))
    rig.run(lambda m: m.directory.listens_at(("192.0.2.7:1801",)))
    own = rig.manager.directory.own_queue_manager()
    assert (own.queue_manager_version, own.addresses) == ("7", ("here:1801",))
    rig.settings = changed(rig.settings, directory_addresses=(), routing_server=True)
    rig.restart()
    rig.run(lambda m: m.directory.listens_at(("192.0.2.7:1801",)))
    own = rig.manager.directory.own_queue_manager()
    assert (own.routing_server, own.addresses) == (True, ("192.0.2.7:1801",))
