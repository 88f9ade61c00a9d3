"""`posthouse decode` on the vectors of the wire tests, and on anything else."""

from __future__ import annotations

import contextlib
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posthouse.cli import main
from posthouse.cli.decode import command as decode
from posthouse.cli.decode.srmp import is_srmp
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    Origin,
    final_ack,
    order_ack,
    order_queue_at,
    order_queue_of,
)

VECTORS = Path(__file__).parent.parent / "vectors"
FRAMES = sorted((VECTORS / "ms-mqqb").glob("4.1.*.hex"))
MESSAGES = sorted((VECTORS / "ms-mqmq").glob("2.2.*.hex"))
TRANSACTIONAL = VECTORS / "ms-mqmq" / "2.2.20.5-transactional-message.hex"
SAMPLE = decode.read_input(TRANSACTIONAL)
FRAME_BYTES = {file.name[:5]: decode.read_input(file) for file in FRAMES}
ORIGIN = Origin(b"\x11" * 16, 7, 1_600_000_000)
ACKS = [
    order_ack(OrderAck.of(0x5F000000_00000002, 9), order_queue_at("10.0.0.1"), ORIGIN),
    final_ack(FinalAck(5, 9, 8, b"\x22" * 16, 77), 0x8004, order_queue_of(b"\x22" * 16), ORIGIN),
]
KINDS = {
    "4.1.1": ("Ping", "MS-MQQB 2.2.7", ["MS-MQQB 2.2.7"]),
    "4.1.2": ("Ping", "MS-MQQB 2.2.7", ["MS-MQQB 2.2.7"]),
    "4.1.3": ("EstablishConnection", "MS-MQQB 2.2.3", ["MS-MQQB 2.2.1", "MS-MQQB 2.2.3.1"]),
    "4.1.4": ("EstablishConnection", "MS-MQQB 2.2.3", ["MS-MQQB 2.2.1", "MS-MQQB 2.2.3.1"]),
    "4.1.5": ("ConnectionParameters", "MS-MQQB 2.2.2", ["MS-MQQB 2.2.1", "MS-MQQB 2.2.2.1"]),
    "4.1.6": ("ConnectionParameters", "MS-MQQB 2.2.2", ["MS-MQQB 2.2.1", "MS-MQQB 2.2.2.1"]),
    "4.1.7": ("UserMessage", "MS-MQMQ 2.2.20", ["MS-MQMQ 2.2.19.2", "MS-MQMQ 2.2.19.3"]),
    "4.1.8": ("SessionAck", "MS-MQQB 2.2.6", ["MS-MQQB 2.2.1", "MS-MQMQ 2.2.20.4"]),
}


def decoded(capsys: pytest.CaptureFixture[str], file: Path) -> list[dict[str, Any]]:
    assert main.run(["decode", "--json", str(file)]) == main.DONE
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("file", FRAMES, ids=lambda file: file.stem)
def test_every_frame_of_the_document_is_told_with_its_sections(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, section, sections = KINDS[file.name[:5]]
    (packet,) = decoded(capsys, file)
    assert (packet["kind"], packet["section"]) == (kind, section)
    found = [part["section"] for part in packet["headers"]]
    assert set(sections) <= set(found)
    assert main.run(["decode", str(file)]) == main.DONE
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{kind} at offset 0, {packet['size']} bytes [{section}]"
    assert [
        line.split("[")[1][:-1] for line in said[1:] if line.startswith("  ") and line[2] != " "
    ] == found


def test_the_whole_example_of_the_document_is_told_as_one_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "session.bin"
    file.write_bytes(b"".join(FRAME_BYTES.values()))
    packets = decoded(capsys, file)
    assert [packet["kind"] for packet in packets] == [kind for kind, *_ in KINDS.values()]
    assert [packet["size"] for packet in packets] == [len(raw) for raw in FRAME_BYTES.values()]
    sizes = [len(raw) for raw in FRAME_BYTES.values()]
    assert [packet["offset"] for packet in packets] == [sum(sizes[:n]) for n in range(8)]


def test_transactional_acknowledgments_are_told_with_their_bodies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acks.bin"
    file.write_bytes(b"".join(ACKS))
    order, final = decoded(capsys, file)
    assert (order["kind"], final["kind"]) == ("OrderAck", "FinalAck")
    *_, body = order["headers"]
    assert body["section"] == "MS-MQQB 2.2.4.1"
    assert body["fields"]["sequence_number"] == 9
    *_, body = final["headers"]
    assert body["section"] == "MS-MQQB 2.2.5.1"
    assert body["fields"] == {
        "sequence_id": 5,
        "sequence_number": 9,
        "previous_sequence_number": 8,
        "source_queue_manager": "22222222-2222-2222-2222-222222222222",
        "message_id": 77,
    }


def test_a_session_header_behind_its_packet_is_taken_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = FRAME_BYTES["4.1.8"][20:]
    file = tmp_path / "piggy.bin"
    file.write_bytes(SAMPLE[:2] + bytes([SAMPLE[2] | 0x10]) + SAMPLE[3:] + session + SAMPLE)
    first, second = decoded(capsys, file)
    assert first["size"] == second["offset"] == len(SAMPLE) + 16
    assert first["headers"][-1]["name"] == "SessionHeader"


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not a message queuing packet"),
        (FRAME_BYTES["4.1.3"][:15], "15 bytes are left"),
        (FRAME_BYTES["4.1.3"][:571], "only 571 are left"),
        (FRAME_BYTES["4.1.1"][:23], "ping packet of 23 bytes"),
        (FRAME_BYTES["4.1.8"][:18] + b"\x07" + FRAME_BYTES["4.1.8"][19:], "of type 7"),
        (b"\x10\0\x03\0LIOR\xff\xff\xff\x7f" + bytes(4), "packet of 2147483647 bytes"),
    ],
)
def test_damage_is_refused_with_its_offset_behind_what_was_good(
    bad: bytes, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.bin"
    file.write_bytes(FRAME_BYTES["4.1.5"] + bad)
    assert main.run(["decode", str(file)]) == main.REFUSED
    said = capsys.readouterr()
    assert said.out.startswith("ConnectionParameters at offset 0, 32 bytes")
    assert "packet at offset 32: " in said.err
    assert cause in said.err
    assert len(said.err.splitlines()) == 1


def test_an_empty_input_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.bin"
    file.write_bytes(b"")
    assert main.run(["decode", str(file)]) == main.REFUSED


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
    headers = {part["name"]: part["fields"] for part in packet["headers"]}
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
        (b"", "extension", "0 bytes"),
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
        for found in decode.split(data)
        for part in found.view.headers
        for name, value in part.fields.items()
    ]


def looks_like_nothing(data: bytes) -> bool:
    """Neither a packet, which has its signature, nor HTTP."""
    return data[2:4] != b"HU" and not is_srmp(data)


@given(st.binary(max_size=200).filter(looks_like_nothing))
def test_any_bytes_are_printed_or_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        texts(data)


@example(b"HTTP/1.", b"\r\n\r\n")
@given(
    st.sampled_from([b"HTTP/1.", b"HTTP/1.1 200 OK\r\n", b"POST / HTTP/1.1\r\n", b"<se:Envelope"]),
    st.binary(max_size=100),
)
def test_any_bytes_behind_http_are_printed_or_refused(front: bytes, data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert texts(front + data)


@given(
    st.sampled_from([SAMPLE, *FRAME_BYTES.values(), *ACKS]),
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), max_size=4),
    st.sampled_from([b"", *FRAME_BYTES.values()]),
)
def test_damaged_packets_are_printed_or_refused(
    packet: bytes, damage: list[tuple[int, int]], behind: bytes
) -> None:
    data = bytearray(packet)
    for at, value in damage:
        data[at % len(data)] = value
    with suppress(RemoteProtocolError):
        assert texts(bytes(data) + behind)
