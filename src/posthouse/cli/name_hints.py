"""Hints for a queue name that was not found or could not be parsed.

Shells remove backslashes outside quotes and replace `$orders` inside double quotes, and names have
typing errors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from posthouse.api.types import QueueListJson
from posthouse.cli.connection import Remote, path_of
from posthouse.model.errors import (
    IllegalFormatName,
    IllegalQueuePathname,
    QueueError,
    QueueNotFound,
)
from posthouse.model.names import is_bare, parse_name
from posthouse.model.paths import PathName

MISNAMED: Final = (QueueNotFound, IllegalQueuePathname, IllegalFormatName)
LIKENESS: Final = 0.6
PAGES_MAX: Final = 20  # of queues that are looked through
NAMED: Final = ("source", "path", "destination", "to", "queue")  # parameters that name queues

_QUOTED: Final = re.compile(r"'([^']*)'")
_EATEN_DOLLAR: Final = re.compile(r"(.*[^\\/])[\\/]private", re.IGNORECASE)
_NO_DOLLAR: Final = re.compile(r"(.*[^\\/])[\\/]private[\\/]([^\\/]+)", re.IGNORECASE)
_NO_SLASH: Final = re.compile(r"(.*[^\\/])[\\/]private\$([^\\/]+)", re.IGNORECASE)
_SYSTEM: Final = re.compile(r"system\$;\w+", re.IGNORECASE)
_EATEN_BACKSLASHES: Final = re.compile(r"(.*[^\\/$])private\$([^\\/]+)", re.IGNORECASE)


def full_name(value: Any) -> Any:
    """A queue as the program names it: a bare name is a private queue of this queue manager."""
    if isinstance(value, str) and is_bare(value):
        return f".\\private$\\{value}"
    return value


def name_hints(remote: Remote, values: Mapping[str, Any], error: QueueError) -> Iterator[str]:
    """Sentences about the names on the command line; names without a mistake have none."""
    for name in NAMED:
        text = values.get(name)
        if isinstance(text, str):
            hint = spelling(text) or _nearest(remote, values, text, error)
            if hint:
                yield hint


def spelling(text: str) -> str:
    """A sentence with a name that is accepted, or nothing."""
    hint = _misspelt(text)
    return hint if all(map(_is_name, _QUOTED.findall(hint))) else ""


def _is_name(text: str) -> bool:
    try:
        parse_name(text)
    except QueueError:
        return False
    return True


def _misspelt(text: str) -> str:
    if _EATEN_DOLLAR.fullmatch(text):
        return (
            "A shell replaces $orders inside double quotes. Write the name in single quotes: "
            "'./private$/orders'."
        )
    if found := _NO_DOLLAR.fullmatch(text):
        return f"Private queues have a dollar sign: '{found[1]}/private$/{found[2]}'."
    if found := _NO_SLASH.fullmatch(text):
        return f"A slash follows private$: '{found[1]}/private$/{found[2]}'."
    if found := _EATEN_BACKSLASHES.fullmatch(text):
        return (
            "A shell removes backslashes outside quotes. Write the name in single quotes: "
            f"'{found[1]}\\private$\\{found[2]}' or '{found[1]}/private$/{found[2]}'."
        )
    if found := _SYSTEM.fullmatch(text):
        return f"The name of a computer goes first, or a dot: './{text}'."
    return ""


def _nearest(remote: Remote, values: Mapping[str, Any], text: str, error: QueueError) -> str:
    """The queue that was meant, among those that the user may see here."""
    is_far = any(values.get(name) for name in ("user", "rpc_port", "authentication", "mechanism"))
    if not isinstance(error, QueueNotFound) or not remote.is_connected or is_far:
        return ""
    try:
        wanted = PathName.parse(_without_prefix(text))
        here = {path.queue.casefold(): path for path in _paths(remote)}
    except (QueueError, OSError):
        return ""
    near = difflib.get_close_matches(wanted.queue.casefold()[:64], list(here), 1, LIKENESS)
    if not near:
        return ""
    found = str(here[near[0]].with_computer(".")).replace("\\", "/")
    return f"Did you mean '{found}'?"


def _without_prefix(text: str) -> str:
    return text[len("DIRECT=OS:") :] if text[:10].upper() == "DIRECT=OS:" else text


def _paths(remote: Remote) -> Iterator[PathName]:
    after: int | None = 0
    for _ in range(PAGES_MAX):
        page = remote.ask(QueueListJson, "GET", path_of("queues"), query={"after": after})
        yield from (PathName.parse(queue.path) for queue in page.queues)
        after = page.next
        if after is None:
            return
