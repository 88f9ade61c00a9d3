"""A computer that answers management calls as a test says; what it has looks like Windows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from posthouse.model.property_ids import Vt
from posthouse.protocols.management.stubs import (
    MANAGEMENT,
    METHODS,
    ActionResult,
    GetProperties,
    ManagementAction,
    ManagementOpnum,
    ObjectType,
    PropertyValues,
)
from posthouse.protocols.queue_format import any_name_of
from posthouse.rpc.endpoint_mapper import Entry
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.propvariant import NULL, Variant, text, texts
from posthouse.rpc.security import Level
from tests.client.read_peer import Break, Peer

QUEUE_NOT_ACTIVE = 0xC00E0004
Answer = Callable[[Any, Call], Any]


class ManagedPeer(Peer):
    """Its machine has properties; its queues have some, or a code that they are refused with."""

    def __init__(self) -> None:
        super().__init__(interfaces=False)
        self.machine: dict[int, Variant] = {
            1: texts([]),
            2: texts([]),
            3: NULL,
            4: text("CONNECTED"),
            5: text("Windows 10.0.17763, MSMQ 6.3"),
            6: Variant(Vt.I8, 0),
        }
        self.queues: dict[str, dict[int, Variant] | int] = {}
        self.actions: list[tuple[str, str]] = []
        self.info_instead: Answer | None = None
        self.entries[:] = [Entry(MANAGEMENT, self.port)]
        methods = {0: self._info, 1: self._act}
        self._interfaces.append(Interface(MANAGEMENT, "fake", methods, Level.NONE))

    def add(
        self, name: str, *, messages: int = 0, size: int = 0, active: bool = True, **more: Variant
    ) -> None:
        """A private queue of this machine."""
        path = f"winhost\\private$\\{name}"
        listed = self.machine[2].value
        assert isinstance(listed, tuple)
        self.machine[2] = texts((*listed, path))
        key = f"private$\\{name}"
        if not active:
            self.queues[key] = QUEUE_NOT_ACTIVE
            return
        self._activate(f"DIRECT=OS:{path}")
        self.queues[key] = {
            1: text(path),
            2: text(f"DIRECT=OS:{path}"),
            3: text("PRIVATE"),
            4: text("LOCAL"),
            5: text("NO"),
            7: Variant(Vt.UI4, messages),
            8: Variant(Vt.UI4, size),
            9: Variant(Vt.UI4, 0),
            10: Variant(Vt.UI4, 0),
            11: text("LOCAL CONNECTION"),
            **{int(key[1:]): value for key, value in more.items()},
        }

    def add_outgoing(self, name: str, state: str, messages: int, hops: list[str]) -> None:
        """An outgoing queue."""
        self._activate(name)
        self.queues[name.casefold()] = {
            2: text(name),
            3: text("PRIVATE"),
            4: text("REMOTE"),
            5: text("UNKNOWN"),
            7: Variant(Vt.UI4, messages),
            8: Variant(Vt.UI4, 100 * messages),
            11: text(state),
            12: texts(hops) if hops else NULL,
        }

    def _activate(self, name: str) -> None:
        listed = self.machine[1].value
        assert isinstance(listed, tuple)
        self.machine[1] = texts((*listed, name))

    # -- methods

    def _info(self, call: Call) -> None:
        method = METHODS[ManagementOpnum.GET_INFO]
        request: GetProperties = method.request.decode(call.stub, ndr64=call.ndr64)
        self.calls.append((0, request))
        answer = self.info_instead or self._answer_info
        try:
            response = answer(request, call)
        except Break:
            self._break(call)
            return
        if isinstance(response, bytes):
            call.answer(response)
        elif response is not None:
            call.answer(method.response.encode(response, ndr64=call.ndr64))

    def _answer_info(self, request: GetProperties, call: Call) -> Any:
        asked = [one.propid for one in request.properties]
        if request.object.type == ObjectType.MACHINE:
            values: dict[int, Variant] | int = self.machine
        else:
            assert request.object.queue is not None
            values = self._queue(str(any_name_of(request.object.queue)))
        if isinstance(values, int):
            return PropertyValues((NULL,) * len(asked), values)
        return PropertyValues(tuple([values.get(one, NULL) for one in asked]), 0)

    def _queue(self, name: str) -> dict[int, Variant] | int:
        path = name.partition("\\")[2].casefold()
        found = self.queues.get(name.casefold(), self.queues.get(path))
        return 0xC00E0003 if found is None else found

    def _act(self, call: Call) -> None:
        method = METHODS[ManagementOpnum.ACTION]
        request: ManagementAction = method.request.decode(call.stub, ndr64=call.ndr64)
        queue = request.object.queue
        self.actions.append((request.action, "" if queue is None else str(any_name_of(queue))))
        with suppress(OSError):
            call.answer(method.response.encode(ActionResult(0), ndr64=call.ndr64))
