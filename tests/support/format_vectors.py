"""The messages made by .NET code, and what they must decode to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "vectors" / "formats"


MANIFEST: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text("utf-8"))


def read(name: str | None) -> bytes:
    return (FOLDER / name).read_bytes() if name else b""


def assert_has(found: Any, expected: Any) -> None:
    """Everything expected is there; in what was found may be more keys."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            assert key in found or value is None, key
            assert_has(found.get(key), value)
    else:
        assert exact(found) == exact(expected)


def exact(value: Any) -> str:
    """A text that tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)
