"""The short way of reading NServiceBus headers gives what the parser of XML gives, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.formats import DEFAULT
from posthouse.formats.encode import nservicebus_headers
from posthouse.formats.headers import nservicebus
from posthouse.formats.headers.nservicebus_fast import plain_headers
from posthouse.formats.limits import FormatError
from tests.support.format_vectors import FOLDER, MANIFEST

EXTENSIONS = {
    vector["name"]: (FOLDER / vector["extension"]).read_bytes()
    for vector in MANIFEST
    if vector["extension"] and vector["expect"]["format"] == "nservicebus"
}
START = b"<ArrayOfHeaderInfo>"
END = b"</ArrayOfHeaderInfo>"
ENTRY = b"<HeaderInfo><Key>a</Key><Value>b</Value></HeaderInfo>"


def read(extension: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the parser of XML gives."""
    with monkeypatch.context() as patch:
        patch.setattr(nservicebus, "plain_headers", lambda *_: None)
        try:
            return nservicebus.read_headers(extension, DEFAULT)
        except FormatError as error:
            return str(error)


def check(extension: bytes, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the short way was taken; it gave the same."""
    data = extension.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\0")
    found = plain_headers(data, DEFAULT)
    if found is not None:
        assert (found, None) == read(extension, monkeypatch)
        assert list(found) == list(read(extension, monkeypatch)[0])
    return found is not None


def test_headers_of_dotnet_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for illegal characters, values that are null, garbage after the end, and no extension."""
    taken = {name for name, data in EXTENSIONS.items() if check(data, monkeypatch)}
    assert {"nsb-error", "nsb-send-json", "nsb-publish-xml", "nsb-v4-indented"} <= taken
    assert not taken & {"nsb-illegal-character", "nsb-null-value", "nsb-v3-nul-tail"}


ODD = [
    START + ENTRY + ENTRY + END,  # twice
    START + ENTRY + END + b"garbage",
    START + ENTRY,
    START + ENTRY + END + END,
    START + b"text" + ENTRY + END,
    START + ENTRY.replace(b"b", b"&#0;") + END,
    START + ENTRY.replace(b"b", b"&unknown;") + END,
    START + ENTRY.replace(b"b", b"&") + END,
    START + ENTRY.replace(b"b", b"]]>") + END,
    START + ENTRY.replace(b"b", b"\x01") + END,
    START + ENTRY.replace(b"b", b"\xff") + END,
    START + ENTRY.replace(b"b", b"\xef\xbf\xbe") + END,
    START + ENTRY.replace(b"b", b"a\rb") + END,
    START + ENTRY.replace(b"b", b"<![CDATA[b]]>") + END,
    START + ENTRY.replace(b"<Value>b</Value>", b"") + END,
    START + ENTRY.replace(b"<Key>a</Key>", b"<Key></Key>") + END,
    START + ENTRY.replace(b"<Key>a</Key>", b"") + END,
    START + b"<HeaderInfo><Value>b</Value><Key>a</Key></HeaderInfo>" + END,
    START.replace(b">", b' xmlns="urn:a">') + ENTRY + END,
    START.replace(b">", b' xmlns:xsi="a" xmlns:xsi="b">') + ENTRY + END,
    b"<?xml version='1.0'?>" + START + ENTRY + END,
    b'<?xml version="1.0"?><!DOCTYPE a>' + START + ENTRY + END,
    b"",
    START,
]


@pytest.mark.parametrize("extension", ODD, ids=range(len(ODD)))
def test_what_is_odd_is_left_to_the_parser(extension: bytes) -> None:
    assert plain_headers(extension, DEFAULT) is None


USUAL = [
    (START + END, {}),
    (START + ENTRY + END, {"a": "b"}),
    (START + ENTRY.replace(b"<Value>b</Value>", b"<Value />") + END, {"a": ""}),
    (START + ENTRY.replace(b"b<", b" \r\n <") + END, {"a": " \n "}),
    (START + b"\r\n  " + ENTRY + b"\r\n" + END + b"\r\n", {"a": "b"}),
    (START + ENTRY.replace(b"b<", b"x &lt;&amp;lt; 'y'&gt;<") + END, {"a": "x <&lt; 'y'>"}),
    (
        nservicebus_headers({"é": "€", "x": "", "at": "f(&lt;T>)"}),
        {"é": "€", "x": "", "at": "f(&lt;T>)"},
    ),
]


@pytest.mark.parametrize(("extension", "headers"), USUAL, ids=range(len(USUAL)))
def test_what_is_usual_goes_the_short_way(
    extension: bytes, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plain_headers(extension, DEFAULT) == headers
    assert check(extension, monkeypatch)


WORDS = (
    *(START, END, ENTRY, ENTRY.replace(b"a", b"k2"), b"<HeaderInfo>", b"</HeaderInfo>", b"<Key>"),
    *(b"</Key>", b"<Value>", b"</Value>", b"<Value />", b"<!-- -->", b"<", b"/>", b"]]>", b"a"),
    *(b"&lt;", b"&#1;", b"\r\n", b"\r", b" ", b"\0", b"\xc3\xa9", b"\xff"),
)
PIECES = st.lists(st.sampled_from(WORDS), max_size=9)


@given(PIECES, st.booleans())
def test_both_ways_agree(pieces: list[bytes], whole: bool) -> None:
    inner = b"".join(pieces)
    extension = START + ENTRY.replace(b"b", inner) + END if whole else START + inner + END
    with pytest.MonkeyPatch.context() as patch:
        check(extension, patch)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=20) | st.none(), max_size=5))
def test_what_we_write_is_read_alike(headers: dict[str, str | None]) -> None:
    try:
        extension = nservicebus_headers(headers)
    except FormatError:
        return
    with pytest.MonkeyPatch.context() as patch:
        check(extension, patch)
