"""Fuzz target: any payload of an HTTP message gives a sound packet or the one proper error.

The whole way of a message: parts, envelope, packet, and back into a message of ours; also the check
of signatures. It runs with its siblings by `make fuzz`; alone, guided by coverage, by
`python -m fuzz.guided srmp -max_total_time=600` (see there).
"""

import random
from pathlib import Path

from posthouse.model.errors import RemoteProtocolError
from posthouse.security.message_security import KeyRing
from posthouse.security.xml_signatures import DRAFT, RSA_SHA1, verify
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope, read_tree
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.message import SrmpMessage, kind_of
from posthouse.wire.srmp.mime_parts import XML, Parts, read_parts
from posthouse.wire.srmp.repeated_messages import MessageReader
from posthouse.wire.srmp.serialize import SrmpContext, srmp_of
from posthouse.wire.srmp.stored_messages import stored_parts, without_srmp
from posthouse.wire.srmp.values import U32_MAX

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "srmp"
NOW_S = 1_800_000_000
CONTEXT = SrmpContext("http://alpha/MSMQ/PRIVATE$/order_queue$")
RUNS = 2000
GUID = "caf195ea-615c-4264-ae08-11a4e60194c0"
SIGNATURE = (
    f'<Signature xmlns="{DRAFT}"><SignedInfo>'
    f'<SignatureMethod Algorithm="{RSA_SHA1}"></SignatureMethod>'
    f'<Reference URI="cid:body@{GUID}"><DigestMethod Algorithm="{DRAFT}sha1"></DigestMethod>'
    "<DigestValue>XU9yAzfwEPuP7L5iOcQY9XRNEWM=</DigestValue></Reference></SignedInfo>"
    "<SignatureValue>AAAA</SignatureValue><KeyInfo><X509Data><X509Certificate>AAAA"
    "</X509Certificate></X509Data></KeyInfo></Signature>"
).encode()
MORE = (
    f"<DestinationMqf>http://a/msmq/q MSMQ:PUBLIC={GUID}\n</DestinationMqf><Journal/><Trace/>"
    f"<Eod><First/><Last/><ConnectorId>{GUID}</ConnectorId></Eod>"
    "<Provider><Type>1</Type><Name>n</Name></Provider>"
    f"<ConnectorType>{GUID}</ConnectorType><DeadLetter/>"
).encode()


class NoKeys:
    """Nothing is registered."""

    def certificates_of_machine(self, guid: bytes) -> tuple[()]:
        """None."""
        return ()

    def is_registered(self, certificate: bytes) -> bool:
        """Nobody's."""
        return False


KEYS: KeyRing = NoKeys()  # type: ignore[assignment]


def fuzz_one(data: bytes) -> bool:
    """Whether it was a message."""
    head, _, payload = data.partition(b"\r\n\r\n")
    try:
        parts = read_parts(content_type_of(head), payload)
        message = read_tree(parts.envelope)
        assert read_envelope(parts.envelope) == message
        packet = packet_of(message, parts, head + b"\r\n\r\n", NOW_S)
    except RemoteProtocolError:
        return False
    assert kind_of(message)
    assert 0 <= message.time_to_reach_queue(NOW_S) <= max(U32_MAX, 2**40)
    verdict = verify(message, parts, KEYS)
    assert not verdict.authenticated
    check(packet, parts, head)
    check_repeated(message, parts, head + b"\r\n\r\n", packet)
    return True


def content_type_of(head: bytes) -> str:
    """As the head has it, else a bare envelope."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-type":
            return value.strip().decode("latin-1")
    return XML


def check(packet: bytes, parts: Parts, head: bytes) -> None:
    """The packet is sound, has everything, and can be sent on."""
    Packet(packet).check()
    found = deserialize(packet)
    assert (found.body, found.extension) == (parts.body, parts.extension)
    kept = stored_parts(packet)
    assert kept.compound == head + b"\r\n\r\n" + parts.payload
    for sent in (packet, without_srmp(packet, summarize(packet))):
        request = srmp_of(sent, summarize(sent), CONTEXT)
        again = read_parts(dict(request.fields)["Content-Type"], request.payload)
        assert read_envelope(again.envelope).to == request.url


def check_repeated(message: SrmpMessage, parts: Parts, head: bytes, packet: bytes) -> None:
    """On a connection that repeats it, it stays what it is."""
    reader = MessageReader()
    for _ in range(3):
        read = reader.read(head, content_type_of(head[:-4]), parts.payload)
        assert (read.message, read.parts) == (message, parts)
        if read.template is not None:
            assert read.template.packet(parts.payload) == (packet, summarize(packet))


TOKENS = (
    *(b"<", b">", b"</", b"/>", b"&", b"&amp;", b"]]>", b"<!--", b"<![CDATA[", b"<!DOCTYPE a>"),
    *(b"\r\n", b"\r\n\r\n", b"--", b'"', b"=", b"0", b"1", b"18446744073709551616", b"-1", b"%24"),
    *(b"http://", b"MSMQ:", b"MULTICAST=", b"uuid:", b"uid:", b"@", b"\\", b"20380119T031407"),
    *(b"<stream se:mustUnderstand='1'>", b"<durable/>", b"<to>", b"</to>", SIGNATURE, MORE),
)


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A damaged message; the length of its envelope mostly fits again."""
    head, split, payload = seed.partition(b"\r\n\r\n")
    text = bytearray(payload)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at = chance.randrange(len(text) + 1)
        what = chance.choice((b"", chance.choice(TOKENS), bytes([chance.randrange(256)])))
        text[at : at + chance.choice((0, 0, 1, 1, 4, 20))] = what
    if chance.random() < 0.1:
        head = head.replace(b"-", chance.choice(TOKENS), 1)
    return head + split + (refit(bytes(text)) if chance.random() < 0.9 else bytes(text))


def refit(payload: bytes) -> bytes:
    """The Content-Length of the first part, so that what follows can be found."""
    front, name, rest = payload.partition(b"Content-Length: ")
    _, end, content = rest.partition(b"\r\n\r\n")
    stop = content.find(b"--MSMQ - SOAP")
    if not end or stop < 0:
        return payload
    return b"".join((front, name, str(stop).encode(), end, content))


def changed(seed: bytes, old: bytes, new: bytes) -> bytes:
    """A message with something else in its envelope."""
    head, end, payload = seed.partition(b"\r\n\r\n")
    return head + end + refit(payload.replace(old, new))


def sent_on(seed: bytes) -> bytes:
    """A message in the form that we write."""
    head, _, payload = seed.partition(b"\r\n\r\n")
    parts = read_parts(content_type_of(head), payload)
    whole = packet_of(read_tree(parts.envelope), parts, head, NOW_S)
    packet = without_srmp(whole, summarize(whole))
    request = srmp_of(packet, summarize(packet), CONTEXT)
    kind = dict(request.fields)["Content-Type"].encode()
    return b"POST / HTTP/1.1\r\nContent-Type: " + kind + b"\r\n\r\n" + request.payload


SEEDS = [file.read_bytes() for file in sorted(VECTORS.glob("*.http"))]
SEEDS += [
    changed(SEEDS[2], b"</se:Header>", SIGNATURE + b"</se:Header>"),
    changed(SEEDS[2], b"<BodyType>", MORE + b"<BodyType>"),
    sent_on(SEEDS[2]),
]
