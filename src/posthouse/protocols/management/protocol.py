"""The server of the qmmgmt interface ([MS-MQMR] 3.1): properties and actions, no state of its own.

Who may ask: administrators for everything, as the document wants it; for the properties of one
queue also those who may receive from it, since that is the access the method opens it with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from posthouse.engine.accounts.logins import Logins
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import (
    AccessDenied,
    IllegalPropertyId,
    InvalidParameter,
    QueueNotFound,
    UnsupportedOperation,
)
from posthouse.model.names import FormatName
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.management.properties import MACHINE_VALUES, QUEUE_VALUES, QueueValues
from posthouse.protocols.management.stubs import (
    MANAGEMENT,
    METHODS,
    ActionResult,
    Asked,
    GetProperties,
    ManagedObject,
    ManagementAction,
    ManagementOpnum,
    ObjectType,
    PropertyValues,
)
from posthouse.protocols.queue_format import any_name_of
from posthouse.protocols.rpc_callers import Acted, RemoteAct, caller_of, unaudited
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.propvariant import Variant
from posthouse.rpc.security import Level
from posthouse.security.access import Caller

ANNOTATION: Final = "Message Queuing - Management"
_GET_INFO: Final = METHODS[ManagementOpnum.GET_INFO]
_ACTION: Final = METHODS[ManagementOpnum.ACTION]
OBJECT_SHOWN: Final = 300  # characters
Act = Callable[["Management", QueueManager, ManagedObject, Caller], None]


class Management:
    """The queue manager for administrators on other machines.

    `tidy` gives back disk space that messages no longer use, as soon as possible.
    """

    def __init__(
        self,
        desk: Desk,
        logins: Logins,
        minimum_level: Level,
        version: str,
        tidy: Callable[[], None],
        acted: Acted = unaudited,
    ) -> None:
        self.calls: Counter[str] = Counter({method.name: 0 for method in METHODS.values()})
        self.tidy = tidy
        self._acted = acted  # writes an act down, then calls
        self._desk = desk
        self._logins = logins
        self._minimum_level = minimum_level
        self._version = version

    @property
    def interface(self) -> Interface:
        """What a runtime serves."""
        methods = {0: self._get_info, 1: self._action}
        return Interface(MANAGEMENT, "qmmgmt", methods, self._minimum_level)

    # -- R_QMMgmtGetInfo

    def _get_info(self, call: Call) -> None:
        """R_QMMgmtGetInfo (3.1.4.1); a failure leaves the values as they came."""
        self.calls[_GET_INFO.name] += 1
        request: GetProperties = _GET_INFO.request.decode(call.stub, ndr64=call.ndr64)
        found: list[Variant] = []

        def decide(manager: QueueManager) -> None:
            found.extend(self._values(manager, request, caller_of(self._logins, call)))

        def answered(answer: Answer) -> None:
            code = 0 if answer.error is None else answer.error.code
            came = [asked.variant for asked in request.properties]
            values = PropertyValues(tuple(came if code else found), code)
            call.answer(_GET_INFO.response.encode(values, ndr64=call.ndr64))

        self._desk.decide(decide, answered)

    def _values(
        self, manager: QueueManager, request: GetProperties, caller: Caller
    ) -> list[Variant]:
        kind, asked = request.object.type, request.properties
        if kind == ObjectType.MACHINE:
            _require_administrator(caller)
            _check(asked, MACHINE_VALUES)
            return [MACHINE_VALUES[one.propid](manager, self._version) for one in asked]
        queue = managed_queue(manager, request.object)
        _require_reader(manager, queue, caller)
        _check(asked, QUEUE_VALUES)
        values = QueueValues(manager, queue)
        return [values.of(one.propid) for one in asked]

    # -- R_QMMgmtAction

    def _action(self, call: Call) -> None:
        """R_QMMgmtAction (3.1.4.2)."""
        self.calls[_ACTION.name] += 1
        request: ManagementAction = _ACTION.request.decode(call.stub, ndr64=call.ndr64)

        user = ""

        def decide(manager: QueueManager) -> None:
            nonlocal user
            caller = caller_of(self._logins, call)
            user = caller.name
            self._act(manager, request, caller)

        def answered(answer: Answer) -> None:
            result = ActionResult(0 if answer.error is None else answer.error.code)
            response = _ACTION.response.encode(result, ndr64=call.ndr64)
            # One name for all that is not an action: entries that are alike are counted by it.
            name = request.action.lower() if request.action.upper() in ACTIONS else "unknown"
            about = str(request.object)[:OBJECT_SHOWN]
            act = RemoteAct(user or "unknown", call.address, name, about, answer.error)
            self._acted(act, lambda: call.answer(response))

        self._desk.decide(decide, answered)

    def _act(self, manager: QueueManager, request: ManagementAction, caller: Caller) -> None:
        kind, act = ACTIONS.get(request.action.upper(), (0, None))
        if act is None or kind != request.object.type:
            raise InvalidParameter(
                f"an object of type {request.object.type} has no such action",
                "CONNECT, DISCONNECT and TIDY are for the machine; PAUSE, RESUME and EOD_RESEND "
                "for outgoing queues.",
            )
        _require_administrator(caller)
        act(self, manager, request.object, caller)

    def connect(self, manager: QueueManager, of: ManagedObject, caller: Caller) -> None:
        """CONNECT: Bring Online."""
        manager.transfer.bring_online()
        manager.machine.event("brought_online", by=caller.name)

    def disconnect(self, manager: QueueManager, of: ManagedObject, caller: Caller) -> None:
        """DISCONNECT: Take Offline."""
        manager.transfer.take_offline()
        manager.machine.event("taken_offline", by=caller.name)

    def tidy_up(self, manager: QueueManager, of: ManagedObject, caller: Caller) -> None:
        """TIDY. The document has Purge Queue for all queues here, which would lose every message.

        Its own description is followed: files without messages are cleaned up.
        """
        self.tidy()
        manager.machine.event("tidied_up", by=caller.name)

    def pause(self, manager: QueueManager, of: ManagedObject, caller: Caller) -> None:
        """PAUSE: Pause Queue."""
        queue = _outgoing_queue(manager, of)
        manager.transfer.pause_queue(queue)
        manager.machine.event("queue_paused", queue=queue.name, by=caller.name)

    def resume(self, manager: QueueManager, of: ManagedObject, caller: Caller) -> None:
        """RESUME: Resume Queue."""
        queue = _outgoing_queue(manager, of)
        manager.transfer.resume_queue(queue)
        manager.machine.event("queue_resumed", queue=queue.name, by=caller.name)

    def resend(self, manager: QueueManager, of: ManagedObject, caller: Caller) -> None:
        """EOD_RESEND: what is sent and not acknowledged is sent again."""
        queue = _outgoing_queue(manager, of)
        manager.transfer.resend(queue)
        manager.machine.event("queue_resent", queue=queue.name, by=caller.name)


ACTIONS: Final[dict[str, tuple[int, Act]]] = {
    "CONNECT": (ObjectType.MACHINE, Management.connect),
    "DISCONNECT": (ObjectType.MACHINE, Management.disconnect),
    "TIDY": (ObjectType.MACHINE, Management.tidy_up),
    "PAUSE": (ObjectType.QUEUE, Management.pause),
    "RESUME": (ObjectType.QUEUE, Management.resume),
    "EOD_RESEND": (ObjectType.QUEUE, Management.resend),
}
"""3.1.4.2; letter case does not matter."""


def _check(asked: tuple[Asked, ...], there_are: dict[int, Callable[..., Variant]]) -> None:
    for one in asked:
        if one.propid not in there_are:
            raise IllegalPropertyId(f"this object has no property {one.propid}")


def _require_administrator(caller: Caller) -> None:
    if not caller.is_administrator:
        raise AccessDenied(f"{caller.name} is not an administrator of this queue manager")


def _require_reader(manager: QueueManager, queue: Queue, caller: Caller) -> None:
    if caller.is_administrator:
        return
    if queue.outgoing is not None:
        _require_administrator(caller)
    manager.queues.require(queue, caller, QueueAccessType.RECEIVE)


def managed_queue(manager: QueueManager, of: ManagedObject) -> Queue:
    """The queue of a MGMT_OBJECT, here or outgoing; sessions are not managed."""
    if of.type != ObjectType.QUEUE or of.queue is None:
        raise InvalidParameter(f"an object of type {of.type} without a queue")
    manager.machine.require_ready()
    name: FormatName = any_name_of(of.queue)
    queue = manager.queues.find_local(name) or manager.queues.find_outgoing(name)
    queue = queue or manager.queues.find_local(manager.queues.addressed(name))
    if queue is None:
        raise QueueNotFound(f"there is no queue {name}, nor an outgoing one")
    return queue


def _outgoing_queue(manager: QueueManager, of: ManagedObject) -> Queue:
    queue = managed_queue(manager, of)
    if queue.outgoing is None:
        raise UnsupportedOperation(f"{queue.name} is not an outgoing queue")
    return queue
