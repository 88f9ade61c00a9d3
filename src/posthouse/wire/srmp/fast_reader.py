"""A fast reader of envelopes in the form that Windows and Posthouse write, without an XML parser.

[MC-MQSRM] 3.1.7.2.4 leaves a sender no choice but which elements it needs, so nearly all envelopes
match one pattern. That takes a tenth of the time. Whatever does not match goes the long way, and
whatever does means there what it means here; a test holds the two together.

What a sender repeats in each of its messages is read once: a message begins as a copy of one that
was like it up to label, identifier, times and correlation.
"""

import re
from base64 import b64encode
from copy import copy
from typing import Final

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import GUID_PATTERN
from posthouse.model.message import MESSAGE_ID_SIZE
from posthouse.wire.srmp.message import SrmpMessage, Stream
from posthouse.wire.srmp.values import (
    U32_MAX,
    is_url,
    read_correlation,
    read_date,
    read_guid,
    read_number,
    read_stream_id,
    read_u32,
)

SIZE_MAX: Final = 4096
ALIKE_MAX: Final = 512  # kinds of messages that are remembered
# What is text in any reading: no markup, no reference, nothing that XML or its white space changes.
_TEXT: Final = "[ -%'-;=?-~]*"
_DIGITS: Final = "[0-9]{1,10}"
_DATE: Final = "[0-9]{8}T[0-9]{6}"


def _element(name: str, inside: str) -> str:
    return f"<{name}>{inside}</{name}>"


def _value(element: str, name: str, form: str = _TEXT) -> str:
    """An element with a value that is wanted."""
    return _element(element, f"(?P<{name}>{form})")


def _optional(text: str) -> str:
    return f"(?:{text})?"


_MARK: Final = ' se:mustUnderstand="1">'
_PLAIN: Final = re.compile(
    '<se:Envelope xmlns:se="http://schemas\\.xmlsoap\\.org/soap/envelope/" '
    'xmlns="http://schemas\\.xmlsoap\\.org/srmp/"><se:Header>'
    f'<path xmlns="http://schemas\\.xmlsoap\\.org/rp/"{_MARK}'
    + _value("action", "action")
    + _value("to", "to")
    + _value("id", "id", f"uuid:(?P<ordinal>{_DIGITS})@{GUID_PATTERN}")
    + "(?P<front>"
    + _optional(_element("rev", _value("via", "via")))
    + f"</path><properties{_MARK}"
    + _value("expiresAt", "expires_at", _DATE)
    + ")"
    + _optional(_value("sentAt", "sent_at", _DATE))
    + "</properties>"
    + _optional(f"<services{_MARK}(?P<durable><durable/>)</services>")
    + _optional(
        f"<stream{_MARK}"
        + _value("streamId", "stream_id")
        + _value("current", "current", _DIGITS)
        + _optional(_value("previous", "previous", _DIGITS))
        + _optional(_element("start", _value("sendReceiptsTo", "receipts_to")))
        + "</stream>"
    )
    + '<Msmq xmlns="msmq\\.namespace\\.xml">'
    + "(?P<middle>"
    + _value("Class", "message_class", _DIGITS)
    + _value("Priority", "priority", "[0-7]")
    + "(?P<journal><Journal/>)?(?P<dead_letter><DeadLetter/>)?"
    + ")"
    + _optional(_value("Correlation", "correlation"))
    + "(?P<back>"
    + "(?P<trace><Trace/>)?"
    + _optional(_value("App", "application_tag", _DIGITS))
    + _value("BodyType", "body_type", _DIGITS)
    + _optional(_value("HashAlgorithm", "hash_algorithm", _DIGITS))
    + _optional("<Eod>(?P<first><First/>)?(?P<last><Last/>)?</Eod>")
    + _value("SourceQmGuid", "source_guid")
    + ")"
    + _value("TTrq", "reach_by", _DATE)
    + "</Msmq></se:Header><se:Body></se:Body></se:Envelope>[ \\t\\r\\n]*",
    re.ASCII,
)


def _places(*names: str) -> tuple[int, ...]:
    return tuple(_PLAIN.groupindex[name] for name in names)


_ALIKE: Final = _places("to", "front", "durable", "middle", "back")
_OWN: Final = _places("action", "id", "ordinal", "sent_at", "correlation", "reach_by", "stream_id")
_STREAM: Final = _places("stream_id", "current", "previous", "receipts_to", "durable")
NO_CORRELATION: Final = bytes(MESSAGE_ID_SIZE)
_NO_CORRELATION: Final = b64encode(NO_CORRELATION).decode("ascii")
_known: dict[tuple[str | None, ...], SrmpMessage] = {}  # by what messages have in common


def read_plain(xml: bytes) -> SrmpMessage | None:
    """The message of an envelope in the usual form; None for any other, which may be as good."""
    if len(xml) > SIZE_MAX or not xml.isascii():
        return None
    match = _PLAIN.fullmatch(xml.decode("ascii"))
    if match is None:
        return None
    alike = match.group(*_ALIKE)
    known = _known.get(alike)
    if known is None:
        known = _read_alike(match)
        if not is_url(known.to):
            return None
        if len(_known) >= ALIKE_MAX:
            _known.clear()
        _known[alike] = known
    action, identifier, ordinal, sent_at, correlation, reach_by, stream_id = match.group(*_OWN)
    number = int(ordinal)
    if number > U32_MAX:
        return None
    message = copy(known)
    message.action = action
    message.id = identifier
    message.ordinal = number
    if sent_at is not None:
        message.sent_at = read_date(sent_at)
    if correlation == _NO_CORRELATION:
        message.correlation = NO_CORRELATION
    elif correlation is not None:
        message.correlation = read_correlation(correlation.strip())
    message.reach_by = read_date(reach_by)
    if stream_id is not None:
        message.stream = _stream(*match.group(*_STREAM))
    return message


def _read_alike(match: re.Match[str]) -> SrmpMessage:
    """What other messages of its sender will repeat."""
    via, application_tag, hash_algorithm = (
        match["via"],
        match["application_tag"],
        match["hash_algorithm"],
    )
    return SrmpMessage(
        to=match["to"].strip(),
        via=via.strip() if via else "",
        expires_at=read_date(match["expires_at"]),
        durable=match["durable"] is not None,
        has_msmq=True,
        message_class=read_number(match["message_class"]),
        priority=int(match["priority"]),
        journal=match["journal"] is not None,
        dead_letter=match["dead_letter"] is not None,
        trace=match["trace"] is not None,
        application_tag=0 if application_tag is None else read_u32(application_tag),
        body_type=read_u32(match["body_type"]),
        hash_algorithm=0 if hash_algorithm is None else read_u32(hash_algorithm),
        first=match["first"] is not None,
        last=match["last"] is not None,
        source_guid=read_guid(match["source_guid"].strip()),
    )


def _stream(
    stream_id: str,
    current: str,
    previous: str | None,
    receipts_to: str | None,
    durable: str | None,
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
