"""Hostile inputs: every decoder ends with a result, within limits of memory.

The usual run has a tenth of the input with a tenth of the limits; the long one has 10 MB.
"""

from __future__ import annotations

import json
import tracemalloc

import pytest

from posthouse.formats import DEFAULT, Limits, decode
from tests.conftest import SOAK
from tests.formats.hostile import MB, Hostile, inputs

SIZE = 10 * MB if SOAK else MB
LIMITS = (
    DEFAULT
    if SOAK
    else Limits(
        **{
            name: getattr(DEFAULT, name) // 10
            for name in DEFAULT.__slots__
            if name not in ("depth", "wraps")
        }
    )
)
MEMORY_MAX = SIZE * 64 // 10 + 2 * MB


@pytest.mark.parametrize("hostile", list(inputs()), ids=lambda hostile: hostile.name)
def test_memory_is_bounded(hostile: Hostile) -> None:
    body, more = hostile.made(SIZE)
    tracemalloc.start()
    try:
        result = decode(body, limits=LIMITS, **more).to_json()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_MAX
    json.dumps(result, allow_nan=False).encode()
    assert len(result["text"]) <= LIMITS.shown + 16


def test_a_body_beyond_the_limit_is_shown_raw() -> None:
    result = decode(b"<a/>", limits=Limits(size=3))
    assert (result.format, result.value) == ("bytes", {"$base64": "PGEvPg=="})
    assert "more than 3 bytes" in (result.error or "")
