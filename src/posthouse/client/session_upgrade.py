"""The upgrade from HTTP to a client session, on the client's side (docs/ways.md)."""

from __future__ import annotations

import socket
import ssl
from typing import Final

import msgspec

from posthouse.api.types import ErrorJson
from posthouse.client.address import Address
from posthouse.client.errors import (
    CertificateExpired,
    CertificateNotTrusted,
    ClientConnectionError,
    ServerUnreachable,
    SessionLost,
    refused,
)
from posthouse.model.errors import QueueError, RemoteProtocolError, ServiceNotAvailable
from posthouse.wire.frames.frames import UPGRADE

PATH: Final = "/api/v1/session"
HEAD_MAX: Final = 8192
BODY_MAX: Final = 65536
TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # an alert, a handshake
ENDPOINT: Final = "the admin endpoint has port 8816 unless [admin] port sets another."
ELSEWHERE: Final = (
    f"Check that `posthouse serve` runs there and listens on that address ([admin] listen); "
    f"{ENDPOINT}"
)
OTHERS_HOME: Final = (
    "The home belongs to another user. Run as that user, or use its admin endpoint with a token: "
    "--url http://127.0.0.1:8816 --token-file FILE."
)
_SWITCHING = 101
OUT_OF_DATE: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID and _HAS_EXPIRED


def upgrade_request(address: Address) -> bytes:
    """What is sent first."""
    lines = [
        f"GET {PATH} HTTP/1.1",
        f"Host: {address.host_header}",
        "Connection: Upgrade",
        f"Upgrade: {UPGRADE}",
    ]
    if address.authorization:
        lines.append(f"Authorization: {address.authorization}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


class Upgrading:
    """Reads the answer, however it arrives, until the session begins."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._data = bytearray()
        self._status = 0
        self._length: int | None = None

    def receive(self, data: bytes) -> bytes | None:
        """None: more is needed. Else the session has begun, with these bytes of it.

        Raises the queue manager's refusal, or what else there is instead of a session.
        """
        self._data += data
        if not self._status:
            if not b"HTTP/1.".startswith(self._data[:7]):
                raise self._stranger()
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                if len(self._data) > HEAD_MAX:
                    raise self._stranger()
                return None
            self._read_head(bytes(self._data[:end]))
            del self._data[: end + 4]
        if self._status == _SWITCHING:
            return bytes(self._data)
        if self._length is not None and len(self._data) >= self._length:
            raise self._refusal()
        if len(self._data) > BODY_MAX:
            raise self._stranger()
        return None

    def ended(self) -> Exception:
        """The connection was closed instead of an answer, or after a refusal."""
        if self._status:
            return self._refusal()
        if self._address.home is not None:
            return ServerUnreachable(
                f"{self._address.shown} closed the connection",
                "It may be stopping, or have too many connections; try again.",
            )
        tls = "" if self._address.tls else "If it has a certificate, write https://. "
        return ServerUnreachable(
            f"{self._address.shown} closed the connection without an answer",
            f"{tls}Check the port: {ENDPOINT} If it is the right one, the queue manager may be "
            "stopping or have too many connections; try again.",
        )

    def _read_head(self, head: bytes) -> None:
        first, *rest = head.split(b"\r\n")
        words = first.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise self._stranger()
        self._status = int(words[1])
        for line in rest:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                self._length = min(int(value), BODY_MAX)

    def _refusal(self) -> Exception:
        try:
            error = msgspec.json.decode(bytes(self._data), type=ErrorJson).error
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._stranger()
        refusal: QueueError = refused(error.code, error.cause, error.remedy)
        return refusal

    def _stranger(self) -> ClientConnectionError:
        if self._data.startswith(TLS_RECORDS):
            return ClientConnectionError(
                f"{self._address.shown} speaks TLS", "Write https:// instead of http://."
            )
        said = f" (status {self._status})" if self._status else ""
        return ClientConnectionError(
            f"{self._address.shown} is another service, not the admin endpoint of a queue "
            f"manager{said}",
            f"Check host and port: {ENDPOINT}",
        )


def unreachable(address: Address, error: OSError) -> ClientConnectionError:
    """Why there is no connection, and what to do about that."""
    if isinstance(error, ClientConnectionError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = CertificateExpired if error.verify_code in OUT_OF_DATE else CertificateNotTrusted
        return kind(f"the certificate of {address.shown} is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return ClientConnectionError(
            f"{address.shown} does not answer with TLS: {error.reason or error}",
            f"Write http:// if it has no certificate, or check the port: {ENDPOINT}",
        )
    reason = error.strerror or str(error) or "it did not answer in time"
    cause = f"no queue manager answers at {address.shown}: {reason}"
    if isinstance(error, PermissionError) and address.home is not None:
        return ServerUnreachable(f"{address.shown}: {reason}", OTHERS_HOME)
    if isinstance(error, socket.gaierror):
        return ServerUnreachable(
            f"the host {address.host} is not found: {reason}", "Check the name, or use an address."
        )
    if address.home is None:
        return ServerUnreachable(cause, ELSEWHERE)
    return ServerUnreachable(cause)


def as_connection_error(error: Exception) -> Exception:
    """What kept a session from beginning, as the client names it."""
    if isinstance(error, RemoteProtocolError):
        return ClientConnectionError(f"the queue manager sent an invalid answer: {error}")
    if isinstance(error, OSError) and not isinstance(error, ClientConnectionError):
        return ServerUnreachable(f"the connection broke: {error.strerror or error}")
    return error


def lost_connection(error: Exception) -> ClientConnectionError:
    """What broke a session, for those that waited and got no other one."""
    known = as_connection_error(error)
    return known if isinstance(known, ClientConnectionError) else SessionLost(str(known))


def out_of_reach(reason: Exception) -> ServerUnreachable:
    """For a read whose time was over while there was no connection."""
    cause = reason.cause if isinstance(reason, ClientConnectionError | QueueError) else str(reason)
    return ServerUnreachable(f"there was no connection until the timeout was over: {cause}")


def worth_retrying(error: Exception) -> bool:
    """Whether another attempt may end otherwise: a refusal stays one, a stop passes."""
    return isinstance(error, OSError | ServiceNotAvailable)
