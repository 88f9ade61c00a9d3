"""What the encoders write, the decoders read back; what does not fit is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.formats import FormatError, decode
from posthouse.formats.encode import (
    activex_body,
    encode_body,
    nservicebus_headers,
    rebus_headers,
    wcf_text_body,
    xml_body,
)
from posthouse.formats.encode.xml_text import RANGES
from posthouse.formats.values import bytes_value

CHARACTERS = st.characters(
    blacklist_categories=("Cs",),
    blacklist_characters="".join(map(chr, {*range(32)} - {9, 10, 13})) + "\ufffe\uffff",
)
TEXTS = st.text(CHARACTERS)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True).filter(
    lambda name: not name.startswith("ArrayOf") and name.lower() != "xml"
)
LEAVES = st.one_of(st.none(), TEXTS.filter(lambda text: not text.isspace()))
CLASSES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        st.dictionaries(NAMES, st.lists(LEAVES, min_size=2, max_size=3), min_size=1, max_size=2),
    ),
    max_leaves=6,
)
TYPED = st.one_of(
    [st.tuples(st.just(name), st.integers(low, high)) for name, (low, high) in RANGES.items()]
    + [
        st.tuples(st.just("boolean"), st.booleans()),
        st.tuples(st.just("double"), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just("float"), st.floats(width=32, allow_nan=False, allow_infinity=False)),
        st.tuples(st.just("guid"), st.uuids().map(str)),
        st.tuples(
            st.just("dateTime"),
            st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat()),
        ),
        st.tuples(st.just("base64Binary"), st.binary()),
    ]
)


# Private-use characters of the last plane stand for what XML forbids while headers are read.
ANY_TEXT = st.text(st.characters(blacklist_categories=("Cs", "Co")), max_size=20)


def shown(value: Any) -> Any:
    return bytes_value(value) if isinstance(value, bytes) else value


@given(st.sampled_from(["framework", "modern"]), TEXTS)
def test_strings_of_xml(style: str, text: str) -> None:
    result = decode(xml_body(text, "string", style=style))
    assert (result.format, result.details["root"]) == ("xml", "string")
    assert result.value == ("" if text.isspace() else text)


@given(TYPED)
def test_values_are_read_back(typed: tuple[str, Any]) -> None:
    name, value = typed
    assert decode(xml_body(value, name)).value == shown(value)
    assert decode(xml_body([value, None], root=f"ArrayOf{name.capitalize()}")).error is None
    body, body_type = activex_body(value, name)
    assert decode(body, body_type=body_type).value == shown(value)


@given(
    NAMES,
    st.dictionaries(NAMES, CLASSES, min_size=1, max_size=3),
    st.sampled_from(["", "urn:a&b", "ü"]),
)
def test_classes_of_xml_are_read_back(root: str, value: dict[str, Any], namespace: str) -> None:
    result = decode(xml_body(value, root=f"R{root}", namespace=namespace))
    assert (result.error, result.value) == (None, value)
    assert result.details["root"] == f"R{root}"


@given(st.dictionaries(ANY_TEXT, st.none() | ANY_TEXT, max_size=5))
def test_headers_are_read_back(headers: dict[str, str | None]) -> None:
    bus = {"rbs2-msg-id": "1", **headers}
    result = decode(b"", extension=rebus_headers(bus))
    assert result.meaning
    assert (result.error, result.meaning.headers) == (None, bus)
    result = decode(b"", extension=nservicebus_headers(headers))
    assert result.meaning
    assert (result.error, result.meaning.headers) == (None, lines_of(headers))


def lines_of(headers: dict[str, str | None]) -> dict[str, str | None]:
    """CRLF is LF to NServiceBus."""
    return {
        key.replace("\r\n", "\n"): value and value.replace("\r\n", "\n")
        for key, value in headers.items()
    }


def test_lists_and_attributes() -> None:
    value = {"@No": 7, "#text": "x"}
    assert decode(xml_body(value, root="A")).value == {"@No": "7", "#text": "x"}
    assert decode(xml_body([{"a": "1"}, None], root="ArrayOfOrder")).value == [{"a": "1"}, None]
    assert decode(xml_body([], root="ArrayOfOrder")).value == []
    assert decode(xml_body({"ArrayOfInt": [1]}, root="A")).value == {"ArrayOfInt": [1]}
    assert decode(xml_body({"b": b"\0", "f": 0.5, "t": True}, root="A")).value == {
        "b": "AA==",
        "f": "0.5",
        "t": "true",
    }
    assert decode(xml_body(None)).value is None
    assert b"p1:nil" in xml_body(None, style="modern")


@pytest.mark.parametrize(
    ("formatter", "value", "how"),
    [
        ("xml", "a\x01", {}),
        ("xml", 5, {}),
        ("xml", "5", {"type": "number"}),
        ("xml", {"a b": 1}, {"root": "A"}),
        ("xml", {"a": {"#text": "x", "b": 1}}, {"root": "A"}),
        ("xml", [1], {"root": "A"}),
        ("xml", {"a": [[1]]}, {"root": "A"}),
        ("xml", {1: 2}, {"root": "A"}),
        ("xml", {}, {"root": "1"}),
        ("activex", 70000, {"type": "short"}),
        ("activex", 1, {"type": "VT_STREAMED_OBJECT"}),
        ("activex", "ü", {"type": "VT_LPSTR"}),
        ("activex", "1e30", {"type": "decimal"}),
        ("activex", "999999999999999999", {"type": "decimal"}),
        ("activex", "2020-01-01T00:00:00+01:00", {"type": "dateTime"}),
        ("activex", "x", {"type": "guid"}),
        ("activex", "xy", {"type": "char"}),
        ("activex", "maybe", {"type": "boolean"}),
        ("activex", "x", {"type": "double"}),
        ("activex", "x", {"type": "base64Binary"}),
        ("xml", "x", {"type": "TimeSpan"}),
        ("json", {1, 2}, {}),
        ("json", float("nan"), {}),
        ("text", b"x", {}),
        ("raw", "x", {}),
        ("yaml", "x", {}),
    ],
)
def test_what_does_not_fit_is_refused(formatter: str, value: Any, how: dict[str, str]) -> None:
    with pytest.raises(FormatError):
        encode_body(value, formatter, **how)


def test_depth_of_a_class_is_bounded() -> None:
    value: Any = {}
    for _ in range(300):
        value = {"a": value}
    with pytest.raises(FormatError):
        xml_body(value, root="A")


def test_wcf_refuses_what_the_format_cannot_hold() -> None:
    with pytest.raises(FormatError):
        wcf_text_body("<a/>", "v", 7)
    with pytest.raises(FormatError):
        wcf_text_body("<a/>", "v" * 3000)


def test_rebus_escapes_as_json_net_does() -> None:
    written = rebus_headers({"rbs2-a": "ü\x85\u2028\u2029\n"})
    assert written == '{"rbs2-a":"ü\\u0085\\u2028\\u2029\\n"}'.encode()
    with pytest.raises(FormatError):
        rebus_headers({"rbs2-a": "\ud800"})
    assert json.loads(written)


def test_com_writes_some_values_otherwise() -> None:
    assert activex_body("a", "string", "com") == (b"a\0", 8)
    assert activex_body(True, "boolean", "com") == (b"\xff\xff", 11)
    before = activex_body("1899-12-29T06:00:00", "dateTime", "com")[0]
    assert decode(before, body_type=7).value == "1899-12-29T06:00:00"
    with pytest.raises(FormatError):
        activex_body("a", "string", "vb")


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("byte", -128, 127),
        ("unsignedByte", 0, 255),
        ("short", -32768, 32767),
        ("unsignedShort", 0, 65535),
        ("int", -(2**31), 2**31 - 1),
        ("unsignedInt", 0, 2**32 - 1),
        ("long", -(2**63), 2**63 - 1),
        ("unsignedLong", 0, 2**64 - 1),
    ],
)
def test_integers_have_the_ranges_of_dot_net(name: str, low: int, high: int) -> None:
    for value in (low, high, str(high)):
        assert decode(xml_body(value, name)).value == int(value)
    for value in (low - 1, high + 1, True, 1.0, "1_0"):
        with pytest.raises(FormatError):
            xml_body(value, name)


# -- odd values

LONE = "half \ud800"
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: xml_body("1_000", "double"), "is not a value of the type double"),
    (lambda: xml_body("١.٥", "double"), "is not a value of the type double"),
    (lambda: xml_body(True, "double"), "is not a value of the type double"),
    (lambda: xml_body("1e400", "double"), "not as large"),
    (lambda: xml_body(1e39, "float"), "not as large"),
    (lambda: activex_body("1e39", "float"), "not as large"),
    (lambda: xml_body("2026-13-01T00:00:00", "dateTime"), "is not a value of the type dateTime"),
    (lambda: xml_body("2026-02-29T00:00:00", "dateTime"), "is not a value of the type dateTime"),
    (lambda: xml_body("2026-01-01T24:00:00", "dateTime"), "is not a value of the type dateTime"),
    (lambda: xml_body("0000-01-01T00:00:00", "dateTime"), "is not a value of the type dateTime"),
    (lambda: xml_body("2026-01-01T00:00:00+14:01", "dateTime"), "of the type dateTime"),
    (lambda: xml_body("2026-01-01T00:00:00+01:60", "dateTime"), "of the type dateTime"),
    (lambda: activex_body("2026-01-01T00:00:00.1234567+02:00", "dateTime"), "without an offset"),
    (lambda: activex_body("2026-01-01T00:00:00+02:00", "dateTime"), "without an offset"),
    (lambda: xml_body(str(1 << 96), "decimal"), "is not a value of the type decimal"),
    (lambda: xml_body({"@No": {"a": 1}}, root="A"), "is not text"),
    (lambda: xml_body({"#text": [1]}, root="A"), "is not text"),
    (lambda: xml_body({"Name": object()}, root="A"), "is not text"),
    (lambda: xml_body({"@xmlns": "x"}, root="A", namespace="y"), "not an attribute"),
    (lambda: xml_body(LONE), "U+D800"),
    (lambda: activex_body(LONE), "surrogate"),
    (lambda: encode_body(LONE, "text"), "surrogate"),
    (lambda: wcf_text_body(LONE, "net.msmq://a"), "surrogate"),
    (lambda: wcf_text_body("<a/>", LONE), "surrogate"),
    (lambda: rebus_headers({"a": LONE}), "surrogate"),
    (lambda: nservicebus_headers({LONE: "a"}), "surrogate"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_dotnet_could_not_read_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(FormatError, match=re.escape(said)):
        call()


def test_edges_that_dotnet_reads_are_written() -> None:
    assert b"<double>-0</double>" in xml_body(-0.0, "double")
    assert b"<double>NaN</double>" in xml_body("NaN", "double")
    assert b"<float>INF</float>" in xml_body("INF", "float")
    assert b"3.4028235E+38" in xml_body(3.4028235e38, "float")
    assert b"+14:00" in xml_body("2026-01-01T00:00:00+14:00", "dateTime")
    assert str((1 << 96) - 1).encode() in xml_body(str((1 << 96) - 1), "decimal")
    latest = "9999-12-31T23:59:59.9999999"
    assert decode(*activex_body(latest, "dateTime")[:1], body_type=7).value == latest


def test_an_attribute_without_a_value_is_left_out() -> None:
    body = xml_body({"@No": None, "@Id": 7, "#text": None}, root="A")
    assert decode(body).value == {"@Id": "7"}
