"""Whether messages will pass between here and another MSMQ machine, tried from here.

What can be tried is tried: the name, TCP 1801 with a real handshake, the endpoint mapper, remote
read and management with a login. What cannot be seen from here is listed with what to look at.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from posthouse.client.binary.sender import BinarySender
from posthouse.client.errors import ClientConnectionError
from posthouse.client.remote.connect import (
    MANAGING,
    READING,
    LoginDenied,
    WantedInterface,
    connect,
    mapped_port,
    reason_of,
)
from posthouse.client.remote.findings import NAME_LENGTH_MAX, PeerFinding
from posthouse.client.remote.inventory import problem_of
from posthouse.client.remote.local_checks import OwnSide
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.management import RemoteManagement
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.protocols.binary.settings import BinarySettings

CONTAINER_MARKS: Final = ("/.dockerenv", "/run/.containerenv")
ERRORS: Final = (QueueError, RemoteProtocolError, OSError)


class PeerCheck:
    """The checks of one machine, in the order in which they build on each other."""

    def __init__(
        self,
        place: RemotePlace,
        login: RemoteLogin,
        *,
        binary_port: int,
        timeout_s: float,
        own_side: OwnSide | None = None,
    ) -> None:
        self.place = place
        self._own_side = own_side
        self._addresses: list[str] = []
        self._guid = ""  # of the other machine, once a session was opened
        self._login_denied = False
        self.binary_port = binary_port
        self._login = login
        self._timeout_s = timeout_s

    def run(self) -> Iterator[PeerFinding]:
        """Every finding; without an address there is nothing else to try."""
        resolved = self._name()
        yield resolved
        if resolved.state == "failed":
            return
        yield from self._lengths()
        yield self._binary()
        yield from self._here()
        yield from self._way_back()
        for wanted in (READING, MANAGING):
            yield self._mapper(wanted)
        yield self._management()
        yield self._remote_read()
        yield _SENDING
        yield _NAMES

    # -- names

    def _name(self) -> PeerFinding:
        try:
            found = socket.getaddrinfo(self.place.host, self.binary_port, type=socket.SOCK_STREAM)
        except OSError as error:
            return PeerFinding(
                "name",
                "failed",
                f"{self.place.host} has no address: {error.strerror or error}",
                "Check DNS and /etc/hosts here, or use the address of the machine.",
            )
        self._addresses = sorted({str(one[4][0]) for one in found})
        return PeerFinding("name", "ok", f"{self.place.host} is {', '.join(self._addresses)}")

    def _lengths(self) -> Iterator[PeerFinding]:
        names = [("there", self.place.host)]
        if self._own_side is None:
            names.append(("here", socket.gethostname()))
        for whose, name in names:
            label = name if _is_address(name) else name.partition(".")[0]
            if len(label) > NAME_LENGTH_MAX and not _is_address(name):
                yield PeerFinding(
                    f"name {whose}",
                    "warning",
                    f"{label} has more than {NAME_LENGTH_MAX} characters",
                    "Windows uses the first 15 characters: use the name that it has "
                    "(`hostname` there), or an address; [queue_manager] name and aliases here.",
                )

    # -- messages

    def _binary(self) -> PeerFinding:
        """TCP 1801: a session is opened, and closed without a message."""
        where = f"{self.place.host}:{self.binary_port}"
        sender = BinarySender(self.place.host, self.binary_port, self._timeout_s, BinarySettings())
        try:
            sender.connect()
            self._guid = format_guid(sender.peer_guid)
        except ERRORS as error:
            return PeerFinding(
                "messages",
                "failed",
                f"no session at {where}: {_cause(error)}",
                "Start Message Queuing there and open TCP 1801 in its firewall. A hardened MSMQ "
                "takes HTTP only: send to DIRECT=HTTP names.",
            )
        finally:
            sender.close()
        return PeerFinding("messages", "ok", f"{where} takes messages")

    def _here(self) -> Iterator[PeerFinding]:
        """The queue manager here: its names, what it refused, what waits for an answer."""
        if self._own_side is None:
            yield PeerFinding(
                "queue manager here",
                "unknown",
                "no queue manager runs here, so its names were not compared",
                "Start it and look again, or name its home: --home.",
            )
            return
        if self._guid:
            yield from self._own_side.same_identity(self.place.host, self._guid)
        names = {self.place.host.casefold(), *self._addresses}
        in_container = any(Path(mark).exists() for mark in CONTAINER_MARKS)
        yield from self._own_side.findings(self._own_address(), names, in_container=in_container)

    def _way_back(self) -> Iterator[PeerFinding]:
        """Order acknowledgments come to the address that the other machine sees."""
        address = self._own_address()
        if not address:
            return
        if self._own_side is None and any(Path(mark).exists() for mark in CONTAINER_MARKS):
            yield PeerFinding(
                "address",
                "warning",
                f"this is a container, with the address {address}",
                "The other machine sees the address of the host: put that and its names into "
                "[queue_manager] addresses and aliases, publish port 1801, or use the network of "
                "the host. Acknowledgments that do not come back leave messages unacknowledged.",
            )
        try:
            with socket.create_connection((address, self.binary_port), self._timeout_s):
                pass
        except OSError as error:
            yield PeerFinding(
                "way back",
                "warning",
                f"nothing listens here at {address}:{self.binary_port} ({reason_of(error)})",
                "Acknowledgments of transactional messages come to that port: start the queue "
                "manager here, with [binary] port 1801, and open it to the other machine.",
            )
            return
        yield PeerFinding(
            "way back",
            "unknown",
            f"a queue manager listens here at {address}:{self.binary_port}",
            "Whether the other machine reaches it cannot be seen from here: look there with "
            f"Test-NetConnection {address} -Port {self.binary_port}. With NAT in between, MSMQ "
            "has no way back; use HTTP (DIRECT=HTTP).",
        )

    def _own_address(self) -> str:
        """The address that packets to the other machine leave from."""
        try:
            with socket.create_connection(
                (self.place.host, self.binary_port), self._timeout_s
            ) as connection:
                return str(connection.getsockname()[0])
        except OSError:
            return ""

    # -- remote procedure calls

    def _mapper(self, wanted: WantedInterface) -> PeerFinding:
        check, where = f"mapper, {wanted.what}", f"{self.place.host}:{self.place.epm_port}"
        try:
            port = mapped_port(self.place, wanted, time.monotonic() + self._timeout_s)
        except ERRORS as error:
            return PeerFinding(check, "failed", _cause(error), str(getattr(error, "remedy", "")))
        if port is None:
            return PeerFinding(
                check,
                "warning",
                f"no endpoint mapper answers at {where}",
                "Open TCP 135 there; without it only the usual port 2103 is tried.",
            )
        return PeerFinding(check, "ok", f"{wanted.what} is at port {port}")

    def _remote_read(self) -> PeerFinding:
        if self._login_denied:
            return PeerFinding(
                "remote read",
                "unknown",
                "not tried, because the login was refused",
                "Each refused login counts towards locking the account there.",
            )
        return self._tried(
            "remote read",
            lambda: connect(self.place, self._login, self._timeout_s).close(),
            "a reader can connect; whether a queue may be read is asked when it is opened",
        )

    def _management(self) -> PeerFinding:
        management = RemoteManagement(self.place, self._login, timeout_s=self._timeout_s)

        def ask() -> None:
            management.machine(4)

        try:
            return self._tried("management", ask, "it answers: posthouse scan will work")
        finally:
            management.close()

    def _tried(self, check: str, attempt: Callable[[], None], good: str) -> PeerFinding:
        try:
            attempt()
        except ERRORS as error:
            self._login_denied = isinstance(error, LoginDenied)
            problem = problem_of(error, check)
            return PeerFinding(check, "failed", f"{problem.kind}: {problem.cause}", problem.remedy)
        return PeerFinding(check, "ok", good)


_SENDING: Final = PeerFinding(
    "right to send",
    "unknown",
    "whether queues there take messages of unsigned senders cannot be asked",
    "A queue that was created in a domain takes messages of its creator only, and MSMQ drops "
    "others without an answer: grant ANONYMOUS LOGON the right Send on it.",
)
_NAMES: Final = PeerFinding(
    "names there",
    "unknown",
    "whether the other machine takes messages to every name of it cannot be asked",
    "It refuses names and addresses that are not its own: use its computer name in DIRECT=OS: "
    "names, or set IgnoreOSNameValidation there (KB306785).",
)


def _cause(error: BaseException) -> str:
    if isinstance(error, ClientConnectionError | QueueError):
        return error.cause
    return str(error) or type(error).__name__


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
