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
            "Accepts messages over HTTP. Without it and without a certificate in `[https]`, "
            "messages for HTTP names wait in their queues."
        ),
    ] = True
    port: Annotated[
        Port | None, meaning("Port of the listener. Default: that of the port set, 80.")
    ] = None


class HttpsSettings(Section, frozen=True):
    """Messages over HTTPS: the endpoint `https`, opened if a certificate is set."""

    certificate: Annotated[
        FileName, meaning("PEM file of the server's certificates, relative to the home.")
    ] = ""
    private_key: Annotated[
        FileName, meaning("PEM file of its private key, relative to the home.")
    ] = ""
    port: Annotated[
        Port | None, meaning("Port of the listener. Default: that of the port set, 443.")
    ] = None
    client_verification: Annotated[
        Literal["none", "optional", "required"],
        meaning("Whether senders must present a certificate of `client_authorities`."),
    ] = "none"
    client_authorities: Annotated[
        FileName,
        meaning(
            "PEM file of authorities that certificates of senders are checked against, "
            "relative to the home."
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
        int,
        size(
            KIB,
            MIB,
            "Largest size of the first line and the header fields of a request or response.",
        ),
    ] = 16 * KIB
    fields_max: Annotated[int, within(8, 1000, "Largest number of header fields.")] = 64
    # A message of 4 MiB, its envelope and frame.
    body_size_max: Annotated[int, size(64 * KIB, GIB, "Largest body of a request.")] = 5 * MIB
    answer_size_max: Annotated[
        int, size(0, GIB, "Largest body of a response. A longer one ends the connection.")
    ] = 64 * KIB
    idle_ms: Annotated[
        int, within(1, DAY_MS, "Time after which a connection without requests is closed.")
    ] = 2 * MINUTE_MS
    request_ms: Annotated[
        int, within(1, DAY_MS, "Time allowed for a request to arrive completely.")
    ] = 2 * MINUTE_MS
    pending_max: Annotated[
        int, within(1, 10_000, "Largest number of unanswered requests of one connection.")
    ] = 64
    receive_ahead: Annotated[
        int,
        size(
            4 * KIB,
            GIB,
            "Size of the messages that one connection may send before they are on disk.",
        ),
    ] = 8 * MIB
    reverse_proxies: Annotated[
        Names,
        meaning(
            "Addresses of reverse proxies in front of this queue manager. The sender of their"
            " requests is the one in `X-Forwarded-For`."
        ),
    ] = ()
    # Decision 60
    receipt_host: Annotated[
        str,
        text(
            255,
            "Host in the URL that receipts are sent to. Empty: the address of the listener or"
            " of the connection; over TLS, the computer name.",
        ),
    ] = ""
    # Decision 24
    receipts_from: Annotated[
        Names,
        meaning(
            "Addresses from which stream receipts count for any queue, in addition to those "
            "that the queue's name leads to."
        ),
    ] = ()
    # RetransmissionTimeout, note 25
    retransmission_ms: Annotated[
        int,
        within(
            1, DAY_MS, "First pause before a failed request is sent again. It doubles each time."
        ),
    ] = 20_000
    # RoundTripDelay
    round_trip_ms: Annotated[
        int,
        within(
            0, DAY_MS, "Round-trip time of a slow network, which is added to `retransmission_ms`."
        ),
    ] = 0
    retransmission_max_ms: Annotated[int, within(1, DAY_MS, "Longest such pause.")] = 5 * MINUTE_MS
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
    resend_medium_ms: Annotated[int, within(1, DAY_MS, "Wait of the next three times.")] = (
        5 * MINUTE_MS
    )
    resend_long_ms: Annotated[int, within(1, DAY_MS, "Wait of the three times after those.")] = (
        30 * MINUTE_MS
    )
    resend_final_ms: Annotated[int, within(1, 7 * DAY_MS, "Wait of every further time.")] = (
        360 * MINUTE_MS
    )
    # Session Cleanup Timer, note 19
    cleanup_ms: Annotated[
        int,
        within(1, DAY_MS, "Time after which an outgoing connection without messages is closed."),
    ] = 5 * MINUTE_MS
    connect_timeout_ms: Annotated[int, within(1, DAY_MS, "Time allowed to connect.")] = 20_000
    response_ms: Annotated[
        int, within(1, DAY_MS, "Time allowed for the response to a request.")
    ] = MINUTE_MS
    pipeline: Annotated[
        int,
        within(
            1,
            1000,
            "Largest number of requests without a response on one outgoing connection, after "
            "the first response. Proxies, and peers that do not support it, get one request "
            "at a time.",
        ),
    ] = 16
    send_batch: Annotated[
        int,
        size(4 * KIB, GIB, "Size of the messages read from the store at once for one connection."),
    ] = 256 * KIB
    # Not in the file: messages read for one connection at once.
    send_batch_messages: int = 32
    proxy: Annotated[
        str, text(512, "Proxy for all outgoing connections, `http://host:port`. Empty: none.")
    ] = ""
    proxy_bypass: Annotated[
        Names, meaning("Hosts that are reached without the proxy. Domains begin with a dot.")
    ] = ()
    authorities: Annotated[
        FileName,
        meaning(
            "PEM file of authorities that certificates of HTTPS peers are checked against, in"
            " addition to those of the system. Relative to the home."
        ),
    ] = ""
    client_certificate: Annotated[
        FileName,
        meaning("PEM file of the certificate that is presented to HTTPS peers that request one."),
    ] = ""
    client_key: Annotated[FileName, meaning("PEM file of its private key.")] = ""
    verify: Annotated[
        bool, meaning("Checks the certificates of HTTPS peers. `false` is for tests only.")
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
        """Limits that contradict each other, files that need each other, and wrong URLs."""
        if bool(self.client_certificate) != bool(self.client_key):
            yield "client_certificate", "client_certificate and client_key go together"
        yield from self.in_order(("retransmission_ms", "retransmission_max_ms"))
        yield from super().faults()
        if self.proxy and (host_of(self.proxy) is None or not self.proxy.startswith("http://")):
            yield "proxy", f"{excerpt(self.proxy)} is not a URL; allowed: http://host:port"
