"""`posthouse decode` on the vectors of the wire tests, and on anything else."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli import decode, main
from posthouse.model.errors import RemoteProtocolError

VECTORS = Path(__file__).parent.parent / "vectors"
MESSAGES = sorted((VECTORS / "ms-mqmq").glob("2.2.*.hex"))
TRANSACTIONAL = VECTORS / "ms-mqmq" / "2.2.20.5-transactional-message.hex"
SAMPLE = decode.read_input(TRANSACTIONAL)


def decoded(capsys: pytest.CaptureFixture[str], file: Path) -> list[dict[str, object]]:
    assert main.run(["decode", "--json", str(file)]) == main.DONE
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("file", MESSAGES, ids=lambda file: file.stem)
def test_every_vector_is_printed_with_its_sections(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["decode", str(file)]) == main.DONE
    said = capsys.readouterr().out
    assert "BaseHeader [MS-MQMQ 2.2.19.1]" in said
    assert f"[MS-MQMQ {file.name.partition('-')[0]}]" in said


def test_fields_are_told_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    (packet,) = decoded(capsys, TRANSACTIONAL)
    headers = {part["name"]: part["fields"] for part in packet["headers"]}  # type: ignore[attr-defined]
    assert headers["TransactionHeader"]["sequence_number"] == 8
    assert headers["TransactionHeader"]["flags"]["last"] == 1
    assert headers["UserHeader"]["sent_time"] == "2020-09-13T16:59:44+00:00"
    assert headers["UserHeader"]["time_to_be_received"] == "infinite"
    assert headers["MessagePropertiesHeader"]["body"] == "ZGF0YQ=="


def test_packets_one_behind_the_other_are_all_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.bin"
    file.write_bytes(SAMPLE * 2)
    assert [packet["offset"] for packet in decoded(capsys, file)] == [0, len(SAMPLE)]


def test_bytes_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SAMPLE)))
    assert main.run(["decode", "-"]) == main.DONE
    assert "TransactionHeader [MS-MQMQ 2.2.20.5]" in capsys.readouterr().out


def test_a_bad_packet_is_refused_with_its_offset_behind_the_good_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.bin"
    file.write_bytes(SAMPLE + SAMPLE[:-1])
    assert main.run(["decode", str(file)]) == main.REFUSED
    said = capsys.readouterr()
    assert "UserMessage at offset 0" in said.out
    assert f"packet at offset {len(SAMPLE)}:" in said.err


def test_a_missing_file_is_wrong_usage(tmp_path: Path) -> None:
    assert main.run(["decode", str(tmp_path / "none.bin")]) == main.WRONG_USAGE
    assert main.run(["decode", str(tmp_path)]) == main.WRONG_USAGE


def test_half_a_hex_digit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "odd.hex"
    file.write_text("10 0")
    with pytest.raises(RemoteProtocolError, match="odd number"):
        decode.read_input(file)


def test_input_of_exactly_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "INPUT_SIZE_MAX", 4)
    file = tmp_path / "large.bin"
    file.write_bytes(b"\x10four"[:4])
    assert decode.read_input(file) == b"\x10fou"
    file.write_bytes(b"\x10four")
    with pytest.raises(RemoteProtocolError, match="more than 4 bytes"):
        decode.read_input(file)


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (7, "message_id", "7"),
        (0x8004, "hash_algorithm", "0x8004"),
        (None, "response", "none"),
        ("", "label", "none"),
        (b"\x01\x02", "body", "2 bytes 01 02"),
        (bytes(32), "body", "32 bytes" + 32 * " 00"),
        (bytes(33), "body", "33 bytes" + 32 * " 00" + "..."),
        ({"first": 1, "last": 0}, "flags", "first 1"),
        ({"first": 0}, "flags", "none"),
        (["a", "b"], "destination", "a, b"),
        ([], "destination", "none"),
    ],
)
def test_values_in_words(value: object, name: str, text: str) -> None:
    assert decode.words(value, name) == text


def texts(data: bytes) -> list[str]:
    """What a person would read of these bytes, as far as they are packets."""
    return [
        decode.words(value, name)
        for _, packet in decode.split(data)
        for part in decode.headers(packet)
        for name, value in part.fields.items()
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_printed_or_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        texts(data)


@given(st.lists(st.tuples(st.integers(12, len(SAMPLE) - 1), st.integers(0, 255)), max_size=4))
def test_damaged_packets_are_printed_or_refused(damage: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLE)
    for at, value in damage:
        data[at] = value
    with suppress(RemoteProtocolError):
        assert texts(bytes(data))
