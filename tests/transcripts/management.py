"""Conversations of the administrators' interface ([MS-MQMR]): calls and answers after a login."""

from __future__ import annotations

from typing import Any

from posthouse.model.error_table import explain
from posthouse.model.properties import (
    MACHINE_MANAGEMENT_PROPERTIES,
    QUEUE_MANAGEMENT_PROPERTIES,
    Property,
)
from posthouse.protocols.management.stubs import (
    MACHINE,
    METHODS,
    ManagedObject,
    ManagementOpnum,
    ObjectType,
)
from posthouse.rpc.security import Identity
from tests.engine.letters import FAR
from tests.protocols.management.rig import ManagedRig, queue_object
from tests.transcripts.recorder import Recorder

ASKED = "CLIENT -> ALPHA"
ANSWERED = "ALPHA -> CLIENT"
SESSION = ManagedObject(ObjectType.SESSION)


class Talk(ManagedRig):
    """An administrator's calls: each goes as a stub to the interface, and so does its answer."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.script = Recorder(lambda: self.clock.now_ms, title)
        self.create("orders")

    def call(
        self, opnum: ManagementOpnum, *parameters: Any, by: Identity | None = None, **how: bool
    ) -> Any:
        """One call, and the lines of both ways."""
        of, asked = parameters
        fields: dict[str, Any] = {"of": object_name(of)}
        if opnum is ManagementOpnum.ACTION:
            fields["action"] = asked
        else:
            fields["asked"] = [property_name(of, one.propid) for one in asked]
        self.script.line(ASKED, f"request {METHODS[opnum].name}", **fields)
        answer = super().call(opnum, *parameters, by=by, **how)
        fields = {"result": explain(answer.result).name if answer.result else "OK"}
        if opnum is ManagementOpnum.GET_INFO and not answer.result:
            fields["values"] = [one.value for one in answer.variants]
        self.script.line(ANSWERED, "response", **fields)
        return answer


def object_name(of: ManagedObject) -> str:
    """A machine, or the name of a queue."""
    return ObjectType(of.type).name.lower() if of.queue is None else str(of.queue.arm)


def table_of(of: ManagedObject) -> dict[int, Property]:
    """The properties that an object has."""
    return dict(QUEUE_MANAGEMENT_PROPERTIES if of.queue else MACHINE_MANAGEMENT_PROPERTIES)


def property_name(of: ManagedObject, propid: int) -> str:
    """The name of a property without what all names begin with; its number if it has none."""
    known = table_of(of).get(propid)
    return known.name.removeprefix("PROPID_MGMT_") if known else str(propid)


def inspect() -> str:
    """What a machine and its queues show."""
    talk = Talk("Administration: a machine, a queue here, and an outgoing queue")
    talk.send("orders", b"two hundred cups")
    talk.commit_sends("ab")
    talk.script.note("The machine: its queues and whether it is online.")
    talk.info(MACHINE, 1, 4)
    talk.script.note("A queue here: its path, what it is, and its messages.")
    talk.info(queue_object("orders"), 1, 3, 7, 8)
    talk.script.note(
        "An outgoing queue: its state, its messages, and how many are not acknowledged."
    )
    talk.info(queue_object(FAR), 11, 7, 20)
    return talk.script.text()


def act() -> str:
    """An outgoing queue is paused and resumed; the machine goes offline and comes back."""
    talk = Talk("Administration: actions on a queue and on the machine")
    talk.commit_sends("a")
    talk.script.note("A paused queue keeps its messages until it is resumed.")
    for action in ("PAUSE", "RESUME", "EOD_RESEND"):
        talk.act(queue_object(FAR), action)
        talk.info(queue_object(FAR), 11)
    talk.script.note("Without connections nothing is sent or received.")
    for action in ("DISCONNECT", "CONNECT", "TIDY"):
        talk.act(MACHINE, action)
        talk.info(MACHINE, 4)
    return talk.script.text()


def refused() -> str:
    """Callers without rights, and requests that mean nothing."""
    talk = Talk("Administration: refusals")
    guest = talk.user("guest")
    talk.script.note("A user who is not an administrator.")
    talk.act(MACHINE, "DISCONNECT", by=guest)
    talk.info(queue_object("orders"), 7, by=guest)
    talk.script.note("There is no such property, queue, action or kind of object.")
    talk.info(MACHINE, 1, 99)
    talk.info(queue_object("nowhere"), 7)
    talk.act(MACHINE, "DANCE")
    talk.act(SESSION, "TIDY")
    return talk.script.text()


CONVERSATIONS = {"inspect": inspect, "act": act, "refused": refused}
