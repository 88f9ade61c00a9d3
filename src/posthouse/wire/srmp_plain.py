"""Envelopes in the one form that Windows and we write, read without a parser of XML.

[MC-MQSRM] 3.1.7.2.4 leaves a sender no choice but which elements it needs, so nearly all envelopes
match one pattern. That takes a quarter of the time. Whatever does not match goes the long way, and
whatever does means there what it means here; a test holds the two together.
"""

import re
from typing import Final

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.wire.srmp_message import SrmpMessage, Stream
from posthouse.wire.srmp_values import (
    U32_MAX,
    is_url,
    read_correlation,
    read_date,
    read_guid,
    read_message_id,
    read_number,
    read_stream_id,
    read_u32,
)

SIZE_MAX: Final = 4096
# What is text in any reading: no markup, no reference, nothing that XML or its white space changes.
_TEXT: Final = "([ -%'-;=?-~]*)"
_DIGITS: Final = "([0-9]{1,10})"


def _element(name: str, inside: str = _TEXT) -> str:
    return f"<{name}>{inside}</{name}>"


def _optional(text: str) -> str:
    return f"(?:{text})?"


_MARK: Final = ' se:mustUnderstand="1">'
_PLAIN: Final = re.compile(
    '<se:Envelope xmlns:se="http://schemas\\.xmlsoap\\.org/soap/envelope/" '
    'xmlns="http://schemas\\.xmlsoap\\.org/srmp/"><se:Header>'
    f'<path xmlns="http://schemas\\.xmlsoap\\.org/rp/"{_MARK}'
    + _element("action")
    + _element("to")
    + _element("id")
    + _optional(_element("rev", _element("via")))
    + f"</path><properties{_MARK}"
    + _element("expiresAt")
    + _optional(_element("sentAt"))
    + "</properties>"
    + _optional(f"<services{_MARK}(<durable/>)</services>")
    + _optional(
        f"<stream{_MARK}"
        + _element("streamId")
        + _element("current", _DIGITS)
        + _optional(_element("previous", _DIGITS))
        + _optional(_element("start", _element("sendReceiptsTo")))
        + "</stream>"
    )
    + '<Msmq xmlns="msmq\\.namespace\\.xml">'
    + _element("Class", _DIGITS)
    + _element("Priority", "([0-7])")
    + "(<Journal/>)?(<DeadLetter/>)?"
    + _optional(_element("Correlation"))
    + "(<Trace/>)?"
    + _optional(_element("App", _DIGITS))
    + _element("BodyType", _DIGITS)
    + _optional(_element("HashAlgorithm", _DIGITS))
    + _optional("<Eod>(<First/>)?(<Last/>)?</Eod>")
    + _element("SourceQmGuid")
    + _element("TTrq")
    + "</Msmq></se:Header><se:Body></se:Body></se:Envelope>[ \\t\\r\\n]*",
    re.ASCII,
)


def read_plain(xml: bytes) -> SrmpMessage | None:
    """The message of an envelope in the usual form; None for any other, which may be as good."""
    if len(xml) > SIZE_MAX or not xml.isascii():
        return None
    match = _PLAIN.fullmatch(xml.decode("ascii"))
    if match is None:
        return None
    (
        action,
        to,
        identifier,
        via,
        expires_at,
        sent_at,
        durable,
        stream_id,
        current,
        previous,
        receipts_to,
        message_class,
        priority,
        journal,
        dead_letter,
        correlation,
        trace,
        application_tag,
        body_type,
        hash_algorithm,
        first,
        last,
        source_guid,
        reach_by,
    ) = match.groups()
    to, identifier = to.strip(), identifier.strip()
    if not is_url(to):
        return None
    return SrmpMessage(
        action=action,
        to=to,
        id=identifier,
        via=via.strip() if via else "",
        expires_at=read_date(expires_at.strip()),
        sent_at=None if sent_at is None else read_date(sent_at.strip()),
        durable=durable is not None,
        stream=None
        if stream_id is None
        else _stream(stream_id, current, previous, receipts_to, durable is not None),
        has_msmq=True,
        message_class=read_number(message_class),
        priority=int(priority),
        journal=journal is not None,
        dead_letter=dead_letter is not None,
        correlation=b"" if correlation is None else read_correlation(correlation.strip()),
        trace=trace is not None,
        application_tag=0 if application_tag is None else read_u32(application_tag),
        body_type=read_u32(body_type),
        hash_algorithm=0 if hash_algorithm is None else read_u32(hash_algorithm),
        first=first is not None,
        last=last is not None,
        connector_id=NULL_GUID,
        source_guid=read_guid(source_guid.strip()),
        ordinal=read_message_id(identifier).ordinal,
        reach_by=read_date(reach_by.strip()),
    )


def _stream(
    stream_id: str, current: str, previous: str | None, receipts_to: str | None, durable: bool
) -> Stream:
    number = int(current)
    before = number - 1 if previous is None else int(previous)
    if receipts_to is not None:
        receipts_to = receipts_to.strip()
    if not (0 < number <= U32_MAX and before <= U32_MAX and durable) or (
        receipts_to is not None and not is_url(receipts_to)
    ):
        raise MalformedPacket("a stream without durable, with a bad number or a bad address")
    return Stream(*read_stream_id(stream_id.strip()), number, before, receipts_to)
