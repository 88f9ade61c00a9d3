"""The qmmgmt interface on a real engine: no sockets, turns by hand, calls as values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from posthouse.engine.accounts.logins import Logins
from posthouse.model.names import parse_format_name
from posthouse.protocols.management.protocol import Management, RemoteAct
from posthouse.protocols.management.stubs import (
    MACHINE,
    METHODS,
    Asked,
    ManagedObject,
    ManagementOpnum,
    ObjectType,
    PropertyValues,
)
from posthouse.protocols.queue_format import queue_format_of
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.interface import Call
from posthouse.rpc.propvariant import Variant
from posthouse.rpc.security import Identity, Level
from posthouse.security.accounts import Door
from posthouse.security.sids import ADMINISTRATORS
from tests.engine.sessions import SessionRig
from tests.protocols.admin.session_rig import TurnDesk

OK = 0
QUEUE_NOT_FOUND = 0xC00E0003
INVALID_PARAMETER = 0xC00E0006
ACCESS_DENIED = 0xC00E0025
ILLEGAL_PROPID = 0xC00E0039
UNSUPPORTED_OPERATION = 0xC00E006A
GET_INFO, ACTION = ManagementOpnum.GET_INFO, ManagementOpnum.ACTION


class ManagedCall(Call):
    """A call whose answers are kept."""

    __slots__ = ("answers",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.answers: list[bytes | int] = []

    def answer(self, stub: bytes) -> None:
        self.answers.append(stub)

    def fault(self, status: int) -> None:
        self.answers.append(status)


class ManagedRig(SessionRig):
    """A queue manager with the interface on it, and an administrator who calls."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.desk = TurnDesk(self.driver)
        self.tidied = 0
        logins = Logins(self.manager.accounts, lambda: self.clock.now_ms)
        self.acts: list[RemoteAct] = []
        self.management = Management(
            self.desk, logins, Level.PRIVACY, "9.9", self._tidy, self._acted
        )
        self.interface = self.management.interface
        joined = AssociationGroups(random.Random(7).randbytes).join(0, "192.0.2.7")
        assert joined is not None
        self.association = joined
        self.root = self.user("root", groups=(ADMINISTRATORS,))

    def _acted(self, act: RemoteAct, then: Callable[[], None]) -> None:
        self.acts.append(act)
        then()

    def _tidy(self) -> None:
        self.tidied += 1

    def user(self, name: str, **options: Any) -> Identity:
        """An account, and how it looks after a login."""
        account = self.run(lambda m: m.accounts.add(name, doors=(Door.RPC,), **options))
        return Identity(name, "", "ntlm", account.sid)

    def call(
        self, opnum: ManagementOpnum, *parameters: Any, by: Identity | None = None, **how: bool
    ) -> Any:
        """One call and its answer; the administrator's unless somebody else is named."""
        ndr64 = how.get("ndr64", False)
        identity = None if how.get("anonymous") else by or self.root
        stub = METHODS[opnum].request.encode(
            METHODS[opnum].request.parameters(*parameters), ndr64=ndr64
        )
        call = ManagedCall(
            self.association, "192.0.2.7", identity, Level.PRIVACY, opnum, stub, ndr64=ndr64
        )
        self.interface.methods[opnum](call)
        self.desk.settle()
        (answer,) = call.answers
        assert isinstance(answer, bytes), f"fault 0x{answer:08X}"
        return METHODS[opnum].response.decode(answer, ndr64=ndr64)

    def info(self, of: ManagedObject, *propids: int, **how: Any) -> PropertyValues:
        """R_QMMgmtGetInfo."""
        answer: PropertyValues = self.call(
            GET_INFO, of, tuple([Asked(one) for one in propids]), **how
        )
        return answer

    def machine(self, propid: int, **how: Any) -> Variant:
        """One property of the machine."""
        return self._one(self.info(MACHINE, propid, **how))

    def of(self, name: str, propid: int, **how: Any) -> Variant:
        """One property of a queue."""
        return self._one(self.info(queue_object(name), propid, **how))

    @staticmethod
    def _one(answer: PropertyValues) -> Variant:
        assert answer.result == OK, hex(answer.result)
        (variant,) = answer.variants
        return variant

    def act(self, of: ManagedObject, action: str, **how: Any) -> int:
        """R_QMMgmtAction."""
        result: int = self.call(ACTION, of, action, **how).result
        return result


def queue_object(name: str) -> ManagedObject:
    """The queue with a format name; a bare name is a private queue of ours."""
    text = name if "=" in name else f"DIRECT=OS:ALPHA\\private$\\{name}"
    return ManagedObject(ObjectType.QUEUE, queue_format_of(parse_format_name(text)))
