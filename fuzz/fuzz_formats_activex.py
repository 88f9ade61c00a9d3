"""Fuzz target: any bytes of any variant type give a value or an error; a value is written back.

The first two bytes are the body type. Alone, guided by coverage:
`python -m fuzz.guided formats_activex -max_total_time=600`.
"""

import json
from pathlib import Path

from posthouse.formats import FormatError, decode
from posthouse.formats.encode import activex_body

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formats"
RUNS = 2000


def fuzz_one(data: bytes) -> bool:
    """Whether the bytes are a value of that type."""
    body_type = int.from_bytes(data[:2], "little")
    result = decode(data[2:], body_type=body_type)
    found = result.to_json()
    json.dumps(found, allow_nan=False).encode()
    if result.format != "activex" or result.error is not None:
        return False
    try:
        body, kind = activex_body(found["value"], found["vt"], found.get("writer", "net"))
    except FormatError:
        return True  # a type that is not written
    assert kind in (body_type, 1)  # a null has a type of its own
    if kind == body_type and any(body):  # a date of zero is one of .NET as well as one of COM
        assert decode(body, body_type=kind).value == found["value"]
    return True


SEEDS = [
    vector["body_type"].to_bytes(2, "little") + (VECTORS / vector["body"]).read_bytes()
    for vector in json.loads((VECTORS / "manifest.json").read_text("utf-8"))
    if vector["name"].startswith("activex")
]
