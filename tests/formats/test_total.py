"""Any bytes under any properties give a result that JSON can carry, and nothing raises."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from posthouse.formats import Limits, decode
from tests.support.format_vectors import MANIFEST, read

TYPES = st.sampled_from(
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17, 18, 19, 20, 21, 30, 31, 68, 69, 72, 768, 4113, 8209, 99)
)
SMALL = Limits(
    text=2000, depth=8, elements=50, items=100, attributes=10, lines=20, members=10, shown=100
)
STARTS = st.sampled_from(
    [
        *(b"", b"<", b"<?xml ", b"{", b"[", b"\xff\xfe", b"\xef\xbb\xbf", b'{"rbs2-a":"'),
        *(b"\0\x01\0\x01\x04\x02", b"<ArrayOfHeaderInfo"),
        b"\0\x01\0\0\0\xff\xff\xff\xff\x01\0\0\0\0\0\0\0",
    ]
)


def carried(**how: Any) -> dict[str, Any]:
    found = decode(how.pop("body"), **how).to_json()
    json.dumps(found, allow_nan=False).encode()
    return found


@given(STARTS, st.binary(max_size=200), STARTS, st.binary(max_size=100), st.text(), TYPES)
def test_any_bytes_give_a_result(
    start: bytes, body: bytes, head: bytes, extension: bytes, label: str, body_type: int
) -> None:
    for limits in (Limits(), SMALL):
        carried(
            body=start + body,
            extension=head + extension,
            label=label,
            body_type=body_type,
            limits=limits,
        )


@given(st.integers(0, 2**32))
def test_damaged_vectors_give_a_result(seed: int) -> None:
    chance = random.Random(seed)
    vector = chance.choice(MANIFEST)
    parts = [bytearray(read(vector[name])) for name in ("body", "extension")]
    for _ in range(chance.randrange(1, 5)):
        part = chance.choice(parts)
        at = chance.randrange(len(part) + 1)
        part[at : at + chance.choice((0, 1, 4))] = chance.randbytes(chance.choice((0, 1, 4)))
    for limits in (Limits(), SMALL):
        carried(
            body=bytes(parts[0]),
            extension=bytes(parts[1]),
            body_type=vector["body_type"],
            limits=limits,
        )


def test_every_prefix_of_a_vector_gives_a_result() -> None:
    for vector in MANIFEST:
        body = read(vector["body"])
        for end in range(0, len(body), max(1, len(body) // 40)):
            carried(body=body[:end], body_type=vector["body_type"])
