"""Operations of sessions on outgoing queues: `OutgoingCursor`, and acknowledgments of peers."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound, Peer
from posthouse.model.message import ACK_RECEIVE
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.sequence_places import place_of
from tests.store.faults.operations import (
    Call,
    Holds,
    Make,
    Operation,
    Scene,
    recoverable,
)
from tests.store.faults.script import ABROAD
from tests.store.faults.world import World

FAR = Peer(bytes(range(16)), "10.0.0.2")
TRANSFERS: list[Operation] = []


def operation(name: str, holds: Holds | None = None) -> Callable[[Make], Make]:
    """Adds an operation to the list."""

    def add(make: Make) -> Make:
        TRANSFERS.append(Operation(name, "", make, holds))
        return make

    return add


def session(
    scene: Scene, *contents: bytes, **attributes: bool
) -> tuple[OutgoingCursor, list[Outbound]]:
    """A session that has sent messages of a transaction and one beside it."""
    world, number = scene.world, scene.abroad.number
    world.send(ABROAD, b"plain")
    transaction = world.begin("away")
    for content in contents:
        world.send(ABROAD, content, tx=transaction, **attributes)
    world.commit(transaction)
    sender = world.run(lambda m: m.transfer.begin_sending(number))
    return sender, world.run(lambda m: sender.take(100, 1 << 20))


def abroad(*wanted: bytes) -> Holds:
    """The messages of the outgoing queue, in order."""
    return lambda world: outgoing(world, ABROAD) == list(wanted)


def outgoing(world: World, name: str) -> list[bytes]:
    """The bodies of an outgoing queue's messages."""
    found = [q for q in world.manager.queues.outgoing_queues() if q.definition.format_name == name]
    numbers = [n for queue in found for _, n in queue.state.order.forward()]
    return [deserialize(world.store.read(number)).body for number in numbers]


@operation("Sender.take", abroad(b"away"))
def _take(scene: Scene) -> Call:
    """What is on the wire is in the log, with its number."""
    number = scene.abroad.number
    sender = scene.world.run(lambda m: m.transfer.begin_sending(number))
    descriptor = scene.world.open(ABROAD)

    def call(manager: object) -> object:
        core = scene.world.manager
        core.messages.enqueue_message_to_an_open_queue(descriptor, recoverable(b"away"))
        return sender.take(100, 1 << 20)

    return call


@operation("Sender.acknowledged", abroad(b"one"))
def _acknowledged(scene: Scene) -> Call:
    sender, taken = session(scene, b"one")
    return lambda m: sender.acknowledged([out.number for out in taken])


@operation("Sender.resend")
def _resend(scene: Scene) -> Call:
    sender, _ = session(scene, b"one")
    return lambda m: sender.resend()


@operation("Sender.send_again_behind")
def _send_again_behind(scene: Scene) -> Call:
    sender, taken = session(scene, b"one")
    lookup_id = scene.world.manager.messages.row(taken[0].number).lookup_id
    return lambda m: sender.send_again_behind(lookup_id - 1)


@operation("Sender.reminder")
def _reminder(scene: Scene) -> Call:
    sender, _ = session(scene, b"one")
    return lambda m: sender.reminder()


@operation("Sender.end")
def _end(scene: Scene) -> Call:
    sender, _ = session(scene, b"one")
    return lambda m: sender.end()


@operation("Sender.resend_planned")
def _resend_planned(scene: Scene) -> Call:
    sender, _ = session(scene, b"one")
    return lambda m: sender.resend_planned(1, 10, 1_700_000_010)


@operation("Sender.holds")
def _holds(scene: Scene) -> Call:
    sender, taken = session(scene, b"one")
    number = taken[0].number
    return lambda m: sender.holds(number, m.messages.row(number))


def _place(taken: list[Outbound], body: bytes) -> tuple[Outbound, int, int]:
    (out,) = [out for out in taken if deserialize(out.packet).body == body]
    return out, *place_of(out.packet)[:2]


@operation("Transfer.order_acknowledged_by", abroad(b"plain", b"two"))
def _order(scene: Scene) -> Call:
    _, taken = session(scene, b"one", b"two")
    _, sequence_id, number = _place(taken, b"one")
    return lambda m: m.transfer.outgoing.order_acknowledged_by(FAR, sequence_id, number)


@operation("Transfer.final_acknowledged_by", abroad(b"plain", b"two"))
def _final(scene: Scene) -> Call:
    _, taken = session(scene, b"one", b"two", negative_journaling_requested=True)
    out, sequence_id, number = _place(taken, b"one")
    row, guid = scene.world.manager.messages.row(out.number), scene.world.manager.machine.identifier
    return lambda m: m.transfer.outgoing.final_acknowledged_by(
        FAR, ACK_RECEIVE, guid, row.ordinal, sequence_id, number
    )


@operation("Transfer.reached", lambda w: w.manager.transfer.address_of(FAR.guid) is not None)
def _reached(scene: Scene) -> Call:
    return lambda m: m.transfer.reached(FAR.guid, "10.0.0.2", 1801)


@operation("Transfer.begin_sending")
def _begin(scene: Scene) -> Call:
    return lambda m: m.transfer.begin_sending(scene.abroad.number)
