"""Another computer's queues counted and managed: the client of [MS-MQMR], good and bad peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import posthouse
from posthouse.client.errors import ServerUnreachable, SessionEnded
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.management import RemoteManagement
from posthouse.model.errors import (
    AccessDenied,
    OperationNotSupportedByRemoteComputer,
    QueueNotActive,
    QueueNotFound,
    RemoteProtocolError,
)
from posthouse.model.names import parse_format_name
from posthouse.model.property_ids import Vt
from posthouse.protocols.management.stubs import METHODS, ManagementOpnum, PropertyValues
from posthouse.rpc.propvariant import NULL, Variant, texts
from posthouse.rpc.security import Level
from posthouse.rpc.statuses import Fault
from tests.client.managed_peer import ManagedPeer
from tests.client.read_peer import Break
from tests.client.read_serving import PASSWORD, USER, ReadServing, SecretServing, read_serving

ORDERS = parse_format_name(r"DIRECT=OS:winhost\private$\orders")
GET_INFO = METHODS[ManagementOpnum.GET_INFO]


@pytest.fixture(scope="module")
def server() -> Iterator[ReadServing]:
    with read_serving(SecretServing) as made:
        yield made


@pytest.fixture
def peer() -> Iterator[ManagedPeer]:
    made = ManagedPeer()
    yield made
    made.close()


@pytest.fixture
def managing(peer: ManagedPeer) -> Iterator[RemoteManagement]:
    made = manager_of(peer)
    yield made
    made.close()


def manager_of(peer: ManagedPeer, timeout_s: float = 20.0, **place: Any) -> RemoteManagement:
    where = RemotePlace("127.0.0.1", **({"rpc_port": peer.port} | place))
    return RemoteManagement(where, RemoteLogin(level=Level.NONE), timeout_s=timeout_s)


# -- count()


def test_messages_of_a_remote_queue_are_counted(server: ReadServing) -> None:
    with posthouse.connect(server.home) as here:
        queue = here.create_queue(r".\private$\counted")
        grant = {"who": USER, "rights": ["receive"]}
        here.call("POST", "/queues/.%5Cprivate$%5Ccounted/access/grant", grant)
        with posthouse.msmq(
            "127.0.0.1", user=USER, password=PASSWORD, rpc_port=server.rpc_port, via=here
        ) as there:
            far = there.queue(r"private$\counted")
            assert far.count() == 0
            queue.send_many(["one", "two", "three"])
            assert far.count() == 3
            far.receive(timeout=5)
            assert far.count() == 2


def test_who_may_not_receive_may_not_count(server: ReadServing) -> None:
    with posthouse.connect(server.home) as here:
        here.create_queue(r".\private$\closed")
        with (
            posthouse.msmq(
                "127.0.0.1", user=USER, password=PASSWORD, rpc_port=server.rpc_port
            ) as there,
            pytest.raises(AccessDenied, match="R_QMMgmtGetInfo") as refused,
        ):
            there.queue(r"private$\closed").count()
        assert "administrator" in refused.value.remedy


def test_a_queue_that_is_not_active_has_no_messages(
    peer: ManagedPeer, managing: RemoteManagement
) -> None:
    """Windows answers so for a queue that is there, closed and empty."""
    peer.add("orders", active=False)
    assert managing.count(ORDERS) == 0
    with pytest.raises(QueueNotFound):
        managing.count(parse_format_name(r"DIRECT=OS:winhost\private$\nowhere"))
    peer.queues[r"private$\gone"] = QueueNotActive.code
    with pytest.raises(QueueNotActive):
        managing.count(parse_format_name(r"DIRECT=OS:winhost\private$\gone"))
    peer.queues[r"private$\orders"] = 0xC00E0001  # MQ_ERROR: other versions
    assert managing.count(ORDERS) == 0


# -- what comes is passed on


@pytest.mark.spec("MS-MQMR 3.2.4/1")
def test_values_are_passed_on_as_they_come(peer: ManagedPeer, managing: RemoteManagement) -> None:
    peer.add("orders", messages=7, size=900)
    assert managing.machine(4, 2) == {4: peer.machine[4], 2: texts([r"winhost\private$\orders"])}
    assert managing.queue(ORDERS, 7, 8, 26) == {
        7: Variant(Vt.UI4, 7),
        8: Variant(Vt.UI4, 900),
        26: NULL,
    }
    managing.act("PAUSE", ORDERS)
    managing.act("TIDY")
    assert peer.actions == [("PAUSE", str(ORDERS)), ("TIDY", "")]


@pytest.mark.spec("MS-MQMR 3.2.4/1", "MS-MQMR 3.2.4/2")
@pytest.mark.parametrize("code", [0xC00E0025, 0xC00E0001, 0xC00E0003, 0xC00E0B0B])
def test_errors_are_passed_on_and_values_not_looked_at(
    peer: ManagedPeer, managing: RemoteManagement, code: int
) -> None:
    strange = (Variant(Vt.BLOB, b"?"),) * 3
    peer.info_instead = lambda request, call: PropertyValues(strange, code)
    with pytest.raises(posthouse.QueueError) as refused:
        managing.queue(ORDERS, 7)
    assert refused.value.code == code


def test_the_endpoint_mapper_says_where(peer: ManagedPeer) -> None:
    peer.add("orders", messages=1)
    managing = manager_of(peer, rpc_port=None, epm_port=peer.port)
    assert managing.count(ORDERS) == 1
    managing.close()
    with pytest.raises(SessionEnded):
        managing.count(ORDERS)
    peer.entries.clear()
    with pytest.raises(OperationNotSupportedByRemoteComputer, match="does not list management"):
        manager_of(peer, rpc_port=None, epm_port=peer.port).count(ORDERS)


def test_a_broken_connection_is_made_again(peer: ManagedPeer, managing: RemoteManagement) -> None:
    peer.add("orders", messages=1)
    assert managing.count(ORDERS) == 1
    peer.cut()
    assert managing.count(ORDERS) == 1
    assert peer.connections == 2


# -- bad peers


def answered(raw: bytes) -> Any:
    return lambda request, call: raw


@pytest.mark.spec("MS-MQMR 3.2.4/3")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff" * 64,
        GET_INFO.response.encode(PropertyValues((), 0)),
        GET_INFO.response.encode(PropertyValues((NULL, NULL), 0)),
        GET_INFO.response.encode(PropertyValues((Variant(Vt.I8, 1),), 0)),
        GET_INFO.response.encode(PropertyValues((Variant(Vt.UI4, 1),), 0)) + bytes(64),
    ],
    ids=["nothing", "noise", "no value", "two values", "another type", "more behind"],
)
def test_an_answer_that_does_not_fit_is_told_of(
    peer: ManagedPeer, managing: RemoteManagement, raw: bytes
) -> None:
    peer.info_instead = answered(raw)
    with pytest.raises(RemoteProtocolError, match=r"127\.0\.0\.1 answers"):
        managing.count(ORDERS)


def test_a_fault_is_told_of(peer: ManagedPeer, managing: RemoteManagement) -> None:
    def fault(request: Any, call: Any) -> Any:
        raise Fault(5)

    peer.info_instead = fault
    with pytest.raises(AccessDenied):
        managing.count(ORDERS)


def test_a_peer_that_breaks_off_each_time_is_given_up(
    peer: ManagedPeer, managing: RemoteManagement
) -> None:
    def cut(request: Any, call: Any) -> Any:
        raise Break

    peer.info_instead = cut
    with pytest.raises(ConnectionError):
        managing.count(ORDERS)
    assert peer.connections == 2


def test_a_peer_that_says_nothing_is_given_up(peer: ManagedPeer) -> None:
    peer.info_instead = lambda request, call: None
    managing = manager_of(peer, timeout_s=0.2)
    with pytest.raises(ServerUnreachable, match="did not answer R_QMMgmtGetInfo"):
        managing.count(ORDERS)
    managing.close()
