"""The section `[ncp]` of `posthouse.toml`: job queues and the bindery for NetWare clients."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.runtime.settings_kinds import DAY_MS, SIZE, Name, Port
from posthouse.store.settings import KIB, MIB

_ncp = NcpSettings()


class NcpSection(Struct, frozen=True):
    """Job queues and the bindery for NetWare clients: the endpoint `ncp`, on TCP and UDP."""

    enabled: Annotated[
        bool, Meta(description="Without it job queues are there for our own clients only.")
    ] = True
    listen: Annotated[
        Name,
        Meta(
            description="Address of the listener; `--listen` does not change it, for NetWare's "
            "logins are as weak as their time."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Port | None, Meta(description="Its port; left out: the one of the port set, 524.")
    ] = None
    keyed_logins: Annotated[
        bool, Meta(description="Logins that do not show the password on the wire.")
    ] = _ncp.keyed_logins
    clear_text_logins: Annotated[
        bool,
        Meta(
            description="Logins with the password in clear text, and changes of passwords; anybody "
            "on the way can read them."
        ),
    ] = _ncp.clear_text_logins
    request_max: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=16 * MIB,
            extra={"unit": SIZE},
            description="The largest request on TCP; a longer one ends its connection.",
        ),
    ] = _ncp.pdu_size_max
    buffer_size_max: Annotated[
        int,
        Meta(
            ge=512,
            le=65_000,
            extra={"unit": SIZE},
            description="Data that a client on TCP is told to send or ask for at once.",
        ),
    ] = _ncp.buffer_size_max
    datagram_buffer_max: Annotated[
        int,
        Meta(
            ge=512,
            le=60_000,
            extra={"unit": SIZE},
            description="The same on UDP.",
        ),
    ] = _ncp.datagram_buffer_max
    calls_max: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Requests of a TCP connection that wait for their answers; more are read "
            "when one of them has gone.",
        ),
    ] = _ncp.calls_max
    watchdog_delay_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="A client on UDP that is silent so long is asked."),
    ] = _ncp.watchdog_delay_ms
    watchdog_interval_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time between two questions.")
    ] = _ncp.watchdog_interval_ms
    watchdog_count: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="After so many questions without an answer it counts as lost.",
        ),
    ] = _ncp.watchdog_count
    create_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time for the first request of a TCP connection.")
    ] = _ncp.create_ms
    unfinished_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time that a request has to become whole.")
    ] = _ncp.unfinished_ms
    login_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="A silent connection without a login ends after it."),
    ] = _ncp.login_ms

    def protocol(self) -> NcpSettings:
        """What the protocol gets of it."""
        return NcpSettings(
            keyed_logins=self.keyed_logins,
            clear_text_logins=self.clear_text_logins,
            pdu_size_max=self.request_max,
            buffer_size_max=self.buffer_size_max,
            datagram_buffer_max=self.datagram_buffer_max,
            calls_max=self.calls_max,
            watchdog_delay_ms=self.watchdog_delay_ms,
            watchdog_interval_ms=self.watchdog_interval_ms,
            watchdog_count=self.watchdog_count,
            create_ms=self.create_ms,
            unfinished_ms=self.unfinished_ms,
            login_ms=self.login_ms,
        )
