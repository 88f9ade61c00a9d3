"""The sections of `posthouse.toml` for messages over HTTP: `[http]`, `[https]` and `[srmp]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, field

from posthouse.engine.settings import EngineSettings, RedirectSettings
from posthouse.engine.transfer.srmp.redirects import host_of
from posthouse.model.settings_kinds import DAY_MS, SIZE, Names, Port, Section
from posthouse.model.text import excerpt
from posthouse.protocols.srmp.settings import SrmpSettings, resend_table
from posthouse.store.settings import GIB, KIB, MIB

_engine = EngineSettings("default")
_srmp = SrmpSettings()
FileName = Annotated[str, Meta(max_length=4096)]
UrlTable = dict[str, str]
PROXY_PORT = 8080


class HttpSection(Section, frozen=True):
    """Messages over HTTP, MSMQ's SRMP: the endpoint `http`."""

    enabled: Annotated[
        bool,
        Meta(
            description="Takes messages over HTTP. Without it and without a certificate of "
            "`[https]`, messages for HTTP names wait in their queues."
        ),
    ] = True
    port: Annotated[
        Port | None, Meta(description="Its port; left out: the one of the port set, 80.")
    ] = None


class HttpsSection(Section, frozen=True):
    """The same over TLS: the endpoint `https`, where a certificate is set."""

    certificate: Annotated[
        FileName, Meta(description="PEM file of its certificates, relative to the home.")
    ] = ""
    private_key: Annotated[
        FileName, Meta(description="PEM file of the key, relative to the home.")
    ] = ""
    port: Annotated[
        Port | None, Meta(description="Its port; left out: the one of the port set, 443.")
    ] = None
    client_verification: Annotated[
        Literal["none", "optional", "required"],
        Meta(description="Whether senders have to show a certificate of `client_authorities`."),
    ] = "none"
    client_authorities: Annotated[
        FileName,
        Meta(
            description="PEM file of the certificates that those of senders are checked against, "
            "relative to the home."
        ),
    ] = ""


class SrmpRedirectSection(Section, frozen=True):
    """Where messages over HTTP go instead. A `*` at the end of a URL stands for anything."""

    outbound: Annotated[
        UrlTable,
        Meta(
            description="Messages to these URLs are handed to the hosts of those; they keep their "
            "own URLs."
        ),
    ] = field(default_factory=dict)
    outbound_exceptions: Annotated[Names, Meta(description="URLs that are never redirected.")] = ()
    inbound: Annotated[
        UrlTable, Meta(description="Messages that arrive for these URLs go to those queues.")
    ] = field(default_factory=dict)
    receipt_urls: Annotated[
        UrlTable,
        Meta(
            description="Receivers of streams to these URLs send their receipts to those, instead "
            "of the address of this queue manager."
        ),
    ] = field(default_factory=dict)
    default_receipt_url: Annotated[
        str,
        Meta(max_length=2048, description="The same for all other streams; empty: our address."),
    ] = ""


class SrmpSection(Section, frozen=True):
    """How messages travel over HTTP and HTTPS, in both directions."""

    forwarding: Annotated[
        bool,
        Meta(
            description="Passes on messages over HTTP that are meant for other computers; needs "
            "`[queue_manager] routing_server`."
        ),
    ] = _engine.srmp_forwarding
    head_size_max: Annotated[
        int,
        Meta(
            ge=KIB,
            le=MIB,
            extra={"unit": SIZE},
            description="First line and header fields of a request or response.",
        ),
    ] = _srmp.head_size_max
    fields_max: Annotated[int, Meta(ge=8, le=1000, description="So many header fields.")] = (
        _srmp.fields_max
    )
    body_size_max: Annotated[
        int, Meta(ge=64 * KIB, le=GIB, extra={"unit": SIZE}, description="Body of a request.")
    ] = _srmp.body_size_max
    answer_size_max: Annotated[
        int,
        Meta(
            ge=0,
            le=GIB,
            extra={"unit": SIZE},
            description="A response with a longer body costs its connection.",
        ),
    ] = _srmp.answer_size_max
    idle_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="A connection without requests is closed after it.")
    ] = _srmp.idle_ms
    request_ms: Annotated[int, Meta(ge=1, le=DAY_MS, description="Time for a whole request.")] = (
        _srmp.request_ms
    )
    pending_max: Annotated[
        int,
        Meta(ge=1, le=10_000, description="Requests of one connection that are not answered yet."),
    ] = _srmp.pending_max
    receive_ahead: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What one connection may bring before it is on disk.",
        ),
    ] = _srmp.receive_ahead_bytes
    reverse_proxies: Annotated[
        Names,
        Meta(
            description="Addresses of proxies in front of this queue manager: the sender is who "
            "their `X-Forwarded-For` says."
        ),
    ] = ()
    receipt_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="A stream receipt waits so long for further messages."),
    ] = _engine.srmp_receipt_ms
    receipt_max_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The longest it waits, however many come.")
    ] = _engine.srmp_receipt_max_ms
    receipt_host: Annotated[
        str,
        Meta(
            max_length=255,
            description="The host in addresses that receipts are to be sent to; empty: the "
            "address of the listener or of the connection, over TLS the computer name.",
        ),
    ] = ""
    receipts_from: Annotated[
        Names,
        Meta(
            description="Addresses whose stream receipts count for any queue, beside those that "
            "its name leads to."
        ),
    ] = ()
    receipts_elsewhere: Annotated[
        UrlTable,
        Meta(
            description="Senders whose stream receipts go to another host than they post from: "
            "the address that they post from, and `host` or `host:port` of their receipt URL. "
            "Others get them where they post from, whatever host they name."
        ),
    ] = field(default_factory=dict)
    retransmission_ms: Annotated[
        int,
        Meta(
            ge=1, le=DAY_MS, description="First pause before what failed is sent again; it doubles."
        ),
    ] = _srmp.retransmission_ms
    round_trip_ms: Annotated[
        int, Meta(ge=0, le=DAY_MS, description="Added to it, for networks that are far away.")
    ] = _srmp.round_trip_ms
    retransmission_max_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The longest such pause.")
    ] = _srmp.retransmission_max_ms
    resend_short_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="Time that a message of a stream waits for its receipt before it is sent "
            "again: the first three times.",
        ),
    ] = _srmp.resend_ms[0]
    resend_medium_ms: Annotated[int, Meta(ge=1, le=DAY_MS, description="The next three times.")] = (
        _srmp.resend_ms[3]
    )
    resend_long_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The three times behind those.")
    ] = _srmp.resend_ms[6]
    resend_final_ms: Annotated[
        int, Meta(ge=1, le=7 * DAY_MS, description="Every time from then on.")
    ] = _srmp.resend_ms[9]
    cleanup_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="A connection of ours without messages is closed."),
    ] = _srmp.cleanup_ms
    connect_timeout_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time for a connection to be answered.")
    ] = _srmp.connect_timeout_ms
    response_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time for the response to a request.")
    ] = _srmp.response_ms
    pipeline: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Requests of one connection that may wait for their responses, once the "
            "first is answered. Proxies, and peers that do not take several, get one at a time.",
        ),
    ] = _srmp.pipeline
    send_batch: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What is read from the store for one connection at once.",
        ),
    ] = _srmp.send_batch_bytes
    proxy: Annotated[
        str,
        Meta(
            max_length=512,
            description="`http://host:port` of a proxy for all connections of ours; empty: none.",
        ),
    ] = ""
    proxy_bypass: Annotated[
        Names,
        Meta(description="Hosts that are reached without it; domains with a dot in front."),
    ] = ()
    authorities: Annotated[
        FileName,
        Meta(
            description="PEM file of certificates that those of HTTPS peers are checked against, "
            "beside the system's; relative to the home."
        ),
    ] = ""
    client_certificate: Annotated[
        FileName,
        Meta(description="PEM file of the certificate that HTTPS peers are shown if they ask."),
    ] = ""
    client_key: Annotated[FileName, Meta(description="PEM file of its key.")] = ""
    verify: Annotated[
        bool, Meta(description="Checks the certificates of HTTPS peers; false: for tests only.")
    ] = True
    redirect: SrmpRedirectSection = SrmpRedirectSection()

    def protocol(self) -> SrmpSettings:
        """What the protocol gets of it."""
        found = host_of(self.proxy) if self.proxy else None
        return SrmpSettings(
            head_size_max=self.head_size_max,
            fields_max=self.fields_max,
            body_size_max=self.body_size_max,
            idle_ms=self.idle_ms,
            request_ms=self.request_ms,
            pending_max=self.pending_max,
            receive_ahead_bytes=self.receive_ahead,
            reverse_proxies=tuple(self.reverse_proxies),
            retransmission_ms=self.retransmission_ms,
            round_trip_ms=self.round_trip_ms,
            retransmission_max_ms=self.retransmission_max_ms,
            resend_ms=resend_table(
                self.resend_short_ms,
                self.resend_medium_ms,
                self.resend_long_ms,
                self.resend_final_ms,
            ),
            cleanup_ms=self.cleanup_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            response_ms=self.response_ms,
            answer_size_max=self.answer_size_max,
            pipeline=self.pipeline,
            send_batch_bytes=self.send_batch,
            receipts_from=tuple(self.receipts_from),
            receipt_host=self.receipt_host,
            proxy=None if found is None else (found[0], found[1] or PROXY_PORT),
            proxy_bypass=tuple(host.casefold() for host in self.proxy_bypass),
        )

    def redirections(self) -> RedirectSettings:
        """What the engine gets of `[srmp.redirect]`."""
        section = self.redirect
        return RedirectSettings(
            outbound=tuple(section.outbound.items()),
            outbound_exceptions=tuple(section.outbound_exceptions),
            inbound=tuple(section.inbound.items()),
            receipt_urls=tuple(section.receipt_urls.items()),
            default_receipt_url=section.default_receipt_url,
        )


def srmp_faults(https: HttpsSection, srmp: SrmpSection) -> Iterator[str]:
    """What contradicts itself in these sections."""
    if bool(https.certificate) != bool(https.private_key):
        yield "[https] certificate: certificate and private_key go together"
    if https.client_verification != "none" and not https.client_authorities:
        yield "[https] client_verification: this needs client_authorities"
    if bool(srmp.client_certificate) != bool(srmp.client_key):
        yield "[srmp] client_certificate: client_certificate and client_key go together"
    if srmp.retransmission_ms > srmp.retransmission_max_ms:
        yield "[srmp] retransmission_ms: this is more than retransmission_max_ms"
    if srmp.receipt_ms > srmp.receipt_max_ms:
        yield "[srmp] receipt_ms: this is more than receipt_max_ms"
    if srmp.proxy and (host_of(srmp.proxy) is None or not srmp.proxy.startswith("http://")):
        yield f"[srmp] proxy: {excerpt(srmp.proxy)} is no URL; allowed: http://host:port"
    yield from _redirect_faults(srmp.redirect)


def _redirect_faults(section: SrmpRedirectSection) -> Iterator[str]:
    tables = ("outbound", section.outbound), ("inbound", section.inbound)
    for key, table in (*tables, ("receipt_urls", section.receipt_urls)):
        for url in [*table, *table.values()]:
            if host_of(url) is None:
                yield f"[srmp.redirect] {key}: {excerpt(url)} is no URL"
    if section.default_receipt_url and host_of(section.default_receipt_url) is None:
        shown = excerpt(section.default_receipt_url)
        yield f"[srmp.redirect] default_receipt_url: {shown} is no URL"
