"""Completes words of a command line from a table, while a user types.

The table is printed from the commands themselves by `python -m posthouse.cli.completion_table`.
Names of queues come from the queue manager of the home, if one answers at once.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "_POSTHOUSE_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
TABLE: Final = Path(__file__).with_name("completion.json")
ANSWER_S: Final = 0.5
ANSWER_MAX: Final = 4 << 20
QUEUES: Final = "QUEUES"  # in the table: names of queues go here
_LIST: Final = b"GET /api/v1/queues?limit=500 HTTP/1.1\r\nHost: home\r\nConnection: close\r\n\r\n"


def complete(words: Sequence[str]) -> int:
    """Prints what the last word may become, one word a line."""
    *before, typed = words or [""]
    found = sorted(word for word in offered(before, typed) if word.startswith(typed))
    sys.stdout.write("".join(f"{word}\n" for word in found))
    return 0


def offered(before: Sequence[str], typed: str) -> list[str]:
    """Everything that may follow these words."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    name, at = "", 0
    while at < len(before) and _joined(name, before[at]) in table:
        name, at = _joined(name, before[at]), at + 1
    entry = table[name]
    if "commands" in entry:
        return [*entry["commands"], "--help"] if at == len(before) else []
    if before and before[-1] in entry["values"]:
        return _words(entry["values"][before[-1]], before)
    if typed.startswith("-"):
        return list(entry["options"])
    return _words(entry["arguments"], before)


def _joined(name: str, word: str) -> str:
    return f"{name} {word}".strip()


def _words(choices: Sequence[str], before: Sequence[str]) -> list[str]:
    if QUEUES not in choices:
        return list(choices)
    home = _home(before)
    return [] if home is None else queue_names(home)


def _home(before: Sequence[str]) -> Path | None:
    """The home that the command is about; None: it is about a queue manager elsewhere."""
    from posthouse.cli.contexts import ContextError, Target, chosen
    from posthouse.net.control_socket import default_home

    named = {option.lstrip("-"): value for option, value in pairwise(before)}
    given = Target(Path(named["home"]) if "home" in named else None, named.get("url"))
    try:
        target = chosen(given, named.get("context"))
    except ContextError:
        return None
    return None if target.url is not None else target.home or default_home()


def queue_names(home: Path) -> list[str]:
    """The queues of a home: private ones by their bare names, others by their paths."""
    from posthouse.net.control_socket import find

    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_S)
            line.connect(os.fspath(find(home)))
            line.sendall(_LIST)
            _, _, body = _answer(line).partition(b"\r\n\r\n")
        return [_short(queue["path"]) for queue in json.loads(body)["queues"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []  # no server answers, or not in time: offer nothing


def _answer(line: socket.socket) -> bytes:
    parts = bytearray()
    while len(parts) < ANSWER_MAX and (data := line.recv(1 << 16)):
        parts += data
    return bytes(parts)


def _short(path: str) -> str:
    """`orders` for `HOST\\private$\\orders`; a public one with slashes, which no shell removes."""
    _, _, rest = path.partition("\\")
    kind, _, name = rest.partition("\\")
    return name if kind.lower() == "private$" else f"./{rest}".replace("\\", "/")
