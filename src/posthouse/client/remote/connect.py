"""How a client reaches an RPC interface of another computer's MSMQ ([MS-MQRR] 2.1, 3.2.4.1).

By a port that the caller names, else by the endpoint mapper there; without one, by the port
that the documents give, whose R_GetServerPort has the last word.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Final, Literal, NamedTuple

from posthouse.client.errors import ClientConnectionError, ServerUnreachable
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.rpc_link import CallTimeout, RpcLink
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    OperationCancelled,
    OperationNotSupportedByRemoteComputer,
    QueueError,
    QueueNotFound,
    RemoteProtocolError,
    UnsupportedOperation,
    error_for,
)
from posthouse.protocols.management.stubs import MANAGEMENT
from posthouse.protocols.remote_read.stubs import REMOTE_READ, ServerPort, decode_response
from posthouse.rpc import ept, statuses
from posthouse.rpc.client import BindRefused, ClientConnection
from posthouse.rpc.kerberos import KerberosMissing
from posthouse.rpc.providers import auth_type_of, initiator
from posthouse.rpc.security import Level, LoginRefused, SecurityContext
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import SyntaxId

RPC_PORT: Final = 2103
MAPPER_S: Final = 5.0  # a firewall may drop the packets without an answer
GET_SERVER_PORT: Final = 0
_FILETIME_EPOCH: Final = 116_444_736_000_000_000  # 1970 in units of 100 ns since 1601

Reason = Literal["name", "port", "firewall", "network"]


class WantedInterface(NamedTuple):
    """An interface, and what people call it."""

    interface: SyntaxId
    what: str


READING: Final = WantedInterface(REMOTE_READ, "remote read")
MANAGING: Final = WantedInterface(MANAGEMENT, "management")
_MAPPING: Final = WantedInterface(ept.EPT, "an endpoint mapper")


_REMEDIES: Final[dict[Reason, str]] = {
    "name": "Check the spelling, DNS and /etc/hosts here, or use the address of the machine.",
    "port": "Start Message Queuing there; if it listens elsewhere, name the port (HOST:PORT, "
    "--rpc-port, rpc_port).",
    "firewall": "Is the machine on? Open TCP 135 and 2103 in its firewall.",
    "network": "Check that Message Queuing runs there and that the network reaches it.",
}


class NotReached(ServerUnreachable):
    """No connection to a port of another computer."""

    def __init__(self, host: str, port: int, wanted: WantedInterface, error: OSError) -> None:
        reason = error.strerror or str(error) or "it did not answer in time"
        super().__init__(
            f"no answer from {wanted.what} at {host}:{port}: {reason}",
            _REMEDIES[reason_of(error)],
        )
        self.reason = reason_of(error)


class OtherService(ServerUnreachable):
    """What answers at a port of another computer is not what is looked for there."""


class LoginDenied(AccessDenied):
    """The other computer refuses the login. Asking again with it may lock the account there."""


def reason_of(error: OSError) -> Reason:
    """What keeps a connection from being made."""
    if isinstance(error, socket.gaierror):
        return "name"
    if isinstance(error, ConnectionRefusedError):
        return "port"
    return "firewall" if isinstance(error, TimeoutError) else "network"


def connect(place: RemotePlace, login: RemoteLogin, timeout_s: float) -> RpcLink:
    """A link to the RemoteRead interface there; raises what is in the way, with a remedy."""
    deadline = time.monotonic() + timeout_s
    port = place.rpc_port
    if port is None:
        port = mapped_port(place, READING, deadline)
    if port is None:
        link = _by_the_usual_port(place, login, deadline)
    else:
        link = linked(place, port, READING, login, deadline)
    link.timeout_s = timeout_s  # from now on for each call
    return link


def connect_to_manage(place: RemotePlace, login: RemoteLogin, timeout_s: float) -> RpcLink:
    """A link to the management interface there ([MS-MQMR] 2.1).

    Without a mapper, it is looked for on the port of remote read: MSMQ has them in one process.
    """
    deadline = time.monotonic() + timeout_s
    port = place.rpc_port
    if port is None:
        port = mapped_port(place, MANAGING, deadline)
    link = linked(place, RPC_PORT if port is None else port, MANAGING, login, deadline)
    link.timeout_s = timeout_s
    return link


def mapped_port(place: RemotePlace, wanted: WantedInterface, deadline: float) -> int | None:
    """The answer of the endpoint mapper; None if none answers."""
    host, soon = place.host, min(deadline, time.monotonic() + MAPPER_S)
    asked = ept.map_request(wanted.interface)
    try:
        link = _bound(host, place.epm_port, _MAPPING, RemoteLogin(level=Level.NONE), soon)
    except OSError:
        return None
    try:
        response = ept.MAP_RESPONSE.decode(link.call(ept.EPT_MAP, asked))
    except (CallTimeout, ClientConnectionError):
        return None
    except Fault as fault:
        raise refused(fault.status, f"the endpoint mapper of {host}", "ept_map") from None
    finally:
        link.close()
    ports = ept.tcp_ports(response, wanted.interface)
    if response.status or not ports:
        raise _not_spoken(f"the endpoint mapper of {host} does not list {wanted.what}")
    return ports[0]


def _by_the_usual_port(place: RemotePlace, login: RemoteLogin, deadline: float) -> RpcLink:
    """3.2.4.1: R_GetServerPort returns the port to go on with."""
    link = linked(place, RPC_PORT, READING, login, deadline)
    try:
        port = _server_port(link, place.host)
    except BaseException:
        link.close()
        raise
    if port == RPC_PORT or not 0 < port < 1 << 16:
        return link
    link.close()
    return linked(place, port, READING, login, deadline)


def _server_port(link: RpcLink, host: str) -> int:
    try:
        answer: ServerPort = decode_response(GET_SERVER_PORT, link.call(GET_SERVER_PORT, b""))
    except CallTimeout:
        raise ServerUnreachable(f"{host}:{RPC_PORT} did not answer in time") from None
    except Fault as fault:
        raise refused(fault.status, host, "R_GetServerPort") from None
    return answer.port


def linked(
    place: RemotePlace, port: int, wanted: WantedInterface, login: RemoteLogin, deadline: float
) -> RpcLink:
    """A link to an interface on a port; raises what is in the way, with a remedy."""
    try:
        return _bound(place.host, port, wanted, login, deadline)
    except OSError as error:
        if isinstance(error, ClientConnectionError):
            raise
        raise NotReached(place.host, port, wanted, error) from None


def _bound(
    host: str, port: int, wanted: WantedInterface, login: RemoteLogin, deadline: float
) -> RpcLink:
    timeout_s = max(deadline - time.monotonic(), 0.001)
    try:
        return RpcLink((host, port), _connection(host, wanted.interface, login), timeout_s)
    except BindRefused as error:
        raise _bind_refused(error, f"{host}:{port}", wanted, login) from None
    except LoginRefused as error:
        raise _login_refused(f"{host}:{port}", login, str(error)) from None
    except KerberosMissing as error:  # negotiation asks for it with its first token
        raise UnsupportedOperation(
            str(error), "Log in with a password and the mechanism ntlm or negotiate."
        ) from None
    except RemoteProtocolError as error:
        raise OtherService(
            f"what answers at {host}:{port} is not {wanted.what}: {error}",
            "Name the port of the RPC endpoint (HOST:PORT, --rpc-port, rpc_port).",
        ) from None


def _connection(host: str, interface: SyntaxId, login: RemoteLogin) -> ClientConnection:
    if login.level == Level.NONE:
        return ClientConnection(interface)
    security = _initiator(host, login)
    auth_type = auth_type_of(login.mechanism)
    return ClientConnection(interface, security=security, auth_type=auth_type, level=login.level)


def _initiator(host: str, login: RemoteLogin) -> SecurityContext:
    return initiator(
        login.mechanism,
        login.user or "",
        login.password or "",
        host,
        random_bytes=os.urandom,
        filetime=_FILETIME_EPOCH + time.time_ns() // 100,
    )


def _not_spoken(cause: str) -> QueueError:
    """Decision 50: MS-MQQP, which older machines speak, is not spoken here."""
    return OperationNotSupportedByRemoteComputer(
        cause,
        "Check that Message Queuing runs there. An MSMQ before Windows Server 2003 has only the "
        "older protocol MS-MQQP, which is not spoken here. A port that is named (rpc_port, "
        "--rpc-port) needs no mapper.",
    )


def _bind_refused(
    error: BindRefused, where: str, wanted: WantedInterface, login: RemoteLogin
) -> QueueError:
    if error.is_unknown_interface:
        return _not_spoken(f"{where} does not have the interface of {wanted.what}")
    if error.nak and error.reason == statuses.NAK_AUTHENTICATION_TYPE:
        return LoginDenied(
            f"{where} does not take logins by {login.mechanism}",
            "Choose another one (mechanism, --mechanism).",
        )
    return InsufficientResources(
        f"{where} takes no association now ({error})", "Try again later; look into its log."
    )


def _login_refused(where: str, login: RemoteLogin, why: str) -> QueueError:
    who = login.user or "an anonymous caller"
    remedy = "Check name and password, and that the account may log in there over RPC."
    if login.user and not login.password:
        remedy = f"The password was empty, so a Kerberos ticket was looked for. {remedy}"
    return LoginDenied(f"{where} refuses the login of {who}: {why}", remedy)


_SAME_AS: Final[dict[int, type[QueueError]]] = {
    0xC0000008: InvalidHandle,
    0xC0000022: AccessDenied,
    0xC000000D: InvalidParameter,
    statuses.ACCESS_DENIED: AccessDenied,
    statuses.CONTEXT_MISMATCH: InvalidHandle,
    statuses.CANCELLED: OperationCancelled,
    statuses.SERVER_TOO_BUSY: InsufficientResources,
    statuses.OUT_OF_MEMORY: InsufficientResources,
}
_NOT_UNDERSTOOD: Final = (statuses.BAD_STUB_DATA, statuses.PROTOCOL_ERROR, statuses.UNSPECIFIED)
_LACKING: Final = (
    statuses.UNKNOWN_INTERFACE,
    statuses.OPNUM_OUT_OF_RANGE,
    statuses.EPT_NOT_REGISTERED,
    statuses.EPT_NOT_REGISTERED_WIRE,
)


# Messages for results that concern one queue, whose general explanation does not name it.
_CAUSES: Final = {
    0xC00E0003: "{where} has no queue {queue}",
    0xC00E0008: "what waited for a message of {queue} was cancelled",
    0xC00E0009: "{queue} is open exclusively elsewhere, or it is open and you asked for "
    "exclusive access",
    0xC00E001B: "no message came to {queue} in time",
    0xC00E0025: "{where} does not let this user read {queue}",
    0xC00E0088: "the message is not in {queue}",
}


def refused(status: int, where: str, method: str, queue: str = "") -> QueueError:
    """The error that a result or a fault stands for (3.1.4): all of them are treated alike."""
    if status in _LACKING:
        return _not_spoken(f"{where} does not have {method}")
    if status == statuses.ACCESS_DENIED:
        return LoginDenied(
            f"{where} refuses this login: the password is wrong, or the level too low",
            "Check user and password, that the account may log in there over RPC, and "
            "the level of authentication: most machines want privacy.",
        )
    if status in _NOT_UNDERSTOOD:
        return OperationNotSupportedByRemoteComputer(
            f"{where} does not understand {method} as it is asked here (0x{status:08X})",
            "Check the log there: one of the two programs violates the protocol.",
        )
    known = _SAME_AS.get(status)
    if known is not None:
        return known(f"{where} refuses {method} of {queue} with 0x{status:08X}")
    cause = _CAUSES.get(status, "{where} refuses {method} of {queue}")
    cause = cause.format(where=where, method=method, queue=queue)
    if status == QueueNotFound.code:
        return QueueNotFound(
            cause, f"Check the spelling: posthouse queue list --machine {where} shows its queues."
        )
    error = error_for(status, cause)
    if status == AccessDenied.code:
        error.remedy = (
            "Ask an administrator of that machine for the right: peek to look at messages, receive "
            "to take them (on Windows in the properties of the queue, Security)."
        )
    return error
