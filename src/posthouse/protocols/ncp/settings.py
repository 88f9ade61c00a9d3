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
        bool,
        meaning(
            "Opens this endpoint. Without it, job queues are available only to Posthouse clients."
        ),
    ] = True
    listen: Annotated[
        Name,
        meaning(
            "Address of the listener. The option `--listen` does not change it, because "
            "logins of NetWare are weak."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Port | None, meaning("Port of the listener. Default: that of the port set, 524.")
    ] = None
    keyed_logins: Annotated[
        bool, meaning("Accepts logins that do not send the password itself.")
    ] = True
    clear_text_logins: Annotated[
        bool,
        meaning(
            "Accepts logins with the password in clear text, and changes of passwords. Anyone"
            " on the network path can read them."
        ),
    ] = False
    # 1.2: bounded before anything is kept
    request_max: Annotated[
        int,
        size(4 * KIB, 16 * MIB, "Largest request on TCP. A longer one ends the connection."),
    ] = PDU_SIZE_MAX
    # Accepted by 0x61 and 0x21.
    buffer_size_max: Annotated[
        int,
        size(
            512, 65_000, "Largest amount of data that a client on TCP may send or request at once."
        ),
    ] = 60 * KIB
    datagram_buffer_max: Annotated[
        int,
        size(
            512, 60_000, "Largest amount of data that a client on UDP may send or request at once."
        ),
    ] = 8 * KIB
    calls_max: Annotated[
        int,
        within(
            1,
            10_000,
            "Largest number of unanswered requests of a TCP connection. More are read when "
            "one is answered.",
        ),
    ] = 16
    # NetWare's own: first question after 4 min 56.6 s, then every 59.3 s, ten in all.
    watchdog_delay_ms: Annotated[
        int,
        within(
            1, DAY_MS, "Time after which a silent client on UDP is asked whether it is still there."
        ),
    ] = 296_600
    watchdog_interval_ms: Annotated[int, within(1, DAY_MS, "Time between two such questions.")] = (
        59_300
    )
    watchdog_count: Annotated[
        int, within(0, 1000, "Number of unanswered questions after which a client counts as lost.")
    ] = 10
    create_ms: Annotated[
        int, within(1, DAY_MS, "Time allowed for the first request of a TCP connection.")
    ] = 30_000
    unfinished_ms: Annotated[
        int, within(1, DAY_MS, "Time allowed for a request to arrive completely.")
    ] = 30_000
    login_ms: Annotated[
        int, within(1, DAY_MS, "Time after which a silent connection without a login is closed.")
    ] = 300_000
