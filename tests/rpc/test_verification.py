"""Verification trailers: found at the end alone, and only where they are ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.rpc.syntax import NDR, NDR64, SyntaxId
from posthouse.rpc.verification import (
    BITMASK_1,
    END,
    HEADER_2,
    MAGIC,
    MUST_PROCESS,
    PCONTEXT,
    Said,
    commands_at,
    cut_off,
)

SAID = Said(9, 1, 7, SyntaxId(b"i" * 16, 1, 2), NDR)


def command(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", kind, len(value)) + value


def test_trailer_as_windows_writes_it_is_cut_off() -> None:
    bits = command(BITMASK_1, struct.pack("<I", 1))
    header = command(HEADER_2, struct.pack("<B3xIIHH", 0, 16, 9, 1, 7))
    syntaxes = b"i" * 16 + struct.pack("<HH", 1, 2) + NDR.uuid + struct.pack("<HH", 2, 0)
    trailer = MAGIC + bits + header + command(PCONTEXT | END, syntaxes)
    assert cut_off(b"stub" + trailer, SAID, is_header_signed=True) == b"stub"
    assert cut_off(trailer, SAID, is_header_signed=True) == b""


def test_client_that_could_sign_headers_and_does_not_was_deceived() -> None:
    could = MAGIC + command(BITMASK_1 | END, struct.pack("<I", 1))
    could_not = MAGIC + command(BITMASK_1 | END, struct.pack("<I", 0))
    assert cut_off(could, SAID) is None
    assert cut_off(could, SAID, is_header_signed=True) == b""
    assert cut_off(could_not, SAID) == b""


@pytest.mark.parametrize(
    "said",
    [
        SAID._replace(call_id=8),
        SAID._replace(context_id=0),
        SAID._replace(opnum=8),
    ],
)
def test_each_field_of_the_header_counts(said: Said) -> None:
    header = command(HEADER_2 | END, struct.pack("<B3xIIHH", 0, 16, 9, 1, 7))
    assert cut_off(MAGIC + header, SAID) == b""
    assert cut_off(MAGIC + header, said) is None


def test_transfer_syntax_counts() -> None:
    syntaxes = b"i" * 16 + struct.pack("<HH", 1, 2) + NDR.uuid + struct.pack("<HH", 2, 0)
    context = MAGIC + command(PCONTEXT | END, syntaxes)
    assert cut_off(context, SAID) == b""
    assert cut_off(context, SAID._replace(transfer=NDR64)) is None


@pytest.mark.parametrize("value", [b"", b"123", struct.pack("<B3xIIHH", 0, 16, 9, 1, 7) + b"x"])
def test_values_of_a_wrong_size_are_refused(value: bytes) -> None:
    for kind in (BITMASK_1, PCONTEXT, HEADER_2):
        assert cut_off(MAGIC + command(kind | END, value), SAID) is None


def test_unknown_commands_are_passed_over_unless_they_have_to_be_understood() -> None:
    assert cut_off(b"stub" + MAGIC + command(99 | END, b"new"), SAID) == b"stub"
    assert cut_off(b"stub" + MAGIC + command(99 | END | MUST_PROCESS, b"new"), SAID) is None


@pytest.mark.parametrize(
    "stub",
    [
        b"",
        b"stub",
        b"stub" + MAGIC,
        b"stub" + MAGIC + b"abc",
        MAGIC + command(BITMASK_1, bytes(4)),
        MAGIC + command(BITMASK_1 | END, bytes(4)) + b"more of the stub",
        MAGIC + command(BITMASK_1 | END, bytes(4))[:-1],
        MAGIC + command(BITMASK_1 | END, bytes(4)) + bytes(2000),
    ],
)
def test_what_only_looks_like_a_trailer_belongs_to_the_stub(stub: bytes) -> None:
    assert cut_off(stub, SAID) == stub


@given(st.binary(max_size=60), st.binary(max_size=80))
def test_any_bytes_are_a_trailer_or_part_of_the_stub(stub: bytes, tail: bytes) -> None:
    data = stub + MAGIC + tail
    found = cut_off(data, SAID)
    if commands_at(data, len(stub) + len(MAGIC)) is None and MAGIC not in stub + MAGIC[:-1]:
        assert found in (data, None)
    assert found is None or data.startswith(found)
