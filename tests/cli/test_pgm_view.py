"""`posthouse decode` on PGM packets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from posthouse.cli import main
from posthouse.cli.decode.pgm import is_pgm
from posthouse.wire.pgm.options import NO_OPTIONS, Fragment, Reset
from posthouse.wire.pgm.packets import NAK, ODATA, RDATA, Tsi, pack_data, pack_nak, pack_spm

TSI, PORT = Tsi(b"\1\2\3\4\5\6", 7), 8001
SOURCE, GROUP = "10.0.0.1", "234.1.1.1"
RESET = NO_OPTIONS._replace(reset=Reset(True, 3), fin=True, join=4)
FRAGMENT = NO_OPTIONS._replace(fragment=Fragment(8, 100, 200))
PACKETS = [
    pack_spm(TSI, PORT, sequence=1, trailing=5, leading=9, path=SOURCE, options=RESET),
    pack_data(ODATA, TSI, PORT, sequence=9, trailing=5, data=b"hello", options=FRAGMENT),
    pack_data(RDATA, TSI, PORT, sequence=9, trailing=5, data=b"hello"),
    pack_nak(NAK, TSI, PORT, sequences=(6, 7, 8), source=SOURCE, group=GROUP),
]


def decoded(capsys: pytest.CaptureFixture[str], file: Path) -> list[dict[str, Any]]:
    assert main.run(["decode", "--json", str(file)]) == main.DONE
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_packets_are_told_field_by_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "packets"
    file.write_bytes(b"".join(PACKETS))
    spm, odata, rdata, nak = decoded(capsys, file)
    assert [view["kind"] for view in (spm, odata, rdata, nak)] == ["SPM", "ODATA", "RDATA", "NAK"]
    fields = {header["name"]: header["fields"] for header in spm["headers"]}
    assert fields["PGM Header"]["session"] == "010203040506:7"
    assert fields["Source Path Message"]["path"] == SOURCE
    assert fields["Options"] == {
        "OPT_JOIN": 4,
        "OPT_FIN": True,
        "OPT_RST": {"no_naks": True, "error": 3},
    }
    fields = {header["name"]: header["fields"] for header in odata["headers"]}
    assert fields["Options"]["OPT_FRAGMENT"] == {"first_sequence": 8, "offset": 100, "length": 200}
    fields = {header["name"]: header["fields"] for header in nak["headers"]}
    assert fields["NAK"]["group"] == GROUP
    assert fields["Options"] == {"OPT_NAK_LIST": [7, 8]}
    assert rdata["offset"] == len(PACKETS[0]) + len(PACKETS[1])


def test_they_are_told_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "packets"
    file.write_text("".join(packet.hex() for packet in PACKETS), encoding="ascii")
    assert main.run(["decode", str(file)]) == main.DONE
    shown = capsys.readouterr().out
    assert "NAK [RFC 3208 8.3]" in shown
    assert "5 bytes 68 65 6c 6c 6f" in shown


def test_a_damaged_packet_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "packets"
    file.write_bytes(PACKETS[0] + PACKETS[1][:-1] + b"?")
    assert main.run(["decode", str(file)]) == 1
    assert "checksum" in capsys.readouterr().err


def test_other_packets_are_not_taken_for_pgm() -> None:
    assert all(is_pgm(packet[:16]) for packet in PACKETS)
    assert not is_pgm(PACKETS[0][:15])
    assert not is_pgm(b"\x10\0\0\0LIOR" + bytes(8))
    assert not is_pgm(b"POST /msmq/private$/q")
