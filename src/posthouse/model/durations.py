"""Durations as people write them: `5s`, `12h`, `1.5`, which is seconds."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
DURATION_REMEDY: Final = "Write 500ms, 5s, 10m, 12h, 30d or 2w."
_TEXT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|[smhdw]?)", re.ASCII)


def parse_duration(text: str) -> float | None:
    """The seconds that a text means, None for any other text; a bare number is seconds."""
    found = _TEXT.fullmatch(text.strip())
    return None if found is None else float(found[1]) * UNITS[found[2] or "s"]
