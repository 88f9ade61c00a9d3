"""Settings that the engine shares with protocols: parts of `[binary]` and `[srmp]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import field

from posthouse.model.settings_kinds import (
    DAY_MS,
    DAY_S,
    Fault,
    Names,
    Section,
    meaning,
    text,
    within,
)
from posthouse.model.text import excerpt
from posthouse.model.urls import host_of

UrlTable = dict[str, str]


class ArrivalSettings(Section, frozen=True):
    """What the engine reads of `[binary]`."""

    # [MS-MQQB] 3.1.1.3
    message_history_max: Annotated[
        int,
        within(
            1,
            1_000_000,
            "Number of identifiers of received messages that are kept to detect duplicates.",
        ),
    ] = 10_000
    # [MS-MQQB] 3.1.2.8, note 47
    message_history_s: Annotated[int, within(1, DAY_S, "Time for which they are kept.")] = 30 * 60
    sequence_ahead_s: Annotated[
        int,
        within(
            0,
            366 * DAY_S,
            "Seconds that the clock of a sender may be ahead. A sequence of transactional "
            "messages that begins later than this is refused, also over HTTP.",
        ),
    ] = 24 * 3600
    absent_senders_max: Annotated[
        int,
        within(
            1,
            100_000,
            "Number of machines outside the directory for which final acknowledgments are "
            "kept while they are not connected, about 6 KB of memory each. Above it, the "
            "address with the most such machines loses acknowledgments (`answers_given_up` in"
            " the log).",
        ),
    ] = 5_000


class RedirectSettings(Section, frozen=True):
    """Where messages over HTTP go instead. A `*` at the end of a URL stands for anything."""

    # The collections of [MC-MQSRM] 3.1.1.1.8-10, empty until an administrator fills them.
    # OutboundRedirectionCollection
    outbound: Annotated[
        UrlTable,
        meaning(
            "Messages to the URLs on the left are sent to the hosts on the right. The "
            "messages keep their own URLs."
        ),
    ] = field(default_factory=dict)
    # OutboundRedirectionExceptionCollection
    outbound_exceptions: Annotated[Names, meaning("URLs that are never redirected.")] = ()
    # InboundRedirectionCollection
    inbound: Annotated[
        UrlTable,
        meaning("Messages that arrive for the URLs on the left go to the queues on the right."),
    ] = field(default_factory=dict)
    # StreamReceiptURLReplacementCollection
    receipt_urls: Annotated[
        UrlTable,
        meaning(
            "Receivers of streams to the URLs on the left send their receipts to the URLs on "
            "the right, instead of the address of this queue manager."
        ),
    ] = field(default_factory=dict)
    # DefaultStreamReceiptURLReplacement
    default_receipt_url: Annotated[
        str,
        text(2048, "Receipt URL for all other streams. Empty: the address of this queue manager."),
    ] = ""

    def faults(self) -> Iterator[Fault]:
        """What is not a URL."""
        tables = ("outbound", self.outbound), ("inbound", self.inbound)
        for key, table in (*tables, ("receipt_urls", self.receipt_urls)):
            for url in [*table, *table.values()]:
                if host_of(url) is None:
                    yield key, f"{excerpt(url)} is not a URL"
        if self.default_receipt_url and host_of(self.default_receipt_url) is None:
            yield "default_receipt_url", f"{excerpt(self.default_receipt_url)} is not a URL"


class StreamSettings(Section, frozen=True):
    """What the engine reads of `[srmp]`."""

    # TransparentStoreAndForward; needs routing_server (decision 15).
    forwarding: Annotated[
        bool,
        meaning(
            "Forwards messages over HTTP that are addressed to other computers. Needs "
            "`[queue_manager] routing_server`."
        ),
    ] = False
    # [MC-MQSRM] 3.1.2.3, 3.1.1.3.2
    receipt_ms: Annotated[
        int, within(1, DAY_MS, "Time that a stream receipt waits for more messages.")
    ] = 500
    receipt_max_ms: Annotated[
        int, within(1, DAY_MS, "Longest time that it waits, however many messages arrive.")
    ] = 10_000
    receipts_elsewhere: Annotated[
        UrlTable,
        meaning(
            "Senders whose stream receipts go to another host than the one they post from: "
            "the address that they post from, and `host` or `host:port` of their receipt URL."
            " For all others, receipts go to the address that they post from, whatever host "
            "they name."
        ),
    ] = field(default_factory=dict)
    redirect: RedirectSettings = RedirectSettings()

    def faults(self) -> Iterator[Fault]:
        """Limits that are the wrong way round."""
        yield from self.in_order(("receipt_ms", "receipt_max_ms"))
