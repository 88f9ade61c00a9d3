"""Fuzz target: any bytes of body type 768 give a value or an error, within the limits.

Alone, guided by coverage: `python -m fuzz.guided formats_nrbf -max_total_time=600`.
"""

import json
from pathlib import Path

from posthouse.formats import decode

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formats"
RUNS = 2000


def fuzz_one(data: bytes) -> bool:
    """Whether the bytes are an NRBF stream."""
    result = decode(data, body_type=768)
    found = result.to_json()
    json.dumps(found, allow_nan=False).encode()
    if result.error is None:
        assert found["root_type"]
        assert found["records"]["MessageEnd"] == 1
    return result.error is None


SEEDS = [file.read_bytes() for file in sorted(VECTORS.glob("nrbf-*.body"))]
