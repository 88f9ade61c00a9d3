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
        bool, meaning("Without it messages for other computers wait in their queues.")
    ] = True
    port: Annotated[Port | None, meaning("Its port; left out: the one of the port set, 1801.")] = (
        None
    )
    sessions_max: Annotated[
        int, within(1, 1_000_000, "Sessions that others have opened; more are refused.")
    ] = 10_000
    links_per_caller: Annotated[
        int,
        within(
            1,
            10_000,
            "Connections at a time that answers to one address may cause, for machines "
            "outside the directory that have called from there and gone. Answers beyond them "
            "wait until their machine calls again.",
        ),
    ] = 16
    # WindowSize, note 36
    window: Annotated[int, within(1, 65_535, "Messages that a peer may send unacknowledged.")] = 64
    send_batch: Annotated[
        int, size(4 * KIB, GIB, "What is read from the store for one session at once.")
    ] = 4 * MIB
    receive_ahead: Annotated[
        int, size(4 * KIB, GIB, "What one session may bring before it is on disk.")
    ] = 8 * MIB
    # Decision 24
    ack_from: Annotated[
        Names,
        meaning(
            "Addresses whose order and final acknowledgments count for any queue, beside the "
            "address that its name leads to."
        ),
    ] = ()
    # RoundTripDelay
    round_trip_ms: Annotated[
        int,
        within(
            0,
            DAY_MS,
            "For networks that are far away: added to `retry_connect_ms` and `ack_wait_ms`, "
            "and twice to `initialization_ms`.",
        ),
    ] = 0
    # 3.1.2.1, note 43
    initialization_ms: Annotated[int, within(1, DAY_MS, "Time a session has to open.")] = MINUTE_MS
    refusal_linger_ms: Annotated[
        int, within(0, DAY_MS, "Time that a refused peer has to read the answer.")
    ] = 1_000
    # 3.1.2.2, note 44
    cleanup_ms: Annotated[
        int, within(1, DAY_MS, "A session without messages is closed after it.")
    ] = 5 * MINUTE_MS
    cleanup_routing_ms: Annotated[int, within(1, DAY_MS, "The same on a routing server.")] = (
        2 * MINUTE_MS
    )
    connect_timeout_ms: Annotated[
        int, within(1, DAY_MS, "Time for a connection to be answered.")
    ] = 20_000
    # 3.1.2.3, note 45
    retry_connect_ms: Annotated[
        int, within(1, DAY_MS, "First pause before a computer is tried again; it doubles.")
    ] = 5_000
    retry_connect_max_ms: Annotated[int, within(1, DAY_MS, "The longest such pause.")] = (
        5 * MINUTE_MS
    )
    # The timer of retries, while the list of next hops is not at its end (3.1.6.1).
    next_hop_ms: Annotated[
        int, within(0, DAY_MS, "Pause before the next address of the same computer is tried.")
    ] = 100
    direct_attempts: Annotated[
        int,
        within(
            0,
            1_000_000,
            "A machine of the own site that did not answer so many times in a row is tried "
            "through routing servers of the site too; 0: never.",
        ),
    ] = 3
    # AckWaitTimeout, note 51
    ack_wait_ms: Annotated[
        int, within(1, DAY_MS, "Time that a peer has for a session acknowledgment.")
    ] = 20_000
    # 3.1.2.4, note 46
    ack_wait_direct_factor: Annotated[
        int, within(1, 100, "So many times that for direct names.")
    ] = 2
    # 2.2.2.1
    ack_wait_min_ms: Annotated[
        int, within(1, DAY_MS, "The shortest such time that a peer may ask us for.")
    ] = 20_000
    ack_wait_max_ms: Annotated[int, within(1, DAY_MS, "The longest.")] = 120_000
    # RecoverableAckSendTimeout, 3.1.5.3.2
    recoverable_ack_min_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "Shortest delay of acknowledgments of recoverable messages; eight round trips "
            "within these limits.",
        ),
    ] = 500
    recoverable_ack_max_ms: Annotated[int, within(1, DAY_MS, "The longest such delay.")] = 120_000
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
    resend_medium_ms: Annotated[int, within(1, DAY_MS, "The next three times.")] = 5 * MINUTE_MS
    resend_long_ms: Annotated[int, within(1, DAY_MS, "The three times behind those.")] = (
        30 * MINUTE_MS
    )
    resend_final_ms: Annotated[int, within(1, 7 * DAY_MS, "Every time from then on.")] = (
        360 * MINUTE_MS
    )
    # OrderAckTimeout, 3.1.3.2
    order_ack_ms: Annotated[
        int, within(1, DAY_MS, "An order acknowledgment waits so long for further messages.")
    ] = 500
    # MaximumOrderAckDelay, note 52
    order_ack_max_ms: Annotated[
        int, within(1, DAY_MS, "The longest it waits, however many come.")
    ] = 10_000
    final_ack_look_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "How often a session is opened for messages that only wait to hear what became of"
            " them.",
        ),
    ] = 5 * MINUTE_MS
    ack_quiet_ms: Annotated[
        int,
        within(
            0,
            DAY_MS,
            "When all that came is safe and nothing more has come for so long, the peer is "
            "told, before the document's timers say so; 0: only they do.",
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
                yield "ack_from", f"{excerpt(address)} is no address; allowed: IP addresses"


class PingSettings(Section, frozen=True):
    """Ping of the binary protocol, over UDP: the endpoint `ping`."""

    answer: Annotated[bool, meaning("Answers those who ask before they connect.")] = True
    port: Annotated[Port | None, meaning("Its port; left out: the one of the port set, 3527.")] = (
        None
    )
    # Decision 16
    first: Annotated[
        bool, meaning("Asks before it connects; a computer that is silent is tried again.")
    ] = False
    target_port: Annotated[int, within(1, 65_535, "The port that others are asked on.")] = 3527
    # 3.1.2.9
    response_ms: Annotated[int, within(1, DAY_MS, "Time for the answer.")] = 1_000
