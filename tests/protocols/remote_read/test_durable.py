"""No positive answer of remote read before its sync.

At the moment an answer is given to the runtime the machine loses its power and everything that was
not synced. What the answer said must hold on what is left. A driver that does not wait is noticed,
for every method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.protocols.remote_read.actions import LOOKUP_RECEIVE_CURRENT, PEEK_CURRENT
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import NO_TRANSACTION, Opnum
from posthouse.sim import SimDisk
from tests.protocols.remote_read.rig import FOR_EVER, MOVE_ACCESS, NACK, Reader, RigCall, ServerRig
from tests.store.faults.harness import check
from tests.store.faults.world import WatchedDriver, World
from tests.support.hasty_driver import HastyDriver

UOW = b"unit of work...."
FRESH = r".\private$\fresh"
FIRST, SECOND, LATE = b"first", b"second", b"late"


class DiskRig(World, ServerRig):
    """The interface on a queue manager whose disk forgets what is not synced."""

    def __init__(self, driver: type[WatchedDriver]) -> None:
        World.__init__(self, SimDisk(), driver=driver)
        self.remote_settings = RemoteReadSettings(minimum_authentication="none")
        self._root = None
        self.start()
        self.create("orders", journaling=True)
        self.create("steps", transactional=True)
        self.create("empty")
        filling = self.begin("filling")
        for body in (FIRST, SECOND):
            self.send("orders", body)
            self.send("steps", body, tx=filling)
        self.commit(filling)
        self.serve()
        self.sending = self.open("orders")
        self.filling = self.open("empty")

    def begin_for(self, client: Reader) -> None:
        self.run(lambda m: m.transactions.create_transaction(UOW, client.association.group))

    def earlier(self) -> None:
        """Another caller's turn, appended and not synced."""
        late = Message(body=LATE, priority=7, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
        for call in (
            lambda m: m.messages.enqueue_message_to_an_open_queue(self.sending, late),
            lambda m: m.queues.create_queue(FRESH, QueueProperties(), self.admin),
        ):
            self.desk.decide(call, lambda answer: None)
        self.desk.append()

    def first_id(self, queue: str = "orders") -> int:
        return self.reads(queue)[0].lookup_id


class Scene:
    """A client with everything it may need."""

    def __init__(self, rig: DiskRig) -> None:
        self.rig = rig
        self.client = rig.reader()
        self.handle = self.client.open("orders")
        self.steps = self.client.open("steps")
        self.empty = self.client.open("empty")
        self.context, self.target = self.client.open_for_move("orders;later")

    def started(self, handle: bytes, tx: bytes | None = None) -> int:
        """A receive that waits for its end."""
        call = self.client.start(handle, tx=tx)
        assert call.result == 0
        return self.client.requests


Ask = Callable[[Scene], Callable[[], RigCall]]
Holds = Callable[[World], bool]


class Method(NamedTuple):
    """A call, and what must be so when its answer leaves."""

    name: str
    ask: Ask  # what is to be there first; returns the call itself
    holds: Holds | None = None  # None: it promises only that what it saw is durable

    def __str__(self) -> str:
        return self.name


def end(handle: str, tx: bytes | None, ack: int) -> Ask:
    def ask(scene: Scene) -> Callable[[], RigCall]:
        client, queue = scene.client, getattr(scene, handle)
        if tx is not None:
            scene.rig.begin_for(client)
        number = scene.started(queue, tx)
        ending = client.end if tx is None else client.end_transactional
        return lambda: ending(queue, number, ack)

    return ask


def move(tx: bytes) -> Ask:
    def ask(scene: Scene) -> Callable[[], RigCall]:
        if tx == NO_TRANSACTION:
            lookup_id = scene.rig.first_id()
            return lambda: scene.client.move(scene.handle, scene.context, lookup_id)
        scene.rig.begin_for(scene.client)
        context, _ = scene.client.open_for_move("steps;later")
        lookup_id = scene.rig.first_id("steps")
        return lambda: scene.client.move(scene.steps, context, lookup_id, tx)

    return ask


def reject(scene: Scene) -> Callable[[], RigCall]:
    scene.rig.begin_for(scene.client)
    scene.started(scene.steps, UOW)
    lookup_id = scene.rig.first_id("steps")
    opnum = Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS
    return lambda: scene.client.call(opnum, scene.steps, lookup_id, 0xC004)


def cancel(scene: Scene) -> Callable[[], RigCall]:
    scene.client.start(scene.empty, timeout=FOR_EVER)
    number = scene.client.requests
    return lambda: scene.client.cancel(scene.empty, number)


def close_cursor(scene: Scene) -> Callable[[], RigCall]:
    cursor = scene.client.cursor(scene.handle)
    return lambda: scene.client.call(Opnum.CLOSE_CURSOR, scene.handle, cursor)


def is_gone(world: World) -> bool:
    return FIRST not in world.bodies("orders") and FIRST in journal(world)


def journal(world: World) -> list[bytes]:
    return world.bodies(r".\private$\orders;journal")


METHODS = [
    Method("open", lambda s: lambda: s.client.opening("fresh")),
    Method("open-for-move", lambda s: lambda: s.client.opening("fresh", MOVE_ACCESS, move=True)),
    Method("close", lambda s: lambda: s.client.close(s.handle)),
    Method("create-cursor", lambda s: lambda: s.client.call(Opnum.CREATE_CURSOR, s.handle)),
    Method("close-cursor", close_cursor),
    Method(
        "purge",
        lambda s: lambda: s.client.call(Opnum.PURGE_QUEUE, s.handle),
        lambda world: world.bodies("orders") == [],
    ),
    Method("start", lambda s: lambda: s.client.start(s.handle)),
    Method("peek", lambda s: lambda: s.client.start(s.handle, PEEK_CURRENT)),
    Method(
        "lookup",
        lambda s: (
            lambda: s.client.start(s.handle, LOOKUP_RECEIVE_CURRENT, lookup_id=s.rig.first_id())
        ),
    ),
    Method("cancel", cancel),
    Method("end-ack", end("handle", None, 2), is_gone),
    Method("end-nack", end("handle", None, NACK)),
    Method("end-ack-in-transaction", end("steps", UOW, 2)),
    Method("end-nack-in-transaction", end("steps", UOW, NACK)),
    Method(
        "move",
        move(NO_TRANSACTION),
        lambda world: (
            FIRST not in world.bodies("orders") and world.bodies("orders;later") == [FIRST]
        ),
    ),
    Method("move-in-transaction", move(UOW)),
    Method("reject", reject),
]


class Outcome(NamedTuple):
    """What a crash at the moment of the answer left."""

    before_sync: bool
    decided: int  # records there were when the engine decided
    kept: int
    holds: bool


def outcome(
    monkeypatch: pytest.MonkeyPatch, method: Method, driver: type[WatchedDriver]
) -> Outcome:
    """Calls a method and crashes the disk while its answer is on its way out."""
    rig = DiskRig(driver)
    scene = Scene(rig)
    ask = method.ask(scene)
    found: dict[RigCall, Outcome] = {}
    synced = False

    def answered(call: RigCall, stub: bytes) -> None:
        call.answers.append(stub)
        after = check(rig.disk.clone().crash("nothing"), rig.witness.now(), str(method))
        holds = method.holds is None or method.holds(after)
        found[call] = Outcome(not synced, rig.witness.written, after.kept, holds)

    monkeypatch.setattr(RigCall, "answer", answered)
    scene.client.settle = False
    rig.earlier()
    if isinstance(rig.driver, HastyDriver):
        rig.driver.hasty = True
    call = ask()
    rig.desk.append()
    rig.driver.release()
    synced = True
    rig.driver.sync()
    rig.driver.release()
    rig.desk.settle()
    assert getattr(call.response, "result", 0) == 0
    return found[call]


@pytest.mark.spec("MS-MQRR 3.1.4.9/3", "MS-MQRR 3.1.4.9/12", "MS-MQRR 3.1.4.15/3")
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_answer_leaves_when_what_it_says_is_durable(
    monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    found = outcome(monkeypatch, method, WatchedDriver)
    assert not found.before_sync
    assert found.kept == found.decided
    assert found.holds


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_driver_that_does_not_wait_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    found = outcome(monkeypatch, method, HastyDriver)
    assert found.before_sync
    assert found.kept < found.decided
    assert not found.holds or method.holds is None


@pytest.mark.parametrize("driver", [WatchedDriver, HastyDriver])
def test_a_reader_that_waits_gets_a_message_when_that_is_durable(
    monkeypatch: pytest.MonkeyPatch, driver: type[WatchedDriver]
) -> None:
    rig = DiskRig(driver)
    scene = Scene(rig)
    kept: list[tuple[int, int]] = []

    def answered(call: RigCall, stub: bytes) -> None:
        call.answers.append(stub)
        after = check(rig.disk.clone().crash("nothing"), rig.witness.now())
        kept.append((after.kept, rig.witness.written))

    monkeypatch.setattr(RigCall, "answer", answered)
    call = scene.client.start(scene.empty, timeout=FOR_EVER)
    assert call.waits
    if isinstance(rig.driver, HastyDriver):
        rig.driver.hasty = True
    message = Message(body=LATE, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
    rig.desk.decide(
        lambda m: m.messages.enqueue_message_to_an_open_queue(rig.filling, message),
        lambda answer: None,
    )
    rig.desk.settle()
    assert call.body == LATE
    ((found, decided),) = kept
    assert (found < decided) == (driver is HastyDriver)


@pytest.mark.spec("MS-MQRR 3.1.4.15/3")
@pytest.mark.parametrize("driver", [WatchedDriver, HastyDriver])
def test_a_commit_is_told_when_its_receives_are_durable(driver: type[WatchedDriver]) -> None:
    rig = DiskRig(driver)
    scene = Scene(rig)
    rig.begin_for(scene.client)
    number = scene.started(scene.steps, UOW)
    assert scene.client.end_transactional(scene.steps, number).result == 0
    left: list[list[bytes]] = []

    def commit(manager: QueueManager) -> Any:
        return manager.transactions.transaction_commit(UOW)

    def told(answer: Any) -> None:
        assert answer.error is None
        after = check(rig.disk.clone().crash("nothing"), rig.witness.now())
        left.append(after.bodies("steps"))

    if isinstance(rig.driver, HastyDriver):
        rig.driver.hasty = True
    rig.desk.decide(commit, told)
    rig.desk.settle()
    assert left == [[FIRST, SECOND] if driver is HastyDriver else [SECOND]]
