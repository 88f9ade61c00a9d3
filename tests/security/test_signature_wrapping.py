"""XML signature wrapping: what is verified is what is used, wherever signed octets are moved to.

A good signature over "PAY 100" is in the attacker's hands; none of these makes anything else count.
"""

from __future__ import annotations

import pytest

from posthouse.model.errors import MalformedPacket
from posthouse.security.xml_signatures import DRAFT, verify
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.support.xml_signatures import (
    BODY,
    GUID,
    GUID_TEXT,
    MESSAGE,
    digest,
    element,
    method,
    received,
    reference,
    ring,
)

FORGED = b"PAY 1000000"
GOOD = element()
INFO = GOOD[GOOD.index(b"<SignedInfo>") : GOOD.index(b"</SignedInfo>") + 13]
FORGED_INFO = INFO.replace(digest(BODY).encode(), digest(FORGED).encode())
FORGED_ELEMENT = GOOD.replace(INFO, FORGED_INFO)


def is_taken(envelope: bytes, body: bytes = FORGED, extension: bytes = b"") -> bool:
    """Whether a message with this envelope and body counts as authenticated."""
    try:
        parts = read_parts(*write_parts(envelope, body, extension, guid=GUID, number=1))
        verdict = verify(read_envelope(parts.envelope), parts, ring())
    except MalformedPacket:
        return False
    return verdict.authenticated


def with_signature(signature: bytes) -> bytes:
    return write_envelope(MESSAGE, signature)


WRAPPED = {
    "the forged one alone": FORGED_ELEMENT,
    "forged, then good": FORGED_ELEMENT + GOOD,
    "good, then forged": GOOD + FORGED_ELEMENT,
    "good inside the forged": FORGED_ELEMENT.replace(b"</Signature>", GOOD + b"</Signature>"),
    "forged inside the good": GOOD.replace(b"</Signature>", FORGED_ELEMENT + b"</Signature>"),
    "good in an Object": FORGED_ELEMENT.replace(
        b"</Signature>", b"<Object>" + GOOD + b"</Object></Signature>"
    ),
    "two SignedInfo, good first": GOOD.replace(INFO, INFO + FORGED_INFO),
    "two SignedInfo, good last": GOOD.replace(INFO, FORGED_INFO + INFO),
    "good one of another namespace": GOOD.replace(
        INFO, INFO.replace(b"<SignedInfo>", b'<SignedInfo xmlns="urn:x">') + FORGED_INFO
    ),
    "forged one of another namespace": GOOD.replace(
        INFO, INFO + FORGED_INFO.replace(b"<SignedInfo>", b'<SignedInfo xmlns="urn:x">')
    ),
    "good one in KeyInfo": FORGED_ELEMENT.replace(b"<KeyInfo>", b"<KeyInfo>" + INFO),
    "good one as text": FORGED_ELEMENT.replace(
        b"<KeyInfo>", b"<KeyInfo><KeyName><![CDATA[" + INFO + b"]]></KeyName>"
    ),
    "good one in a comment": FORGED_ELEMENT.replace(b"<KeyInfo>", b"<!--" + INFO + b"--><KeyInfo>"),
    "a Signature of another namespace first": GOOD.replace(DRAFT.encode(), b"urn:x")
    + FORGED_ELEMENT,
    "an unknown header around the good one": b'<wrap xmlns="urn:x">' + GOOD + b"</wrap>",
    "good octets in a header of their own, first": b'<wrap xmlns="%b">' % DRAFT.encode()
    + INFO
    + b"</wrap>"
    + FORGED_ELEMENT,
    "a reference twice": element(method() + reference() + reference(value=digest(FORGED))),
    "a reference to the whole document": element(method() + reference(uri="")),
    "a reference to an Id": element(method() + reference(uri="#body")),
    "a reference elsewhere": element(method() + reference(uri="http://127.0.0.1/x")),
    "a transform": element(
        method()
        + reference().replace(
            "<DigestMethod", '<Transforms><Transform Algorithm="x"/></Transforms><DigestMethod'
        )
    ),
}


@pytest.mark.parametrize("signature", WRAPPED.values(), ids=WRAPPED)
def test_a_good_signature_elsewhere_does_not_count_for_another_body(signature: bytes) -> None:
    assert not is_taken(with_signature(signature))


def test_the_tests_would_notice() -> None:
    assert is_taken(with_signature(GOOD), BODY)
    assert is_taken(with_signature(element(method() + reference(value=digest(FORGED)))))


def test_a_second_header_does_not_lend_its_signature() -> None:
    good, plain = with_signature(GOOD), with_signature(b"")
    start, end = good.index(b"<se:Header"), good.index(b"</se:Header>") + len(b"</se:Header>")
    header = good[start:end]
    for envelope in (
        plain.replace(b"</se:Envelope>", header + b"</se:Envelope>"),
        plain.replace(b"<se:Header", header + b"<se:Header", 1),
        with_signature(FORGED_ELEMENT).replace(b"</se:Envelope>", header + b"</se:Envelope>"),
    ):
        assert envelope not in (good, plain)
        assert not is_taken(envelope)


@pytest.mark.parametrize("at", [0, 1])
def test_a_second_part_of_the_signed_name_is_not_delivered_instead(at: int) -> None:
    """S46: two parts of one Content-Id, one signed, one delivered."""
    envelope = with_signature(GOOD)
    content_type, payload = write_parts(envelope, BODY, guid=GUID, number=1)
    _, other = write_parts(envelope, FORGED, guid=GUID, number=1)
    boundary = payload[: payload.index(b"\r\n")]
    good, forged = (one.split(boundary)[2] for one in (payload, other))
    both = payload.replace(good, boundary.join(((good, forged), (forged, good))[at]))
    assert both.count(b"body@") > payload.count(b"body@")
    with pytest.raises(MalformedPacket):
        read_parts(content_type, both)


def test_a_body_in_the_place_of_the_extension_is_not_covered() -> None:
    """The digest of one part does not fit the other, and an unsigned part is not authenticated."""
    assert not is_taken(with_signature(GOOD), BODY, b"an extension that is not signed")
    swapped = element(method() + reference(uri=f"cid:extension@{GUID_TEXT}"))
    assert not is_taken(with_signature(swapped), BODY)


def test_what_is_delivered_are_the_octets_that_were_digested() -> None:
    message, parts = received(GOOD)
    assert verify(message, parts, ring()).authenticated
    assert parts.payload[parts.body_at : parts.body_at + len(BODY)] == parts.body == BODY
