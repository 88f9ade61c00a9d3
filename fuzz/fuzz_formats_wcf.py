"""Fuzz target: any frames of netMsmqBinding give XML that parses, or an error.

Alone, guided by coverage: `python -m fuzz.guided formats_wcf -max_total_time=600`.
"""

import json
import random
from pathlib import Path
from xml.etree.ElementTree import canonicalize

from posthouse.formats import decode
from tools.fuzz import mutate as tools_mutate

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formats"
RUNS = 2000
FRONT = b"\0\x01\0\x01\x04\x02\x01a\x03\x07"


def fuzz_one(data: bytes) -> bool:
    """Whether the bytes are frames with envelopes."""
    result = decode(data if data.startswith(FRONT[:4]) else FRONT + data)
    found = result.to_json()
    json.dumps(found, allow_nan=False).encode()
    for envelope in found.get("envelopes", ()):
        canonicalize(envelope["xml"], with_comments=True)
    return result.format == "wcf" and result.error is None


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A damaged message; half of the time only letters change, so that the frames still fit."""
    if chance.random() < 0.5:
        return tools_mutate(seed, chance)
    data = bytearray(seed)
    letters = [at for at, byte in enumerate(data) if 0x61 <= byte <= 0x7A]
    for at in chance.sample(letters, min(len(letters), chance.choice((1, 2, 4)))):
        data[at] = chance.choice(b"abcxyzABC 019-\xc3")
    return bytes(data)


RECORDS = json.loads((VECTORS / "nbfx-records.json").read_text("utf-8"))
SEEDS = [file.read_bytes() for file in sorted(VECTORS.glob("wcf-*.body"))]
SEEDS += [bytes.fromhex(record["hex"]) for record in RECORDS]
