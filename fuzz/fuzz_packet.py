"""Fuzz target: any bytes are a UserMessage packet or refused, and nothing else happens.

With atheris installed: `python fuzz/fuzz_packet.py CORPUS_FOLDER -max_total_time=60`.
Without it: `python fuzz/fuzz_packet.py --seconds 10` changes the packets of tests/vectors at random
and prints how many it tried and what it found; the seed makes a run repeatable.
"""

import argparse
import importlib
import random
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.message import deserialize, serialize
from posthouse.wire.packet import Packet, drop_session_header, glance, patch, stamp

VECTORS = Path(__file__).parent.parent / "tests" / "vectors"
PACKET_SIZE_AT = 8
INTERESTING = (0, 1, 2, 3, 4, 7, 15, 16, 0x7F, 0x80, 0xFA, 0xFB, 0xFF, 0xFFFF, 0x400000, 0xFFFFFFFF)


def target(data: bytes) -> bool:
    """Reads, rewrites and patches one packet; true if it was accepted.

    An accepted packet must stay stable: what we write after reading it reads and writes the same.
    """
    try:
        packet = Packet(data)
        packet.check()
    except RemoteProtocolError:
        return False
    seen = packet.glance
    assert glance(memoryview(data)) == seen
    assert seen.body_at + seen.body_size <= seen.packet_size <= len(data)
    assert patch(data, seen=seen) == data
    stamped = glance(stamp(data, source_guid=bytes(16), ordinal=1, sent_time=2, seen=seen))
    assert stamped.body_at == seen.body_at
    assert Packet(drop_session_header(data)).session is None
    written = serialize(deserialize(data))
    assert serialize(deserialize(written)) == written
    return True


def seeds() -> list[bytes]:
    """The packets of tests/vectors."""
    found = []
    for path in sorted(VECTORS.glob("*/*.hex")):
        lines = path.read_text("ascii").splitlines()
        found.append(bytes.fromhex(" ".join(line for line in lines if not line.startswith("#"))))
    return found


def mutations(corpus: list[bytes], chance: random.Random) -> Iterator[bytes]:
    """An endless stream of damaged packets; most keep a PacketSize that fits."""
    changes: list[Callable[[bytearray, random.Random], None]] = [
        _change_byte,
        _change_number,
        _flip_flag,
        _cut,
        _insert,
    ]
    while True:
        packet = bytearray(chance.choice(corpus))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            chance.choice(changes)(packet, chance)
        if chance.random() < 0.1:
            packet += chance.choice(corpus)[-chance.randrange(1, 120) :]
        if chance.random() < 0.9 and len(packet) >= PACKET_SIZE_AT + 4:
            behind = chance.choice((0, 0, 0, 16))
            struct.pack_into("<I", packet, PACKET_SIZE_AT, max(len(packet) - behind, 0))
        yield bytes(packet)


def _near_front(packet: bytearray, chance: random.Random) -> int:
    """A place in the packet, more often among its headers than in a long body."""
    return chance.randrange(min(len(packet), chance.choice((64, 200, 1 << 30))))


def _change_byte(packet: bytearray, chance: random.Random) -> None:
    packet[_near_front(packet, chance)] = chance.randrange(256)


def _change_number(packet: bytearray, chance: random.Random) -> None:
    layout = chance.choice(("<H", "<I"))
    size = struct.calcsize(layout)
    at = _near_front(packet, chance) // 2 * 2
    if at + size <= len(packet):
        number = chance.choice((*INTERESTING, len(packet), len(packet) - at))
        struct.pack_into(layout, packet, at, number & ((1 << 8 * size) - 1))


def _flip_flag(packet: bytearray, chance: random.Random) -> None:
    at = chance.choice((2, 3, 60, 61, 62, 63, 68, 72, 92))
    if at < len(packet):
        packet[at] ^= 1 << chance.randrange(8)


def _cut(packet: bytearray, chance: random.Random) -> None:
    start = _near_front(packet, chance)
    del packet[start : start + chance.choice((1, 2, 4, 16, 1 << 30))]
    packet += bytes(max(0, 16 - len(packet)))


def _insert(packet: bytearray, chance: random.Random) -> None:
    at = _near_front(packet, chance)
    packet[at:at] = chance.randbytes(chance.choice((1, 2, 4, 16, 20)))


def run(seconds: float, runs: int, seed: int) -> int:
    """Tries mutations until time or count is used up; returns how many findings there were."""
    deadline = time.monotonic() + seconds
    tried = accepted = 0
    findings: dict[str, bytes] = {}
    for data in mutations(seeds(), random.Random(seed)):
        if tried >= runs or time.monotonic() > deadline:
            break
        tried += 1
        try:
            accepted += target(data)
        except Exception:
            findings.setdefault(traceback.format_exc(limit=-3), data)
    print(f"{tried} executions, {accepted} accepted, {len(findings)} findings, seed {seed}")
    for trace, data in findings.items():
        print(f"\n{trace}{data.hex()}")
    return len(findings)


def main(arguments: list[str]) -> int:
    """Runs atheris if it is installed and no limit of our own loop is given, else the loop."""
    parser = argparse.ArgumentParser(description="Fuzz the reading and writing of message packets.")
    parser.add_argument("--seconds", type=float, help="run our own mutation loop this long")
    parser.add_argument("--runs", type=int, help="run our own mutation loop this often")
    parser.add_argument("--seed", type=int, help="repeat the mutations of an earlier run")
    options, rest = parser.parse_known_args(arguments)
    if options.seconds is None and options.runs is None:
        try:
            atheris = importlib.import_module("atheris")
        except ImportError:
            options.seconds = 10.0
        else:
            atheris.instrument_all()
            atheris.Setup([sys.argv[0], *rest], target)
            atheris.Fuzz()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    return min(run(options.seconds or 1e9, options.runs or 1 << 62, seed), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
