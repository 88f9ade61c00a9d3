"""Bodies without a vector: encodings, traps of XML and JSON, COM values, the order of detection."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import pytest

from posthouse.formats import Limits, decode
from tests.support.format_vectors import read

XSI = (
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
)
ANY = f"""<ArrayOfAnyType {XSI}>
  <anyType xsi:type="xsd:int">5</anyType>
  <anyType xsi:type="q1:guid" xmlns:q1="urn:q">6F9619FF-8B86-D011-B42D-00CF4FC964FF</anyType>
  <anyType xsi:nil="true" />
  <anyType xsi:type="Order"><Id>1</Id></anyType>
  <anyType xsi:type="ArrayOfInt"><int>1</int></anyType>
</ArrayOfAnyType>"""
REBUS = b'{"rbs2-msg-id":"1","rbs2-content-type":"%s"}'
NSB = (
    b"<ArrayOfHeaderInfo><HeaderInfo><Key>%s</Key><Value>%s</Value></HeaderInfo>"
    b"</ArrayOfHeaderInfo>"
)
NESTED = (
    "<ArrayOfArrayOfInt><ArrayOfInt><int>1</int></ArrayOfInt><ArrayOfInt /></ArrayOfArrayOfInt>"
)
GUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
NIL = f'<a {XSI}><b p:nil="1" xmlns:p="http://www.w3.org/2001/XMLSchema-instance"/></a>'
OCTETS = NSB % (b"NServiceBus.ContentType", b"application/octet-stream")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (ANY, [5, GUID, None, {"@xsi:type": "Order", "Id": "1"}, [1]]),
        (NESTED, [[1], []]),
        ("<Bag><ArrayOfInt><int>1</int></ArrayOfInt></Bag>", {"ArrayOfInt": [1]}),
        ("<double>-INF</double>", "-Infinity"),
        ("<double>NaN</double>", "NaN"),
        ("<float>0.1</float>", 0.10000000149011612),
        ("<boolean>0</boolean>", False),
        ("<char>8364</char>", "€"),
        ("<char>55296</char>", "\ufffd"),
        ("<string>   </string>", ""),
        ("<TimeSpan />", ""),
        ("<base64Binary>AQID\r\n +g==</base64Binary>", {"$base64": "AQID+g=="}),
        ("<unsignedLong>18446744073709551615</unsignedLong>", 2**64 - 1),
        ("<dateTime>2020-01-01T00:00:00.1200000+01:00</dateTime>", "2020-01-01T00:00:00.12+01:00"),
        ("<int>many</int>", "many"),
        ("<boolean>yes</boolean>", "yes"),
        ("<double>many</double>", "many"),
        ("<guid>none</guid>", "none"),
        ("<base64Binary>***</base64Binary>", "***"),
        ("<char>AB</char>", "AB"),
        ("<char>65536</char>", "65536"),
        ("<dateTime>today</dateTime>", "today"),
        ("<decimal>+1.50</decimal>", "1.50"),
        ("<a>one<b>two</b></a>", {"b": "two", "#text": "one"}),
        (NIL, {"b": None}),
        ("<a><![CDATA[<b>\r\n]]></a>", "<b>\n"),
        ("<a>x\r\ny</a>", "x\r\ny"),
        ("<a b='1\r\n2'/>", {"@b": "1 2"}),
        ("<a><b/><b><c/></b><b x='1'/></a>", {"b": ["", {"c": ""}, {"@x": "1"}]}),
        ("<a><ArrayOfInt/><ArrayOfInt/></a>", {"ArrayOfInt": [[], []]}),
    ],
)  # fmt: skip
def test_values_of_xml(body: str, value: Any) -> None:
    result = decode(body.encode())
    assert (result.format, result.value, result.error) == ("xml", value, None)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        ('<?xml version="1.0" encoding="utf-16"?><a>ü</a>'.encode(), "utf-8"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>ü</a>'.encode("latin-1"), "iso-8859-1"),
        (b"\0\0 <a>\xc3\xbc</a>\0\0\0", "utf-8"),
        ("<a>ü</a>".encode("utf-16-le"), "utf-16"),
        ("<a>ü</a>".encode("utf-16-be"), "utf-16BE"),
        (b"\xfe\xff" + "<a>ü</a>".encode("utf-16-be"), "utf-16BE"),
        (b"\xff\xfe\0\0" + "<a>ü</a>".encode("utf-32-le"), "utf-32"),
    ],
)
def test_bytes_decide_the_encoding(body: bytes, encoding: str) -> None:
    result = decode(body)
    assert (result.format, result.value) == ("xml", "ü")
    assert result.details["encoding"] == encoding


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "DTD"),
        (b"<!-- a --><?p?>\n<!DOCTYPE a><a/>", "DTD"),
        (b"<!-- -->" * 1001 + b"<!DOCTYPE a><a/>", "comments"),
        (b"<a>&x;</a>", "undefined entity"),
        (b"<a><b></a>", "mismatched"),
        (b"<a>" * 300 + b"</a>" * 300, "levels"),
        (b'<?xml version="1.0"?><a>\xff</a>', "not UTF-8"),
    ],
)
def test_xml_that_is_broken_or_refused(body: bytes, reason: str) -> None:
    result = decode(body)
    assert (result.format, reason in (result.error or "")) == ("xml", True)


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("&lt;!DOCTYPE a&gt;&lt;a/&gt;", None),
        ("&lt;a&gt;", None),
        ("{&quot;a&quot;", None),
        ("[1]", {"format": "json", "value": [1]}),
        (
            "&lt;string&gt;&amp;lt;a/&amp;gt;&lt;/string&gt;",
            {
                "format": "xml",
                "root": "string",
                "value": "<a/>",
                "inner": {"format": "xml", "root": "a", "value": ""},
            },
        ),
    ],
)
def test_what_a_string_holds(text: str, inner: Any) -> None:
    assert decode(f"<string>{text}</string>".encode()).details["inner"] == inner


@pytest.mark.parametrize(
    ("body", "format", "value"),
    [
        (b"<3 you", "text", "<3 you"),
        (b"{not json", "text", "{not json"),
        (b'"just a string"', "text", '"just a string"'),
        ("hällo".encode("utf-16-le"), "text", "hällo"),
        ("hallo".encode("utf-16-be"), "text", "hallo"),
        (b"C string\0", "text", "C string"),
        (b"\x0bMSH|\x1c\r", "text", "\x0bMSH|\x1c\r"),
        (b"\0\x1b[2J", "bytes", {"$base64": "ABtbMko="}),
        (b"\xff\xfea", "bytes", {"$base64": "//5h"}),
        (b"<a\xff\0", "bytes", {"$base64": "PGH/AA=="}),
        (b"", "empty", None),
        (b' {"a": NaN, "b": -1e999}\0', "json", {"a": "NaN", "b": "-Infinity"}),
        (rb'["\ud800", "\ud83d\ude00", "\\ud800"]', "json", ["\ufffd", "\U0001f600", "\\ud800"]),
        (rb'{"\ud800": {"a": ["\udc00"]}}', "json", {"\ufffd": {"a": ["\ufffd"]}}),
        (b"[123456789012345678901234567890]", "json", [123456789012345678901234567890]),
    ],
)  # fmt: skip
def test_bodies_without_a_type(body: bytes, format: str, value: Any) -> None:
    result = decode(body)
    assert (result.format, result.value, result.error) == (format, value, None)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 300 + b"]" * 300,
        b"[" * 100_000,
        b"[" + b"[]," * 200_000 + b"1]",
        b"[" + b"1," * 300_000 + b"1]",
    ],
    ids=["deep", "deeper", "containers", "values"],
)
def test_json_beyond_the_limits(body: bytes) -> None:
    result = decode(body)
    assert (result.format, "than the limit" in (result.error or "")) == ("json", True)


@pytest.mark.parametrize(
    ("body_type", "body", "value"),
    [
        (11, b"\x01", True),
        (11, b"\0\0", False),
        (7, struct.pack("<d", -1.25), "1899-12-29T06:00:00"),
        (7, bytes(8), "0001-01-01T00:00:00"),
        (3, b"\x01\0\0\0\xff", 1),
        (4, struct.pack("<f", float("inf")), "Infinity"),
        (30, b"\x80\x81\0", "€\ufffd"),
        (6, struct.pack("<q", 120000), "12"),
        (99, b"abc", {"$base64": "YWJj"}),
    ],
)
def test_variants(body_type: int, body: bytes, value: Any) -> None:
    assert decode(body, body_type=body_type).value == value


@pytest.mark.parametrize(
    ("body_type", "body"),
    [(11, b""), (3, b"\x01"), (72, b"1"), (68, b"1"), (7, struct.pack("<d", 1e300)), (8, b"abc")],
)
def test_variants_that_are_too_short_or_impossible(body_type: int, body: bytes) -> None:
    result = decode(body, body_type=body_type)
    assert result.format == "activex"
    assert result.error


def test_strings_of_com_are_looked_into() -> None:
    body = '<?xml version="1.0" encoding="utf-8"?><o>1</o>'.encode("utf-16-le")
    inner = decode(body, body_type=8).details["inner"]
    assert inner == {"format": "xml", "root": "o", "value": "1"}


def test_the_body_type_of_objects_wins_over_headers() -> None:
    assert decode(b"", body_type=768, extension=REBUS % b"").format == "nrbf"


def test_objects_beside_headers_of_nservicebus_have_both() -> None:
    body = read("nrbf-class.body")
    for body_type in (0, 768):
        found = decode(body, body_type=body_type, extension=NSB % (b"K", b"v"))
        assert (found.format, found.value["Customer"]) == ("nservicebus", "Ada")
        assert found.meaning is not None
        assert found.meaning.headers == {"K": "v"}
    broken = decode(body[:40], body_type=768, extension=NSB % (b"K", b"v"))
    assert broken.error
    assert broken.meaning is not None
    assert broken.meaning.headers == {"K": "v"}


@pytest.mark.parametrize(
    "entries",
    [
        "<Extra>1</Extra><HeaderInfo><Key>K</Key><Value>v</Value></HeaderInfo>"
        "<Other><Key>X</Key></Other>",
        "<HeaderInfo><More><Key>X</Key></More><Key>K</Key><Value>v</Value><Extra/></HeaderInfo>",
        '<HeaderInfo xmlns:z="urn:z"><Key>K</Key><z:Key>X</z:Key><Value>v</Value><z:Value/>'
        "</HeaderInfo>",
        "<HeaderInfo><Key>K</Key><Value>v</Value><Key>X</Key><Value>w</Value></HeaderInfo>",
        '<z:HeaderInfo xmlns:z="urn:z"><z:Key>X</z:Key></z:HeaderInfo>'
        "<HeaderInfo><Value>v</Value><Key>K</Key></HeaderInfo>",
    ],
)
def test_headers_are_read_as_the_serializer_of_net_reads_them(entries: str) -> None:
    """It passes over elements that it does not know, and of two it takes the first."""
    extension = f"<ArrayOfHeaderInfo>{entries}</ArrayOfHeaderInfo>".encode()
    found = decode(b"{}", extension=extension)
    assert found.error is None
    assert found.meaning is not None
    assert found.meaning.headers == {"K": "v"}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a&#x0;b&#x1F;c", "a\0b\x1fc"),
        ("&#xB;&#11;&#xFFFE;&#xFFFF;", "\v\v\ufffe\uffff"),
        ("&amp;#x0;", "&#x0;"),
        ("at A()&#xD;\nat B()\r\nat C()", "at A()\nat B()\nat C()"),
        ("\U0001f600&#x1F600;&#xD800;", "\U0001f600\U0001f600\ufffd"),
    ],
)
def test_texts_of_exceptions_have_the_characters_that_xml_forbids(written: str, text: str) -> None:
    key = b"NServiceBus.ExceptionInfo.StackTrace"
    found = decode(b"{}", extension=NSB % (key, written.encode()))
    assert found.error is None
    assert found.meaning is not None
    assert found.meaning.exception is not None
    assert found.meaning.exception.stack == text


def test_headers_win_over_other_body_types() -> None:
    assert decode(b"{}", body_type=8, extension=REBUS % b"").value == {}


@pytest.mark.parametrize("extension", [b"<a/>", b'{"a": 1}', b"\x80", b"{broken", b"\0\0"])
def test_other_extensions_decide_nothing(extension: bytes) -> None:
    assert decode(b"<int>1</int>", extension=extension).format == "xml"


@pytest.mark.parametrize(
    ("extension", "body", "value"),
    [
        (REBUS % b"application/json;charset=utf-16", '{"ü":1}'.encode("utf-16-le"), {"ü": 1}),
        (b'{"rbs2-content-encoding":"gzip"}', gzip.compress(b"[1]", mtime=0), [1]),
        (b'{"rbs2-content-encryption":"rijndael"}', b"[1]", {"$base64": "WzFd"}),
        (b'{"rebus-msg-id":"1","rebus-n":1}', b"text", "text"),
        (b'{"rbs2-payload-attachment-id":"1"}', b"", None),
        (OCTETS, b"[1]", {"$base64": "WzFd"}),
        (b'{"Content-Type":"application/vnd.masstransit+psk"}', b"[1]", {"$base64": "WzFd"}),
        (b'{"Content-Type":"application/vnd.masstransit+xml"}',
         b"<envelope><message><a>1</a></message><messageType>urn:a</messageType></envelope>",
         {"a": "1"}),
    ],
)  # fmt: skip
def test_content_types_lead_to_the_body(extension: bytes, body: bytes, value: Any) -> None:
    result = decode(body, extension=extension)
    assert (result.value, result.error) == (value, None)


@pytest.mark.parametrize(
    ("extension", "body", "format"),
    [
        (REBUS % b"application/json", b"{", "rebus"),
        (b'{"rbs2-content-encoding":"gzip"}', b"no gzip", "rebus"),
        (b'{"rbs2-content-encoding":"gzip"}', gzip.compress(b"[1]", mtime=0)[:-9], "rebus"),
        (b'{"rbs2-a":', b"[1]", "rebus"),
        (b"<ArrayOfHeaderInfo><HeaderInfo></ArrayOfHeaderInfo>", b"[1]", "nservicebus"),
        (b'{"Content-Type":"application/vnd.masstransit+json"}', b"{", "masstransit"),
    ],
)
def test_what_a_bus_claims_and_breaks(extension: bytes, body: bytes, format: str) -> None:
    result = decode(body, extension=extension)
    assert (result.format, result.error is not None) == (format, True)


def test_unpacking_has_a_limit() -> None:
    body = gzip.compress(b"x" * 1000)
    result = decode(body, extension=b'{"rbs2-content-encoding":"gzip"}', limits=Limits(size=999))
    assert "more than the limit" in (result.error or "")


class TestNServiceBusHeaders:
    def headers(self, extension: bytes) -> dict[str, str | None]:
        result = decode(b"", extension=extension)
        assert (result.format, result.error) == ("nservicebus", None)
        assert result.meaning is not None
        return result.meaning.headers

    @pytest.mark.parametrize(
        ("written", "read"),
        [
            (b"&#x0;", "\0"),
            (b"&#xFFFE;", "\ufffe"),
            (b"&#11;", "\x0b"),
            (b"&amp;#0;", "&#0;"),
            (b"&#xD800;", "\ufffd"),
            (b"&#xE000;&#x20;&#x1F;", "\ue000 \x1f"),
            (b"&#xDFFF;&#x110000;", "\ufffd\ufffd"),
            (b"&#x41;&#13;", "A\r"),
            ("&#x1;\U0010f801".encode(), "\ufffd\U0010f801"),
            (b"a\r\nb", "a\nb"),
        ],
    )
    def test_references_to_forbidden_characters(self, written: bytes, read: str) -> None:
        assert self.headers(NSB % (b"k", written)) == {"k": read}

    @pytest.mark.parametrize(
        "tail", [b"\0\0\0", b"garbage", b"fo></ArrayOfHeaderInfo>\0", b"<a", b"\xff\xfe"]
    )
    def test_what_follows_the_list_is_cut(self, tail: bytes) -> None:
        assert self.headers(NSB % (b"k", b"v") + tail) == {"k": "v"}

    def test_an_empty_list_may_have_a_tail_as_well(self) -> None:
        assert self.headers(b"\xef\xbb\xbf <ArrayOfHeaderInfo a='b' />\0\0x") == {}

    def test_entries_without_a_key_or_a_value(self) -> None:
        entries = b"<HeaderInfo><Value>v</Value></HeaderInfo><HeaderInfo><Key>k</Key></HeaderInfo>"
        assert self.headers(b"<ArrayOfHeaderInfo>" + entries + b"</ArrayOfHeaderInfo>") == {
            "k": None
        }

    def test_a_key_that_comes_twice_is_an_error(self) -> None:
        entry = b"<HeaderInfo><Key>k</Key><Value>%d</Value></HeaderInfo>"
        both = b"<ArrayOfHeaderInfo>" + entry % 1 + entry % 2 + b"</ArrayOfHeaderInfo>"
        result = decode(b"[1]", extension=both)
        assert "comes twice" in (result.error or "")
        assert result.meaning
        assert result.meaning.headers == {"k": "1"}

    def test_a_time_that_cannot_be_is_left_out(self) -> None:
        extension = NSB % (b"NServiceBus.TimeSent", b"2025-13-16 01:53:31:869743 Z")
        assert "times" not in decode(b"", extension=extension).to_json()

    def test_the_correlation_id_of_the_message(self) -> None:
        identifier = bytes(range(16)) + (7).to_bytes(4, "little")
        result = decode(b"", extension=NSB % (b"a", b"b"), correlation_id=identifier)
        assert result.meaning
        assert result.meaning.correlation_id == "03020100-0504-0706-0809-0a0b0c0d0e0f\\7"

    @pytest.mark.parametrize(
        "name", ["A.Of`1[[A.Order, A, Version=1.0]]", "A.Of`2[A.B, A.C]", "A.Plain"]
    )
    def test_a_generic_type_keeps_its_brackets(self, name: str) -> None:
        qualified = f"{name}, A, Version=1.0".encode()
        result = decode(b"", extension=NSB % (b"NServiceBus.EnclosedMessageTypes", qualified))
        assert result.to_json()["message_type"] == name


def test_the_exception_of_rebus() -> None:
    details = "1 unhandled exceptions: 08/16/2025: System.FormatException: bad\\r\\n   at A.B(C c)"
    result = decode(b"", extension=f'{{"rbs2-error-details":"{details}"}}'.encode())
    found = result.to_json()
    assert (found["exception"]["type"], found["exception"]["message"]) == (
        "System.FormatException",
        "bad",
    )
    assert "at A.B(C c)" in found["exception"]["stack"]


def test_json_with_a_number_beyond_the_limit_is_json_with_a_reason() -> None:
    found = decode(b'{"a":' + b"9" * 5000 + b"}")
    assert (found.format, found.error) == ("json", "the JSON has a number with too many digits")
