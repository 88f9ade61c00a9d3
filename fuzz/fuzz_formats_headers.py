"""Fuzz target: any extension, label and body of a bus give a result.

The first byte is the length of the label, two more that of the extension; the rest is the body.
Alone, guided by coverage: `python -m fuzz.guided formats_headers -max_total_time=600`.
"""

import json
from pathlib import Path
from typing import Any

from posthouse.formats import decode

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formats"
RUNS = 2000
BUSES = frozenset({"nservicebus", "rebus", "masstransit"})


def fuzz_one(data: bytes) -> bool:
    """Whether a bus was found, and its message read."""
    label_end = 3 + data[0] if data else 3
    end = label_end + int.from_bytes(data[1:3], "little")
    result = decode(
        data[end:],
        extension=data[label_end:end],
        label=data[3:label_end].decode("utf-8", "replace"),
        app_specific=len(data) % 7,
        correlation_id=data[:20],
    )
    found = result.to_json()
    json.dumps(found, allow_nan=False).encode()
    if result.format in BUSES:
        assert "headers" in found
        assert "body" in found
    return result.format in BUSES and result.error is None


def packed(vector: dict[str, Any]) -> bytes:
    """A vector as one input."""
    label: bytes = vector["label"].encode()[:255]
    extension = (VECTORS / vector["extension"]).read_bytes()
    body = (VECTORS / vector["body"]).read_bytes()
    sizes = bytes((len(label), *len(extension).to_bytes(2, "little")))
    return b"".join((sizes, label, extension, body))


SEEDS = [
    packed(vector)
    for vector in json.loads((VECTORS / "manifest.json").read_text("utf-8"))
    if vector["extension"]
]
