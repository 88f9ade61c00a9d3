"""Names that the directory explains: public queues by path and identifier, lists, aliases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from posthouse.directory.document.document import (
    AliasPart,
    Document,
    ListPart,
    MachinePart,
    QueuePart,
)
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import (
    IllegalFormatName,
    MachineNotFound,
    NoDs,
    QueueNotFound,
    UnsupportedFormatNameOperation,
)
from posthouse.model.guids import format_guid
from posthouse.model.names import parse_name
from tests.engine.letters import PEEK_ADMIN, PostRig
from tests.engine.rig import PEEK, RECEIVE, SEND

BETA, ORDERS, GONE = (format_guid(number.to_bytes(16, "big")) for number in (2, 40, 99))
PUBLIC = f"PUBLIC={ORDERS}"
ENTERPRISE = Document(
    machines=[MachinePart(name="BETA", guid=BETA, dns_name="beta.example")],
    queues=[QueuePart(path=r"BETA\orders", guid=ORDERS)],
    lists=[
        ListPart(name="Inner", members=["Till"]),
        ListPart(name="Outer", members=["Inner", r"BETA\orders", "DIRECT=OS:c\\q"]),
    ],
    aliases=[AliasPart(name="Till", queue=r"BETA\orders")],
)


def enter(rig: PostRig, document: Document) -> None:
    rig.run(lambda own: own.directory.changes.take_in(document, prune=False, dry_run=False))


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    enter(rig, ENTERPRISE)
    rig.create("orders")
    yield rig
    rig.check_books()


def outgoing(rig: PostRig) -> list[str]:
    return [queue.definition.format_name for queue in rig.manager.queues.outgoing_queues()]


def listed(rig: PostRig, name: str) -> str:
    """The format name of a list or an alias."""
    document = rig.manager.directory.document()
    parts: list[ListPart | AliasPart] = [*document.lists, *document.aliases]
    found = {one.name: one.guid for one in parts}
    return f"DL={found[name]}"


@pytest.mark.parametrize("name", [r"BETA\orders", r"beta\ORDERS", r"beta.example\orders", PUBLIC])
def test_a_path_that_the_directory_has_is_a_public_queue(rig: PostRig, name: str) -> None:
    rig.send(name, b"x")
    assert outgoing(rig) == [PUBLIC]
    waiting = rig.peek(rig.open(name, PEEK_ADMIN)).message
    assert waiting.destination_queue_format_name == PUBLIC


@pytest.mark.parametrize(
    "name", [r"BETA\others", r"BETA\private$\orders", r"GAMMA\orders", r"other.example\orders"]
)
def test_any_other_path_is_a_direct_name(rig: PostRig, name: str) -> None:
    rig.send(name, b"x")
    assert outgoing(rig) == [f"DIRECT=OS:{name}"]


def test_messages_from_before_the_directory_knew_the_queue_are_found(rig: PostRig) -> None:
    rig.send(r"BETA\late", b"x")
    late = QueuePart(path=r"BETA\late", guid=GONE)
    enter(rig, Document(queues=[late]))
    found = rig.manager.queues.find_outgoing(parse_name(r"BETA\late"))
    assert isinstance(found, Queue)
    assert found.state.count == 1


def test_what_can_only_be_read_is_refused_as_a_path_too(rig: PostRig) -> None:
    for name in (r"BETA\orders;journal", r"BETA\orders;sub"):
        with pytest.raises(UnsupportedFormatNameOperation, match="cannot be sent to"):
            rig.open(name, SEND)


@pytest.mark.parametrize("access", [PEEK, RECEIVE])
@pytest.mark.parametrize(
    "name",
    [PUBLIC, r"BETA\orders", f"PRIVATE={BETA}\\00000007", f"MACHINE={BETA};DEADLETTER"],
)
def test_a_queue_elsewhere_is_read_there_and_the_error_says_so(
    rig: PostRig, name: str, access: QueueAccessType
) -> None:
    with pytest.raises(QueueNotFound, match=r"another computer.*remote read"):
        rig.open(name, access)


@pytest.mark.parametrize("access", [PEEK, RECEIVE])
def test_a_queue_that_nobody_knows_is_not_said_to_be_elsewhere(
    rig: PostRig, access: QueueAccessType
) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue"):
        rig.open(f"PUBLIC={GONE}", access)


def test_names_that_nobody_knows_say_where_to_look(rig: PostRig) -> None:
    with pytest.raises(UnsupportedFormatNameOperation, match="directory queue list"):
        rig.open(f"PUBLIC={GONE}", SEND)
    with pytest.raises(IllegalFormatName, match="directory alias list"):
        rig.open(f"DL={GONE}", SEND)
    with pytest.raises(UnsupportedFormatNameOperation, match="cannot be sent to a MACHINE= name"):
        rig.open(f"MACHINE={BETA};DEADLETTER", SEND)


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/2", "MS-MQDMPR 3.1.7.3.8/5")
def test_a_list_of_lists_and_aliases_gets_each_queue_one_copy(rig: PostRig) -> None:
    rig.send(listed(rig, "Outer"), b"x")
    assert sorted(outgoing(rig)) == [r"DIRECT=OS:c\q", PUBLIC]
    counts = [queue.state.count for queue in rig.manager.queues.outgoing_queues()]
    assert counts == [1, 1]


def test_an_alias_is_sent_to_like_its_queue(rig: PostRig) -> None:
    rig.send(listed(rig, "Till"), b"x")
    assert outgoing(rig) == [PUBLIC]


def test_while_the_directory_is_away_paths_lead_where_they_led(rig: PostRig) -> None:
    rig.manager.directory.queues.directory.connected = False
    rig.send(r"ALPHA\private$\orders", b"x")
    with pytest.raises(NoDs):
        rig.open(PUBLIC, SEND)
    rig.send(r"BETA\private$\orders", b"x")
    assert outgoing(rig) == [r"DIRECT=OS:BETA\private$\orders"]
    rig.manager.directory.queues.directory.connected = True


def test_a_queue_whose_machine_is_gone_waits_with_that_reason(rig: PostRig) -> None:
    rig.send(PUBLIC, b"x")
    rig.run(lambda own: own.directory.changes.remove("machine", "BETA", dry_run=False))
    assert rig.manager.directory.document().queues[0].machine == BETA
    rig.send(r"BETA\orders", b"y")
    assert [queue.state.count for queue in rig.manager.queues.outgoing_queues()] == [2]


@pytest.mark.parametrize(
    ("name", "format_name", "machine", "hosts"),
    [
        (r"BETA\orders", PUBLIC, "BETA", ("beta.example",)),
        (PUBLIC, PUBLIC, "BETA", ("beta.example",)),
        (f"PRIVATE={BETA}\\00000007", f"PRIVATE={BETA}\\00000007", "BETA", ("beta.example",)),
        (f"MACHINE={BETA};DEADLETTER", f"MACHINE={BETA};deadletter", "BETA", ("beta.example",)),
        (r"other\private$\q", r"DIRECT=OS:other\private$\q", "other", ("other",)),
    ],
)
def test_where_a_queue_is_read(
    rig: PostRig, name: str, format_name: str, machine: str, hosts: tuple[str, ...]
) -> None:
    assert rig.manager.directory.place(name) == (format_name, machine, hosts)


def test_hosts_are_those_of_the_addresses_each_once(rig: PostRig) -> None:
    listens = ["10.0.0.1:1801", "10.0.0.1:1802", "[::1]:1801", "beta"]
    enter(rig, Document(machines=[MachinePart(name="BETA", guid=BETA, addresses=listens)]))
    assert rig.manager.directory.place(PUBLIC).hosts == ("10.0.0.1", "::1", "beta")


def test_a_place_that_nobody_knows_is_told_with_its_reason(rig: PostRig) -> None:
    entries = rig.manager.directory.entries
    with pytest.raises(QueueNotFound, match="directory queue list"):
        entries.place(f"PUBLIC={GONE}")
    with pytest.raises(MachineNotFound, match="directory machine create"):
        entries.place(f"PRIVATE={GONE}\\00000007")
    with pytest.raises(UnsupportedFormatNameOperation, match="not one queue"):
        entries.place(f"DL={GONE}")
    rig.manager.directory.queues.directory.connected = False
    for name in (PUBLIC, f"PRIVATE={BETA}\\00000007"):
        with pytest.raises(NoDs):
            entries.place(name)
    rig.manager.directory.queues.directory.connected = True


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/3")
def test_the_path_of_a_public_name_is_that_of_its_object(rig: PostRig) -> None:
    assert rig.manager.directory.get_queue_path(PUBLIC) == (r"BETA\orders", "BETA")


def test_a_public_queue_that_was_entered_with_a_slash_is_found(rig: PostRig) -> None:
    enter(rig, Document(queues=[QueuePart(path="BETA/slashed", guid=GONE)]))
    for name in (r"BETA\slashed", r"beta\SLASHED"):
        rig.send(name, b"x")
    assert outgoing(rig) == [f"PUBLIC={GONE}"]


def test_lists_without_any_queue_say_where_to_look(rig: PostRig) -> None:
    circle = [ListPart(name="One", members=["Two"]), ListPart(name="Two", members=["One"])]
    enter(rig, Document(lists=circle))
    with pytest.raises(IllegalFormatName, match="no queue to send to") as refused:
        rig.send(listed(rig, "One"), b"x")
    assert "directory list list" in refused.value.remedy


def test_one_message_goes_to_a_thousand_queues_of_which_half_are_away(rig: PostRig) -> None:
    """Above what a packet can name, each copy names its own queue; nobody waits for another."""
    here = [f"branch{number}" for number in range(500)]
    for name in here:
        rig.create(name)
    near = [rf"DIRECT=OS:ALPHA\private$\{name}" for name in here]
    away = [rf"DIRECT=OS:away{number}\private$\q" for number in range(500)]
    parts = {f"Part{at}": [*near, *away][at : at + 200] for at in range(0, 1000, 200)}
    lists = [ListPart(name=name, members=members) for name, members in parts.items()]
    enter(rig, Document(lists=[*lists, ListPart(name="All", members=[*parts])]))
    rig.send(listed(rig, "All"), b"x")
    assert len(outgoing(rig)) == 500
    for name in (here[0], here[-1]):
        message = rig.peek(rig.open(rf".\private$\{name}", PEEK)).message
        assert message.destination_queue_format_name == rf"DIRECT=OS:ALPHA\private$\{name}"
        # Without a list of its own, its receiver would take it for a copy of another.
        assert message.destination_multi_queue_format_name == (rf"DIRECT=OS:ALPHA\private$\{name}",)
    assert sum(queue.state.count for queue in rig.manager.queues.outgoing_queues()) == 500
    enter(rig, Document(lists=[ListPart(name="All", members=[*near, *away])]))
    rig.send(listed(rig, "All"), b"y")
    assert len(outgoing(rig)) == 500
