"""`[binary]` and `[ping]`: every timer and limit, with the document's values ([MS-MQQB] 3.1.2-3).

Notes are those of [MS-MQQB] section 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from posthouse.engine.transfer.settings import ArrivalSettings
from posthouse.model.settings_kinds import (
    DAY_MS,
    GIB,
    KIB,
    MIB,
    MINUTE_MS,
    Fault,
    Names,
    Port,
    Section,
    is_address,
    meaning,
    size,
    within,
)
from posthouse.model.text import excerpt


class BinarySettings(ArrivalSettings, frozen=True):
    """Messages to and from other queue managers, MSMQ's binary protocol: the endpoint `binary`."""

    enabled: Annotated[
        bool,
        meaning(
            "Exchanges messages with other computers. Without it, messages for them wait in "
            "their queues."
        ),
    ] = True
    port: Annotated[
        Port | None, meaning("Port of the listener. Default: that of the port set, 1801.")
    ] = None
    sessions_max: Annotated[
        int,
        within(
            1, 1_000_000, "Largest number of sessions that others have opened. More are refused."
        ),
    ] = 10_000
    links_per_caller: Annotated[
        int,
        within(
            1,
            10_000,
            "Largest number of connections at a time for answers to machines outside the "
            "directory that have called from one address and disconnected. More answers wait "
            "until their machine calls again.",
        ),
    ] = 16
    # WindowSize, notes 36 and 50, decision 28
    window: Annotated[
        int, within(1, 65_535, "Number of messages that a peer may send before an acknowledgment.")
    ] = 256
    send_batch: Annotated[
        int, size(4 * KIB, GIB, "Size of the messages read from the store at once for one session.")
    ] = 4 * MIB
    receive_ahead: Annotated[
        int,
        size(
            4 * KIB, GIB, "Size of the messages that one session may send before they are on disk."
        ),
    ] = 8 * MIB
    # Decision 24
    ack_from: Annotated[
        Names,
        meaning(
            "Addresses from which order and final acknowledgments count for any queue, in "
            "addition to the address that the queue's name leads to."
        ),
    ] = ()
    # RoundTripDelay
    round_trip_ms: Annotated[
        int,
        within(
            0,
            DAY_MS,
            "Round-trip time of a slow network: added to `retry_connect_ms` and "
            "`ack_wait_ms`, and twice to `initialization_ms`.",
        ),
    ] = 0
    # 3.1.2.1, note 43
    initialization_ms: Annotated[int, within(1, DAY_MS, "Time allowed for a session to open.")] = (
        MINUTE_MS
    )
    refusal_linger_ms: Annotated[
        int, within(0, DAY_MS, "Time that a refused peer has to read the answer.")
    ] = 1_000
    # 3.1.2.2, note 44
    cleanup_ms: Annotated[
        int, within(1, DAY_MS, "Time after which a session without messages is closed.")
    ] = 5 * MINUTE_MS
    cleanup_routing_ms: Annotated[
        int,
        within(
            1, DAY_MS, "Time after which a session without messages is closed on a routing server."
        ),
    ] = 2 * MINUTE_MS
    connect_timeout_ms: Annotated[int, within(1, DAY_MS, "Time allowed to connect.")] = 20_000
    # 3.1.2.3, note 45
    retry_connect_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "First pause before the next attempt to connect to a computer. It doubles each time.",
        ),
    ] = 5_000
    retry_connect_max_ms: Annotated[int, within(1, DAY_MS, "Longest such pause.")] = 5 * MINUTE_MS
    # The timer of retries, while the list of next hops is not at its end (3.1.6.1).
    next_hop_ms: Annotated[
        int, within(0, DAY_MS, "Pause before the next address of the same computer is tried.")
    ] = 100
    direct_attempts: Annotated[
        int,
        within(
            0,
            1_000_000,
            "Failed attempts in a row after which a machine of the same site is also tried "
            "through routing servers of the site. 0: never.",
        ),
    ] = 3
    # AckWaitTimeout, note 51
    ack_wait_ms: Annotated[
        int, within(1, DAY_MS, "Time that a peer has for a session acknowledgment.")
    ] = 20_000
    # 3.1.2.4, note 46
    ack_wait_direct_factor: Annotated[
        int, within(1, 100, "Multiplies `ack_wait_ms` for direct names.")
    ] = 2
    # 2.2.2.1
    ack_wait_min_ms: Annotated[
        int, within(1, DAY_MS, "Shortest acknowledgment time that a peer may request.")
    ] = 20_000
    ack_wait_max_ms: Annotated[
        int, within(1, DAY_MS, "Longest acknowledgment time that a peer may request.")
    ] = 120_000
    # RecoverableAckSendTimeout, 3.1.5.3.2
    recoverable_ack_min_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "Shortest delay before recoverable messages are acknowledged. The delay is eight "
            "round trips, within these limits.",
        ),
    ] = 500
    recoverable_ack_max_ms: Annotated[int, within(1, DAY_MS, "Longest such delay.")] = 120_000
    # ResendTimerTable, 3.1.3.1
    resend_short_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "Time that a transactional message waits for its order acknowledgment before it "
            "is sent again: the first three times.",
        ),
    ] = 30_000
    resend_medium_ms: Annotated[int, within(1, DAY_MS, "Wait of the next three times.")] = (
        5 * MINUTE_MS
    )
    resend_long_ms: Annotated[int, within(1, DAY_MS, "Wait of the three times after those.")] = (
        30 * MINUTE_MS
    )
    resend_final_ms: Annotated[int, within(1, 7 * DAY_MS, "Wait of every further time.")] = (
        360 * MINUTE_MS
    )
    # OrderAckTimeout, 3.1.3.2
    order_ack_ms: Annotated[
        int, within(1, DAY_MS, "Time that an order acknowledgment waits for more messages.")
    ] = 500
    # MaximumOrderAckDelay, note 52
    order_ack_max_ms: Annotated[
        int, within(1, DAY_MS, "Longest time that it waits, however many messages arrive.")
    ] = 10_000
    final_ack_look_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "Time between two sessions that are opened only to receive final acknowledgments.",
        ),
    ] = 5 * MINUTE_MS
    ack_quiet_ms: Annotated[
        int,
        within(
            0,
            DAY_MS,
            "Time without messages after which everything on disk is acknowledged, before the"
            " timers of the document are due. 0: only those timers.",
        ),
    ] = 10

    @property
    def initialization_timer_ms(self) -> int:
        """How long the Session Initialization Timer lasts (3.1.2.1, note 43)."""
        return self.initialization_ms + 2 * self.round_trip_ms

    @property
    def first_retry_ms(self) -> int:
        """How long the Session Retry Connect Timer lasts the first time (3.1.2.3, note 45)."""
        return self.retry_connect_ms + self.round_trip_ms

    @property
    def ack_wait_timeout_ms(self) -> int:
        """AckWaitTimeout as it is offered to the peer (3.1.3.2, note 51)."""
        return self.ack_wait_ms + self.round_trip_ms

    @property
    def resend_ms(self) -> tuple[int, ...]:
        """ResendTimerTable as Global Initialization fills it (3.1.3.1)."""
        first = self.resend_short_ms, self.resend_medium_ms, self.resend_long_ms
        return (*(ms for ms in first for _ in range(3)), self.resend_final_ms)

    def faults(self) -> Iterator[Fault]:
        """Limits that are the wrong way round, and addresses that are none."""
        yield from self.in_order(
            ("retry_connect_ms", "retry_connect_max_ms"),
            ("ack_wait_min_ms", "ack_wait_max_ms"),
            ("recoverable_ack_min_ms", "recoverable_ack_max_ms"),
            ("order_ack_ms", "order_ack_max_ms"),
        )
        for address in self.ack_from:
            if not is_address(address):
                yield "ack_from", f"{excerpt(address)} is not an address; allowed: IP addresses"


class PingSettings(Section, frozen=True):
    """Ping of the binary protocol, over UDP: the endpoint `ping`."""

    answer: Annotated[bool, meaning("Answers pings of computers that are about to connect.")] = True
    port: Annotated[
        Port | None, meaning("Port of the listener. Default: that of the port set, 3527.")
    ] = None
    # Decision 16
    first: Annotated[
        bool,
        meaning(
            "Sends a ping before it connects. A computer that does not answer is tried again later."
        ),
    ] = False
    target_port: Annotated[int, within(1, 65_535, "Port that pings are sent to.")] = 3527
    # 3.1.2.9
    response_ms: Annotated[int, within(1, DAY_MS, "Time allowed for the answer.")] = 1_000
