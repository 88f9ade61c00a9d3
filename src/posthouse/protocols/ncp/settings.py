"""`[ncp]`: every timer and limit of NCP (qms-facts 1, 7.3; decision 13)."""

from __future__ import annotations

from typing import Annotated

from posthouse.model.settings_kinds import (
    DAY_MS,
    KIB,
    MIB,
    Name,
    Port,
    Section,
    meaning,
    size,
    within,
)
from posthouse.wire.ncp.framing import PDU_SIZE_MAX


class NcpSettings(Section, frozen=True):
    """Job queues and the bindery for NetWare clients: the endpoint `ncp`, on TCP and UDP."""

    enabled: Annotated[
        bool, meaning("Without it job queues are there for our own clients only.")
    ] = True
    listen: Annotated[
        Name,
        meaning(
            "Address of the listener; `--listen` does not change it, for NetWare's logins are as "
            "weak as their time."
        ),
    ] = "127.0.0.1"
    port: Annotated[Port | None, meaning("Its port; left out: the one of the port set, 524.")] = (
        None
    )
    keyed_logins: Annotated[bool, meaning("Logins that do not show the password on the wire.")] = (
        True
    )
    clear_text_logins: Annotated[
        bool,
        meaning(
            "Logins with the password in clear text, and changes of passwords; anybody on the way "
            "can read them."
        ),
    ] = False
    # 1.2: bounded before anything is kept
    request_max: Annotated[
        int,
        size(4 * KIB, 16 * MIB, "The largest request on TCP; a longer one ends its connection."),
    ] = PDU_SIZE_MAX
    # Accepted by 0x61 and 0x21.
    buffer_size_max: Annotated[
        int, size(512, 65_000, "Data that a client on TCP is told to send or ask for at once.")
    ] = 60 * KIB
    datagram_buffer_max: Annotated[int, size(512, 60_000, "The same on UDP.")] = 8 * KIB
    calls_max: Annotated[
        int,
        within(
            1,
            10_000,
            "Requests of a TCP connection that wait for their answers; more are read when one of "
            "them has gone.",
        ),
    ] = 16
    # NetWare's own: first question after 4 min 56.6 s, then every 59.3 s, ten in all.
    watchdog_delay_ms: Annotated[
        int, within(1, DAY_MS, "A client on UDP that is silent so long is asked.")
    ] = 296_600
    watchdog_interval_ms: Annotated[int, within(1, DAY_MS, "Time between two questions.")] = 59_300
    watchdog_count: Annotated[
        int, within(0, 1000, "After so many questions without an answer it counts as lost.")
    ] = 10
    create_ms: Annotated[
        int, within(1, DAY_MS, "Time for the first request of a TCP connection.")
    ] = 30_000
    unfinished_ms: Annotated[int, within(1, DAY_MS, "Time that a request has to become whole.")] = (
        30_000
    )
    login_ms: Annotated[
        int, within(1, DAY_MS, "A silent connection without a login ends after it.")
    ] = 300_000
