"""Thousands of messages in a row: what one says is never found in the packet of another.

Read in a row, with all that is remembered of messages before, and read alone, the long way and with
nothing remembered: the packets that are stored are the same, byte for byte.
"""

from __future__ import annotations

from random import Random

from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.srmp import fast_reader as srmp_plain
from posthouse.wire.srmp import mapping as srmp_mapping
from posthouse.wire.srmp import mime_parts as srmp_parts
from posthouse.wire.srmp import values as srmp_values
from posthouse.wire.srmp.envelope import read_envelope, read_tree
from posthouse.wire.srmp.fast_reader import read_plain
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.mime_parts import XML, read_parts, write_parts
from tests.conftest import Dose
from tests.wire.srmp import (
    ADMIN,
    GUID,
    GUID_TEXT,
    LATER,
    MARK,
    NOW_S,
    RP,
    SE,
    SECOND_TEXT,
    SENT,
    SRMP,
    URL,
)

HEAD = b"POST /msmq/q HTTP/1.1\r\nHost: beta\r\n\r\n"
FOREVER = "20380119T031407"
# Of each element what is usual, and what else may stand there.
TEXTS: dict[str, tuple[list[str], list[str]]] = {
    "action": (
        ["MSMQ:", "MSMQ:a", "MSMQ:b c"],
        ["", "other", " MSMQ:x", "MSMQ:&amp;", "MSMQ:é", "MSMQ:<![CDATA[q]]>", "MSMQ:<!-- -->z"],
    ),
    "to": (
        [URL, f"{URL}2"],
        [f" {URL} ", "MSMQ:MULTICAST=224.0.0.1:80", "q", f"{URL}%20", f"{URL}%ff", "HTTPS://b/q"],
    ),
    "via": ([ADMIN, f"MSMQ:PUBLIC={GUID_TEXT}"], ["", " x ", f"{ADMIN};journal"]),
    "date": (
        [LATER, SENT, FOREVER],
        ["20261301T000000", "19691231T235959", "2026", " " + LATER],
    ),
    "number": (["0", "1", "2"], ["007", "4294967295", "4294967296", "9999999999", "", "-1", " 3 "]),
    "class": (["0"], ["2", "255", "65536"]),
    "priority": (["3", "0", "7"], ["8", "", "03"]),
    "guid": ([GUID_TEXT, SECOND_TEXT], [GUID_TEXT.upper(), f" {GUID_TEXT} ", "x", "0" * 36]),
    "correlation": (
        ["AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AQIDBAUGBwgJCgsMDQ4PEBESExQ="],
        [" AQIDBAUGBwgJCgsMDQ4PEBESExQ= ", "AAAA", "", "!"],
    ),
    "receipts": ([ADMIN], ["alpha", f" {ADMIN} "]),
}
STRANGE = (
    "<!-- x -->",
    " ",
    "\n",
    "<?pi x?>",
    "<![CDATA[y]]>",
    "&#65;",
    "<unknown/>",
    '<u xmlns="urn:u">t</u>',
    '<u xmlns="urn:u" se:mustUnderstand="1"/>',
    '<y:durable xmlns:y="http://schemas.xmlsoap.org/srmp/"/>',
    '<z:Journal xmlns:z="msmq.namespace.xml"/>',
    "<Journal/>",
    "<durable/>",
)


class Sender:
    """Writes messages that are mostly as usual, with elements now there and now not."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._odd = self._chance.choice([0.0, 0.004, 0.03])  # how much is not as usual

    def _is_odd(self) -> bool:
        return self._chance.random() < self._odd

    def _element(self, name: str, kind: str) -> str:
        return f"<{name}>{self._text(kind)}</{name}>"

    def _text(self, kind: str) -> str:
        return self._chance.choice(TEXTS[kind][self._is_odd()])

    def _maybe(self, *texts: str) -> list[str]:
        return list(texts) if self._chance.random() < 0.4 else []

    def _joined(self, elements: list[str]) -> str:
        """As they are, or with one twice, missing, elsewhere or a strange one among them."""
        chance, at = self._chance, self._chance.randrange(len(elements))
        if self._is_odd():
            elements.insert(chance.randrange(len(elements)), elements[at])
        if self._is_odd():
            elements.append(elements.pop(at))
        if self._is_odd():
            del elements[chance.randrange(len(elements))]
        if self._is_odd():
            elements.insert(at, chance.choice(STRANGE))
        return "".join(elements)

    def _marked(self, name: str, inside: str, space: str = "") -> str:
        mark = self._chance.choice(("", MARK.replace("1", "0"))) if self._is_odd() else MARK
        return f"<{name}{space} {mark}>{inside}</{name}>"

    def _path(self) -> str:
        identifier = f"<id>uuid:{self._text('number')}@{self._text('guid')}</id>"
        via = self._maybe(f"<rev>{self._element('via', 'via')}</rev>")
        elements = [self._element("action", "action"), self._element("to", "to"), identifier, *via]
        return self._marked("path", self._joined(elements), f" {RP}")

    def _properties(self) -> str:
        sent = self._maybe(self._element("sentAt", "date"))
        inside = self._joined([self._element("expiresAt", "date"), *sent])
        return self._marked("properties", inside)

    def _stream(self) -> str:
        elements = [
            f"<streamId>uid:{self._text('guid')}\\{self._text('number')}</streamId>",
            self._element("current", "number"),
            *self._maybe(self._element("previous", "number")),
            *self._maybe(f"<start>{self._element('sendReceiptsTo', 'receipts')}</start>"),
        ]
        return self._marked("stream", self._joined(elements))

    def _msmq(self) -> str:
        eod = "".join([*self._maybe("<First/>"), *self._maybe("<Last/>")])
        elements = [
            self._element("Class", "class"),
            self._element("Priority", "priority"),
            *self._maybe("<Journal/>"),
            *self._maybe("<DeadLetter/>"),
            *self._maybe(self._element("Correlation", "correlation")),
            *self._maybe("<Trace/>"),
            *self._maybe(self._element("App", "number")),
            self._element("BodyType", "number"),
            *self._maybe(self._element("HashAlgorithm", "number")),
            *self._maybe(f"<Eod>{eod}</Eod>"),
            self._element("SourceQmGuid", "guid"),
            self._element("TTrq", "date"),
        ]
        return f'<Msmq xmlns="msmq.namespace.xml">{self._joined(elements)}</Msmq>'

    def envelope(self) -> bytes:
        """One message."""
        receipts = f"<sendTo>{ADMIN}</sendTo>"
        asks = f"<deliveryReceiptRequest>{receipts}</deliveryReceiptRequest>"
        services = "<durable/>" + (asks if self._is_odd() else "")
        durable = self._maybe(self._marked("services", services))
        stream = self._maybe(self._stream()) if durable or self._is_odd() else []
        header = self._joined([self._path(), self._properties(), *durable, *stream, self._msmq()])
        whole = (
            f"<se:Envelope {SE} {SRMP}><se:Header>{header}</se:Header>"
            "<se:Body></se:Body></se:Envelope>"
        )
        if self._is_odd():
            whole = whole.replace("se:", "soap:").replace("xmlns:se=", "xmlns:soap=")
        return (whole + self._chance.choice(("", "", "\r\n", " \n"))).encode()

    def payload(self) -> tuple[str, bytes]:
        """The same with body and extension."""
        chance, envelope = self._chance, self.envelope()
        if chance.random() < 0.2:
            return XML, envelope
        body, extension = (chance.randbytes(chance.choice((0, 3, 8))) for _ in range(2))
        return write_parts(envelope, body, extension, guid=GUID, number=1)


def packet(content_type: str, payload: bytes, *, alone: bool) -> bytes:
    """What is stored of it; nothing of what is refused."""
    if alone:
        forget()
    try:
        parts = read_parts(content_type, payload)
        message = (read_tree if alone else read_envelope)(parts.envelope)
        return packet_of(message, parts, HEAD, NOW_S)
    except RemoteProtocolError:
        return b""


def forget() -> None:
    """As if nothing had come before."""
    srmp_plain._known.clear()
    for module in (srmp_mapping, srmp_parts, srmp_values):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def test_packets_of_messages_in_a_row_are_those_of_each_alone(dose: Dose) -> None:
    taken = quick = 0
    for seed in range(dose(8, 400)):
        sender = Sender(seed)
        payloads = [sender.payload() for _ in range(250)]
        in_a_row = [packet(*payload, alone=False) for payload in payloads]
        for payload, stored in zip(payloads, in_a_row, strict=True):
            assert stored == packet(*payload, alone=True), payload
            taken += bool(stored)
            quick += bool(stored) and read_plain(read_parts(*payload).envelope) is not None
    assert taken > 100 * seed  # enough of them are messages, and of those most go the quick way
    assert quick > taken // 2
