"""Output of commands: tables for people, JSON for machines, no control characters for terminals."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from errno import EACCES, EBUSY, EPERM
from pathlib import Path
from shutil import copyfile
from typing import Any, BinaryIO

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from posthouse.client.replaced_files import take_over
from posthouse.model.json_for_terminals import ESCAPED, json_for_terminals

LINE_LENGTH_MAX = 10_000
NAMES_WIDTH_MAX = 40  # a first column up to this width is not broken
SHORT_MAX = 12  # other columns up to this width are not broken either
BROKEN_MIN = 8  # of those that are
GAPS = (2, 1)  # spaces between columns: two, or one where that helps
_notes_as_json: ContextVar[bool] = ContextVar("notes_as_json", default=False)


def safe(text: str) -> str:
    """The text with everything escaped that could steer a terminal or hide what is there."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in ESCAPED
        else character
        for character in text
    )


def say(text: str) -> None:
    """One line of text on standard output, however hostile."""
    sys.stdout.write(safe(text) + "\n")


def complain(text: str) -> None:
    """One line on standard error; of JSON where the command line asks for JSON."""
    line = json_line({"note": text}) if _notes_as_json.get() else safe(text)
    sys.stderr.write(line + "\n")


def json_error(error: Mapping[str, Any]) -> None:
    """The error that ends a command, as one line of JSON on standard error."""
    sys.stderr.write(json_line({"error": error}) + "\n")


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file that takes its name when it is whole: an earlier one stays where that fails.

    The new one has the owner, the group and the permissions of the earlier one; without an earlier
    one a private file is for its owner alone. Devices, pipes, and files that another one cannot
    replace like that are written in place; a folder is refused.
    """
    real = Path(os.path.realpath(path))  # `resolve` has a traceback for links in a circle
    if path.exists() and not (path.is_file() and os.access(real.parent, os.W_OK)):
        with path.open("wb") as out:
            yield out
        return
    partial, is_alike, in_place = real.with_name(f"{real.name}.partial"), True, False
    try:
        partial.unlink(missing_ok=True)  # a link of someone else, or left by a run that was killed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        mode = 0o600 if private or real.exists() else 0o666
        with os.fdopen(os.open(partial, flags, mode), "wb") as out:
            if real.exists():
                is_alike = take_over(out.fileno(), real.stat())
            yield out
        if not ((is_alike or not os.access(real, os.W_OK)) and _replaced(real, partial)):
            in_place = True
            copyfile(partial, real)
            partial.unlink()
    except BaseException as error:
        if in_place and isinstance(error, OSError):  # the earlier one is not whole any longer
            why = f"{error.strerror}; what was to be written is in {partial}"
            raise OSError(error.errno, why, str(path)) from None
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(partial)):
            error.filename = str(path)
        raise


def _replaced(path: Path, by: Path) -> bool:
    """False for a file that is mounted, and for that of another user in a folder as /tmp is."""
    try:
        by.replace(path)
    except OSError as error:
        if error.errno in (EACCES, EBUSY, EPERM):
            return False
        raise
    return True


@contextmanager
def partly(done: Callable[[], str], stopped: Callable[[], str] | None = None) -> Iterator[None]:
    """Where the work ends early, what was done before that is told first; empty: nothing.

    `stopped`: how far it came before Ctrl-C, and what running the command again would do.
    """
    try:
        yield
    except BaseException as error:
        if stopped is not None and isinstance(error, KeyboardInterrupt):
            complain(stopped())
        elif text := done():
            end = "this error:"
            if isinstance(error, KeyboardInterrupt):
                end = "Ctrl-C."
            elif isinstance(error, BrokenPipeError):  # as `head` does; no error is printed of it
                end = "the output was closed."
            complain(f"{text} before {end}")
        raise


@contextmanager
def notes_as_json(wanted: bool) -> Iterator[None]:
    """Whether `complain` prints JSON for a while."""
    before = _notes_as_json.set(wanted)
    try:
        yield
    finally:
        _notes_as_json.reset(before)


def print_json(value: Any) -> None:
    """One value as a line of JSON; bytes become base64."""
    sys.stdout.write(json_line(value) + "\n")


def json_line(value: Any) -> str:
    """The JSON of a value, with what JSON leaves as it is escaped: a terminal may be reading."""
    return json_for_terminals(msgspec.json.encode(value).decode())


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for people; cells may come from anywhere.

    Every value is shown whole. Where the terminal is too narrow, long texts are broken, the first
    column last; where that is not enough, each row becomes a list of names and values.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    # Without a terminal, wrap nothing: another program reads the lines.
    width = Console().width if sys.stdout.isatty() else LINE_LENGTH_MAX
    content = [columns, *cells]
    fitting = ((gap, found) for gap in GAPS if (found := _widths(content, width, gap)) is not None)
    gap, widths = next(fitting, (0, None))
    if title and (widths is None or cells):
        say(title)
    if widths is None:
        _print_records(columns, cells)
        return
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for column, size in zip(columns, widths, strict=True):
        table.add_column(column, overflow="fold", width=size)
    for row in cells:
        table.add_row(*map(Text, row))
    Console(highlight=False, width=width).print(table)


def _widths(rows: Sequence[Sequence[str]], width: int, gap: int) -> list[int] | None:
    """How wide each column is; None where short values would have to be broken."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + gap * (len(widths) - 1) - width
    for at in [*sorted(range(1, len(widths)), key=lambda at: -widths[at]), 0]:
        whole = SHORT_MAX if at else NAMES_WIDTH_MAX
        if excess > 0 and widths[at] > whole:
            cut = min(excess, widths[at] - (BROKEN_MIN if at else NAMES_WIDTH_MAX))
            widths[at] -= cut
            excess -= cut
    return None if excess > 0 else widths


def _print_records(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        if number:
            say("")
        print_pairs(dict(zip(columns, row, strict=True)))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Names and values for people, without those that are empty."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        if value:
            say(f"{name:<{width}}  {value}")


def age(seconds: int | None) -> str:
    """How long ago, for people."""
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} days"
