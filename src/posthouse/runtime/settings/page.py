"""docs/configuration.md from the declarations: `python -m posthouse.runtime.settings.page`."""

from __future__ import annotations

import inspect
import sys

import msgspec

from posthouse.model.settings_kinds import SIZE
from posthouse.runtime.settings.file import (
    SIZE_WORDS,
    allowed,
    fields_of,
    is_section,
    meaning_of,
    size_text,
    unit_of,
)
from posthouse.runtime.settings.settings import Settings

_TOP = f"""# Configuration

`posthouse serve` reads `posthouse.toml` in its home, or the file that `--config` names. Every
setting has a default; a file with the few that you change is enough. Settings that do not exist are
errors that name the nearest one, and so are values outside their limits: nothing is ignored.

Sizes are {SIZE_WORDS} (`KiB`, `MiB`, `GiB`,
`TiB`). Settings that end in `_s` are seconds, those that end in `_ms` milliseconds. Changes take
effect at the next start.

```toml
[queue_manager]
name = "ALPHA"

[store]
express_memory = "1GiB"

[log]
file = ""            # standard error, for systemd and containers
format = "json"
```

This page is made from the declarations in the packages that use them (`settings.py` in each).
"""


def configuration_page() -> str:
    """The whole page."""
    sections = fields_of(Settings)
    return _TOP + "".join(_section(name, kind) for name, kind in sections.items())


def _section(name: str, section: type[msgspec.Struct]) -> str:
    kinds = fields_of(section)
    defaults = section()
    inner = {key: kind for key, kind in kinds.items() if is_section(kind)}
    rows = [_row(key, kinds[key], getattr(defaults, key)) for key in kinds if key not in inner]
    head = ["| Setting | Default | Allowed | Meaning |", "|---|---|---|---|"]
    own = "\n".join(
        ["", f"## [{name}]", "", inspect.cleandoc(str(section.__doc__)), "", *head, *rows, ""]
    )
    return own + "".join(_section(f"{name}.{key}", kind) for key, kind in inner.items())


def _row(key: str, kind: object, default: object) -> str:
    may = allowed(kind).removeprefix(f"{SIZE_WORDS}, ")
    return f"| `{key}` | {_shown(kind, default)} | {may} | {meaning_of(kind)} |"


def _shown(kind: object, default: object) -> str:
    if default is None:
        return "none"
    if unit_of(kind) == SIZE and isinstance(default, int):
        text = size_text(default)
        return f"`{text}`" if text.isdigit() else f'`"{text}"`'
    if isinstance(default, dict):
        pairs = ", ".join(f'{key} = "{value}"' for key, value in default.items())
        return f"`{{{pairs}}}`"
    return f"`{msgspec.json.encode(default).decode()}`"


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
