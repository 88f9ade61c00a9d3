"""Asks another computer's MSMQ about itself and its queues: the client of [MS-MQMR] (3.2).

Values and errors are passed on as they come (3.2.4). An answer that does not fit its question is
`RemoteProtocolError`: another number of values, or a value of another type.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from posthouse.client.errors import ServerUnreachable, SessionEnded
from posthouse.client.remote.connect import connect_to_manage, refused
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.rpc_link import CallTimeout, LinkLost, RpcLink
from posthouse.model.errors import (
    AccessDenied,
    QueueError,
    QueueNotActive,
    RemoteProtocolError,
)
from posthouse.model.names import FormatName, PathName
from posthouse.model.properties import (
    MACHINE_MANAGEMENT_PROPERTIES,
    QUEUE_MANAGEMENT_PROPERTIES,
)
from posthouse.model.property_ids import Vt
from posthouse.protocols.management.stubs import (
    MACHINE,
    METHODS,
    Asked,
    GetProperties,
    ManagedObject,
    ManagementAction,
    ManagementOpnum,
    ObjectType,
    PropertyValues,
)
from posthouse.protocols.queue_format import queue_format_of
from posthouse.rpc.ndr import BadStub
from posthouse.rpc.propvariant import Variant
from posthouse.rpc.statuses import Fault

PRIVATE_QUEUES: Final = 2
MESSAGE_COUNT: Final = 7
NOT_ACTIVE: Final = frozenset({QueueError.code, QueueNotActive.code})
"""What Windows answers for a queue that is neither open nor has messages."""
_VARIANTS: Final = Vt.VECTOR | Vt.VARIANT


class RemoteManagement:
    """The management interface of one computer; any number of threads may use it."""

    def __init__(self, place: RemotePlace, login: RemoteLogin, *, timeout_s: float) -> None:
        self.place = place
        self.timeout_s = timeout_s
        self._login = login
        self._lock = threading.Lock()
        self._link: RpcLink | None = None
        self._closed = False

    def link(self) -> RpcLink:
        """The connection; a new one where the last one broke."""
        with self._lock:
            if self._closed:
                raise SessionEnded("this connection has been closed")
            link = self._link
            if link is None or link.lost is not None:
                if link is not None:
                    link.close()
                self._link = link = connect_to_manage(self.place, self._login, self.timeout_s)
            return link

    def close(self) -> None:
        """Ends the connection."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close()

    # -- questions

    def machine(self, *propids: int) -> dict[int, Variant]:
        """Properties of the machine, by identifier."""
        return self._info(MACHINE, "", propids)

    def queue(self, name: FormatName, *propids: int) -> dict[int, Variant]:
        """Properties of a queue there, or of an outgoing one, by identifier."""
        return self._info(_object_of(name), str(name), propids)

    def count(self, name: FormatName) -> int:
        """Messages in a queue; one that is not active has none, if it is there at all."""
        try:
            found = self.queue(name, MESSAGE_COUNT)[MESSAGE_COUNT].value
        except QueueError as error:
            if error.code not in NOT_ACTIVE or not self._has(name):
                raise
            return 0
        return found if isinstance(found, int) else 0

    def _has(self, name: FormatName) -> bool:
        """Whether it is a private queue of that machine, by its list of them."""
        path = getattr(name, "path", None)
        if not isinstance(path, PathName):
            return False
        listed = self.machine(PRIVATE_QUEUES)[PRIVATE_QUEUES].value
        wanted = _without_computer(str(path))
        return isinstance(listed, tuple) and wanted in map(_without_computer, listed)

    def act(self, action: str, queue: FormatName | None = None) -> None:
        """R_QMMgmtAction on a queue, or on the machine."""
        of = MACHINE if queue is None else _object_of(queue)
        request = ManagementAction(of, action)
        result = self._ask(ManagementOpnum.ACTION, request, str(queue or "")).result
        if result:
            raise self._refusal(result, ManagementOpnum.ACTION, str(queue or ""))

    def _info(self, of: ManagedObject, name: str, propids: tuple[int, ...]) -> dict[int, Variant]:
        asked = GetProperties(of, tuple([Asked(propid) for propid in propids]))
        values: PropertyValues = self._ask(ManagementOpnum.GET_INFO, asked, name)
        if values.result:
            raise self._refusal(values.result, ManagementOpnum.GET_INFO, name)
        if len(values.variants) != len(propids):
            raise RemoteProtocolError(
                f"{self.place.host} answers {len(values.variants)} of {len(propids)} properties"
            )
        found = dict(zip(propids, values.variants, strict=True))
        self._check(found, is_machine=of is MACHINE)
        return found

    def _check(self, found: dict[int, Variant], *, is_machine: bool) -> None:
        table = MACHINE_MANAGEMENT_PROPERTIES if is_machine else QUEUE_MANAGEMENT_PROPERTIES
        for propid, (vt, _) in found.items():
            if vt not in (table[propid].vt, _also(table[propid].vt), Vt.NULL, Vt.EMPTY):
                raise RemoteProtocolError(
                    f"{self.place.host} answers {table[propid].name} with a value of type {vt}"
                )

    # -- calls

    def _ask(self, opnum: ManagementOpnum, request: Any, name: str) -> Any:
        """Asks, once more where the connection had broken: both methods may be called twice."""
        try:
            return self._ask_once(opnum, request, name)
        except LinkLost:
            return self._ask_once(opnum, request, name)

    def _ask_once(self, opnum: ManagementOpnum, request: Any, name: str) -> Any:
        link, method = self.link(), METHODS[opnum]
        ndr64 = link.connection.ndr64
        try:
            stub = link.call(opnum, method.request.encode(request, ndr64=ndr64), self.timeout_s)
            return method.response.decode(stub, ndr64=ndr64)
        except CallTimeout:
            link.close()
            raise ServerUnreachable(
                f"{self.place.host} did not answer {method.name} in {self.timeout_s:g} s",
                "Check the queue manager there, or allow more time.",
            ) from None
        except BadStub as error:
            raise RemoteProtocolError(f"{self.place.host} answers {error.cause}") from None
        except Fault as fault:
            raise self._refusal(fault.status, opnum, name) from None

    def _refusal(self, status: int, opnum: ManagementOpnum, name: str) -> QueueError:
        where = self.place.host
        error = refused(status, where, METHODS[opnum].name, name)
        if status == AccessDenied.code:
            return AccessDenied(
                f"{where} does not answer {METHODS[opnum].name} to this user",
                "Log in as an administrator of that machine; on Posthouse a user who may receive "
                "from a queue can ask about that queue.",
            )
        return error


def _also(vt: int) -> int:
    """SUBQUEUE_NAMES is a vector of variants in one document, of strings in the other."""
    return _VARIANTS if vt == Vt.VECTOR | Vt.LPWSTR else vt


def _object_of(name: FormatName) -> ManagedObject:
    return ManagedObject(ObjectType.QUEUE, queue_format_of(name))


def _without_computer(path: object) -> str:
    """What follows the computer in a path name, which can have several names."""
    return str(path).partition("\\")[2].casefold()
