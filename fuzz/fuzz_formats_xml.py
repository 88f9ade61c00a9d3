"""Fuzz target: any bytes without a type give a result: XML, JSON, text or bytes.

Alone, guided by coverage: `python -m fuzz.guided formats_xml -max_total_time=600`.
"""

import json
import random
from pathlib import Path

from posthouse.formats import decode

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formats"
RUNS = 2000
TOKENS = (
    *(b"<", b">", b"</", b"/>", b"&", b"&amp;", b"&#13;", b"]]>", b"<!--", b"-->", b"<![CDATA["),
    *(
        b"<!DOCTYPE a>",
        b"<?xml version='1.0' encoding='utf-16'?>",
        b"xsi:nil='true'",
        b"\r\n",
        b"\0",
    ),
    *(b"ArrayOfInt", b"string", b"anyType", b"xsi:type='xsd:int'", b'{"a":', b"[", b"]", b"}"),
    *(b"\\ud800", b"1e999", b"NaN", b"\xff\xfe", b"\xef\xbb\xbf", b"&lt;string&gt;"),
)


def fuzz_one(data: bytes) -> bool:
    """Whether the bytes hold what they claim."""
    result = decode(data)
    json.dumps(result.to_json(), allow_nan=False).encode()
    return result.error is None and result.format in ("xml", "json", "text")


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A damaged document."""
    text = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at = chance.randrange(len(text) + 1)
        what = chance.choice((b"", chance.choice(TOKENS), bytes([chance.randrange(256)])))
        text[at : at + chance.choice((0, 0, 1, 1, 4, 20))] = what
    return bytes(text)


SEEDS = [
    file.read_bytes()
    for pattern in ("xml-*.body", "json-*.body", "text-*.body")
    for file in sorted(VECTORS.glob(pattern))
]
