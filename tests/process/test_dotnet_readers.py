"""Real .NET classes (mono) read what our encoders write, and write what our decoders read."""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import canonicalize

import pytest

from posthouse.formats import decode
from posthouse.formats.encode import nservicebus_headers, wcf_text_body, xml_body
from tests.formats.hostile import gram
from tests.support.format_vectors import FOLDER

pytestmark = pytest.mark.peer("mono")
SOURCE = Path(__file__).parent / "dotnet" / "Reader.cs"
LIBRARIES = ("-r:System.ServiceModel.dll", "-r:System.Runtime.Serialization.dll")
NOTE = (
    '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
    'xmlns:a="http://www.w3.org/2005/08/addressing"><s:Header>'
    '<a:Action s:mustUnderstand="1">urn:note</a:Action></s:Header><s:Body>'
    '<Note xmlns="http://acme.example/"><Number>7</Number><Text>ü &amp; &lt;b&gt;</Text></Note>'
    "</s:Body></s:Envelope>"
)


class Reader:
    """The program of the folder dotnet: a command in, a line out."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            ["mono", str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, command: str, name: str, data: bytes = b"") -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command} {name} {b64encode(data).decode()}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the reader has ended"
        return answer.strip()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    program = tmp_path_factory.mktemp("mono") / "Reader.exe"
    subprocess.run(["mcs", f"-out:{program}", *LIBRARIES, str(SOURCE)], check=True)
    running = Reader(program)
    yield running
    running.process.kill()
    running.process.communicate()


def text(value: str) -> str:
    """A text as the reader shows it."""
    return f"b{b64encode(value.encode()).decode()}"


@pytest.mark.parametrize("style", ["framework", "modern"])
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("string", "Zürich € <tags> & 'q'\r\n\tx", text("Zürich € <tags> & 'q'\r\n\tx")),
        ("string", "", text("")),
        ("string", None, "null"),
        ("int", -42, "-42"),
        ("unsignedLong", 2**64 - 1, str(2**64 - 1)),
        ("byte", -8, "-8"),
        ("boolean", True, "True"),
        ("double", 1e-7, "1E-07"),
        ("double", 0.1, "0.1"),
        ("double", "Infinity", "Infinity"),
        ("float", 0.1, "0.1"),
        ("decimal", "1234.50", "1234.50"),
        ("decimal", "79228162514264337593543950335", "79228162514264337593543950335"),
        ("decimal", "-0.0000000000000000000000000001", "-0.0000000000000000000000000001"),
        ("long", -(1 << 63), "-9223372036854775808"),
        ("float", 3.4028235e38, "3.40282347E+38"),
        ("double", "-INF", "-Infinity"),
        ("double", "5e-324", "4.94065645841247E-324"),
        ("dateTime", "9999-12-31T23:59:59.9999999", "9999-12-31T23:59:59.9999999"),
        ("dateTime", "0001-01-01T00:00:00", "0001-01-01T00:00:00.0000000"),
        ("dateTime", "2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56.7890000Z"),
        ("dateTime", "2024-02-29T12:34:56", "2024-02-29T12:34:56.0000000"),
        ("guid", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ("base64Binary", b"\x01\xff", "bytes:Af8="),
        ("char", "€", "char:8364"),
        ("ArrayOfInt", [3, 1], "[3,1]"),
        ("ArrayOfString", ["a", "", None], f"[{text('a')},{text('')},null]"),
        (
            "Order",
            {"@No": 7, "Customer": "J & Ö", "Paid": None, "Tag": ["a", "b"], "Total": "12.50"},
            f"7 {text('J & Ö')} null [{text('a')},{text('b')}] 12.50",
        ),
    ],
)
def test_xml_serializer_reads_our_xml(
    reader: Reader, style: str, name: str, value: Any, shown: str
) -> None:
    assert reader("xml", name, xml_body(value, root=name, style=style)) == shown


def test_xml_serializer_reads_our_headers(reader: Reader) -> None:
    headers = {"NServiceBus.MessageId": "1", "Text": 'a <b> & "c" ü', "Empty": "", "None": None}
    shown = ",".join(
        f"{text(key)}={'null' if value is None else text(value)}" for key, value in headers.items()
    )
    assert reader("xml", "headers", nservicebus_headers(headers)) == shown


@pytest.mark.parametrize(
    "name",
    [
        *("nrbf-string", "nrbf-int", "nrbf-long", "nrbf-int-array", "nrbf-list-int"),
        *("nrbf-list-string", "nrbf-string-array", "nrbf-arraylist", "nrbf-nullable-list"),
        "nrbf-dictionary",
    ],
)
def test_binary_formatter_reads_the_values_that_we_read(reader: Reader, name: str) -> None:
    body = (FOLDER / f"{name}.body").read_bytes()
    assert reader("object", "-", body) == shown_as_mono_does(decode(body, body_type=768).value)


def shown_as_mono_does(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        pairs = (f"{text(key)}={shown_as_mono_does(item)}" for key, item in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(shown_as_mono_does, value))}]"
    return str(value)


def test_we_read_objects_that_binary_formatter_writes(reader: Reader) -> None:
    parcel = decode(b64decode(reader("write", "parcel")), body_type=768).value
    following = parcel.pop("Next")
    assert parcel == {
        "$id": 1,
        "$type": "Parcel",
        "Id": 1,
        "Name": "Ä",
        "Price": "12.50",
        "When": "2024-02-29T12:00:00Z",
        "Key": "00112233-4455-6677-8899-aabbccddeeff",
        "Window": "01:30:00",
        "Numbers": [3, 1, 2],
        "Rates": {"a": 0.5},
    }
    assert (following["Id"], following["Rates"], following["Next"]) == (2, {}, {"$ref": 1})
    array = decode(b64decode(reader("write", "array")), body_type=768).value
    assert array == [1, "two", None, "4.5", [1, 2]]
    failed = decode(b64decode(reader("write", "exception")), body_type=768)
    assert failed.exception
    assert failed.exception[:2] == ("System.InvalidOperationException", "failed")
    assert failed.value["InnerException"]["Message"] == "inner"


def envelope_of(body: bytes) -> bytes:
    """What follows the frames of a datagram."""
    return body[body.index(b"\x03", 6 + 1 + body[6]) + 2 :]


def test_service_model_reads_our_text_envelope(reader: Reader) -> None:
    envelope = envelope_of(wcf_text_body(NOTE, "net.msmq://a/b"))
    action, xml = (b64decode(part[1:]).decode() for part in reader("text", "-", envelope).split())
    assert action == "urn:note"
    assert canonicalize(xml) == canonicalize(NOTE)
    assert reader("contract", "-", envelope) == f"7 {text('ü & <b>')}"


@pytest.mark.parametrize("name", ["wcf-datagram", "wcf-servicemodel-binary"])
def test_the_binary_reader_gives_the_xml_that_we_give(reader: Reader, name: str) -> None:
    body = (FOLDER / f"{name}.body").read_bytes()
    answer = reader("binary", "-", envelope_of(body))
    xml = b64decode(answer.split()[1][1:]).decode()
    (ours,) = decode(body).details["envelopes"]
    assert canonicalize(xml, strip_text=True) == canonicalize(ours["xml"], strip_text=True)


def test_we_read_an_envelope_with_a_data_contract(reader: Reader) -> None:
    result = decode(gram(7, b64decode(reader("envelope", "-"))))
    assert (result.error, result.details["action"]) == (None, "urn:note")
    assert result.details["envelopes"][0]["operation"] == "Note"
    assert result.value["Number"] == "7"
    assert result.value["Text"] == "ü & <b>"
