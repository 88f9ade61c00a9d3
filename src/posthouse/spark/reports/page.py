"""A report as one HTML file: no script, nothing from elsewhere, safe to open and to send around.

Browsers are told so too, by a policy in the page: even if a text of a message came through as
markup, nothing of it would be loaded or run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from posthouse.spark.reports.charts import figure
from posthouse.spark.reports.page_text import escaped
from posthouse.spark.table_files import new_file

ROWS_MAX: Final = 50
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  color: #1c2430; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
p.note { color: #5f6b7a; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: .3em .6em;
  border-bottom: 1px solid #e2e6ea; overflow-wrap: anywhere; }
th { overflow-wrap: normal; }
td.number { text-align: right; white-space: nowrap; }
svg { max-width: 100%; height: auto; }
"""


class Page:
    """A report that grows section by section.

    A browser loads it again after `refresh_s` seconds. `rest` is where all rows of a long table
    are.
    """

    def __init__(
        self,
        title: str,
        note: str = "",
        *,
        refresh_s: int = 0,
        rest: str = "all are in the tables beside",
    ) -> None:
        self._title = title
        self._refresh_s = refresh_s
        self._rest = rest
        self._parts = [f"<h1>{escaped(title)}</h1>"]
        self.note(note)

    def section(self, title: str, note: str = "") -> None:
        """A new section."""
        self._parts.append(f"<h2>{escaped(title)}</h2>")
        self.note(note)

    def note(self, text: str) -> None:
        """A line of explanation."""
        if text:
            self._parts.append(f'<p class="note">{escaped(text)}</p>')

    def chart(self, svg: str) -> None:
        """A chart of `posthouse.spark.reports.charts`."""
        self._parts.append(svg)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table; only its beginning where it is long."""
        shown = list(rows)
        head = "".join(f"<th>{escaped(column)}</th>" for column in columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown[:ROWS_MAX])
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if len(shown) > ROWS_MAX:
            self.note(f"The first {ROWS_MAX} of {len(shown):,}; {self._rest}.")

    def html(self) -> str:
        """The page."""
        seconds = self._refresh_s
        refresh = f'<meta http-equiv="refresh" content="{seconds}">' if seconds else ""
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f'<meta name="referrer" content="no-referrer">{refresh}'
            f"<title>{escaped(self._title)}</title><style>{_STYLE}</style></head><body>"
            f"{''.join(self._parts)}</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """The page as a file."""
        with new_file(path) as partial:
            partial.write_text(self.html(), encoding="utf-8", errors="replace")


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{figure(value)}</td>'
    return f"<td>{escaped(shown(value))}</td>"


def shown(value: Any) -> str:
    """A value in a table."""
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is None else value.astimezone(UTC)
        return zoned.strftime("%Y-%m-%d %H:%M:%S")
    return "" if value is None else str(value)
