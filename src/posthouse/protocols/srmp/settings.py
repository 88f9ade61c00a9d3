"""`[http]`, `[https]` and `[srmp]`: timers and limits, with the document's values.

Those are in [MC-MQSRM] 3.1.2-3, notes in its section 6. What has no section is ours (decision 68).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from posthouse.engine.transfer.settings import StreamSettings
from posthouse.model.settings_kinds import (
    DAY_MS,
    GIB,
    KIB,
    MIB,
    MINUTE_MS,
    Fault,
    FileName,
    Names,
    Port,
    Section,
    meaning,
    size,
    text,
    within,
)
from posthouse.model.text import excerpt
from posthouse.model.urls import host_of

PROXY_PORT = 8080


class HttpSettings(Section, frozen=True):
    """Messages over HTTP, MSMQ's SRMP: the endpoint `http`."""

    enabled: Annotated[
        bool,
        meaning(
            "Takes messages over HTTP. Without it and without a certificate of `[https]`, "
            "messages for HTTP names wait in their queues."
        ),
    ] = True
    port: Annotated[Port | None, meaning("Its port; left out: the one of the port set, 80.")] = None


class HttpsSettings(Section, frozen=True):
    """The same over TLS: the endpoint `https`, where a certificate is set."""

    certificate: Annotated[
        FileName, meaning("PEM file of its certificates, relative to the home.")
    ] = ""
    private_key: Annotated[FileName, meaning("PEM file of the key, relative to the home.")] = ""
    port: Annotated[Port | None, meaning("Its port; left out: the one of the port set, 443.")] = (
        None
    )
    client_verification: Annotated[
        Literal["none", "optional", "required"],
        meaning("Whether senders have to show a certificate of `client_authorities`."),
    ] = "none"
    client_authorities: Annotated[
        FileName,
        meaning(
            "PEM file of the certificates that those of senders are checked against, relative"
            " to the home."
        ),
    ] = ""

    def faults(self) -> Iterator[Fault]:
        """Files that need each other."""
        if bool(self.certificate) != bool(self.private_key):
            yield "certificate", "certificate and private_key go together"
        if self.client_verification != "none" and not self.client_authorities:
            yield "client_verification", "this needs client_authorities"


class SrmpSettings(StreamSettings, frozen=True):
    """How messages travel over HTTP and HTTPS, in both directions."""

    head_size_max: Annotated[
        int, size(KIB, MIB, "First line and header fields of a request or response.")
    ] = 16 * KIB
    fields_max: Annotated[int, within(8, 1000, "So many header fields.")] = 64
    # A message of 4 MiB, its envelope and frame.
    body_size_max: Annotated[int, size(64 * KIB, GIB, "Body of a request.")] = 5 * MIB
    answer_size_max: Annotated[
        int, size(0, GIB, "A response with a longer body costs its connection.")
    ] = 64 * KIB
    idle_ms: Annotated[
        int, within(1, DAY_MS, "A connection without requests is closed after it.")
    ] = 2 * MINUTE_MS
    request_ms: Annotated[int, within(1, DAY_MS, "Time for a whole request.")] = 2 * MINUTE_MS
    pending_max: Annotated[
        int, within(1, 10_000, "Requests of one connection that are not answered yet.")
    ] = 64
    receive_ahead: Annotated[
        int, size(4 * KIB, GIB, "What one connection may bring before it is on disk.")
    ] = 8 * MIB
    reverse_proxies: Annotated[
        Names,
        meaning(
            "Addresses of proxies in front of this queue manager: the sender is who their "
            "`X-Forwarded-For` says."
        ),
    ] = ()
    # Decision 60
    receipt_host: Annotated[
        str,
        text(
            255,
            "The host in addresses that receipts are to be sent to; empty: the address of the"
            " listener or of the connection, over TLS the computer name.",
        ),
    ] = ""
    # Decision 24
    receipts_from: Annotated[
        Names,
        meaning(
            "Addresses whose stream receipts count for any queue, beside those that its name "
            "leads to."
        ),
    ] = ()
    # RetransmissionTimeout, note 25
    retransmission_ms: Annotated[
        int, within(1, DAY_MS, "First pause before what failed is sent again; it doubles.")
    ] = 20_000
    # RoundTripDelay
    round_trip_ms: Annotated[
        int, within(0, DAY_MS, "Added to it, for networks that are far away.")
    ] = 0
    retransmission_max_ms: Annotated[int, within(1, DAY_MS, "The longest such pause.")] = (
        5 * MINUTE_MS
    )
    # ResendTimerTable, 3.1.3.1
    resend_short_ms: Annotated[
        int,
        within(
            1,
            DAY_MS,
            "Time that a message of a stream waits for its receipt before it is sent again: "
            "the first three times.",
        ),
    ] = 30_000
    resend_medium_ms: Annotated[int, within(1, DAY_MS, "The next three times.")] = 5 * MINUTE_MS
    resend_long_ms: Annotated[int, within(1, DAY_MS, "The three times behind those.")] = (
        30 * MINUTE_MS
    )
    resend_final_ms: Annotated[int, within(1, 7 * DAY_MS, "Every time from then on.")] = (
        360 * MINUTE_MS
    )
    # Session Cleanup Timer, note 19
    cleanup_ms: Annotated[
        int, within(1, DAY_MS, "A connection of ours without messages is closed.")
    ] = 5 * MINUTE_MS
    connect_timeout_ms: Annotated[
        int, within(1, DAY_MS, "Time for a connection to be answered.")
    ] = 20_000
    response_ms: Annotated[int, within(1, DAY_MS, "Time for the response to a request.")] = (
        MINUTE_MS
    )
    pipeline: Annotated[
        int,
        within(
            1,
            1000,
            "Requests of one connection that may wait for their responses, once the first is "
            "answered. Proxies, and peers that do not take several, get one at a time.",
        ),
    ] = 16
    send_batch: Annotated[
        int, size(4 * KIB, GIB, "What is read from the store for one connection at once.")
    ] = 256 * KIB
    # Not in the file: messages read for one connection at once.
    send_batch_messages: int = 32
    proxy: Annotated[
        str, text(512, "`http://host:port` of a proxy for all connections of ours; empty: none.")
    ] = ""
    proxy_bypass: Annotated[
        Names, meaning("Hosts that are reached without it; domains with a dot in front.")
    ] = ()
    authorities: Annotated[
        FileName,
        meaning(
            "PEM file of certificates that those of HTTPS peers are checked against, beside "
            "the system's; relative to the home."
        ),
    ] = ""
    client_certificate: Annotated[
        FileName, meaning("PEM file of the certificate that HTTPS peers are shown if they ask.")
    ] = ""
    client_key: Annotated[FileName, meaning("PEM file of its key.")] = ""
    verify: Annotated[
        bool, meaning("Checks the certificates of HTTPS peers; false: for tests only.")
    ] = True

    @property
    def resend_ms(self) -> tuple[int, ...]:
        """ResendTimerTable as Global Initialization fills it (3.1.3.1)."""
        first = self.resend_short_ms, self.resend_medium_ms, self.resend_long_ms
        return (*(ms for ms in first for _ in range(3)), self.resend_final_ms)

    @property
    def proxy_address(self) -> tuple[str, int] | None:
        """Host and port of the proxy."""
        found = host_of(self.proxy)
        return found and (found[0], found[1] or PROXY_PORT)

    def faults(self) -> Iterator[Fault]:
        """Limits that are the wrong way round, files that need each other, and what is no URL."""
        if bool(self.client_certificate) != bool(self.client_key):
            yield "client_certificate", "client_certificate and client_key go together"
        yield from self.in_order(("retransmission_ms", "retransmission_max_ms"))
        yield from super().faults()
        if self.proxy and (host_of(self.proxy) is None or not self.proxy.startswith("http://")):
            yield "proxy", f"{excerpt(self.proxy)} is no URL; allowed: http://host:port"
