"""Suggests the right command for a wrong command line.

Users bring the words of other programs (`get`, `--ttl`), put the verb before the noun
(`create queue`), or write the body of a message without its option.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from posthouse.cli.output import safe
from posthouse.cli.verbs import commands, meant

LIKENESS: Final = 0.7  # of an option that is suggested
SHOWN_MAX: Final = 6  # commands of one verb
COMMANDS: Final = {
    "send": ("publish", "put", "post", "push", "produce", "enqueue", "write"),
    "receive": ("get", "consume", "pop", "pull", "read", "dequeue", "take", "fetch"),
    "peek": ("browse", "look", "view", "tail", "cat"),
    "serve": ("start", "run", "server", "daemon"),
    "status": ("health", "ping", "stats", "ps"),
    "queue purge": ("clear", "empty", "flush"),
    "message find": ("search", "grep"),
    "message explain": ("explain", "why", "trace", "where"),
    "pipeline sql": ("sql", "query", "select"),
}
"""Words for commands in other programs."""
INNER: Final = {
    ("message", "list"): "'posthouse peek QUEUE --count 100' or 'posthouse message find FILTER'",
    ("message", "ls"): "'posthouse peek QUEUE --count 100' or 'posthouse message find FILTER'",
    ("message", "send"): "'posthouse send QUEUE'",
    ("message", "receive"): "'posthouse receive QUEUE'",
    ("queue", "send"): "'posthouse send QUEUE'",
    ("queue", "receive"): "'posthouse receive QUEUE'",
    ("queue", "peek"): "'posthouse peek QUEUE'",
}
"""Verbs that are commands of their own, or of another noun."""
OPTIONS: Final = {
    "--body": ("--message", "--data", "--text", "--payload", "--content"),
    "--body-file": ("--file", "--input"),
    "--time-to-be-received": ("--ttl", "--expire", "--expires", "--expiry", "--expiration"),
    "--timeout": ("--wait",),
    "--count": ("--limit", "--max", "--number", "-n", "-c"),
    "--recoverable": ("--durable", "--persistent"),
    "--transactional": ("--tx", "--transaction"),
    "--quota": ("--max-size", "--size"),
    "--where": ("--filter",),
    "--home": ("--dir", "--data-dir", "--data"),
    "--url": ("--host", "--server", "--address"),
    "--token-file": ("--token",),
    "--yes": ("--force", "-f"),
    "--version": ("-V", "-v"),
}
"""Words for options in other programs."""
_RANGES: Final = (
    (r"\S+ is not in the range x<=(\S+)\.", r"the largest value is \1"),
    (r"\S+ is not in the range x>=(\S+)\.", r"the smallest value is \1"),
    (
        r"\S+ is not in the range (\S+?)<=x<=(\S+)\.",
        r"the smallest value is \1, the largest value is \2",
    ),
    (r"'[^']*' is not a valid int( range)?\.", "this is not a whole number"),
    (r"'[^']*' is not a valid float( range)?\.", "this is not a number"),
)
_UNKNOWN: Final = re.compile(r"No such command '([A-Za-z-]+)'\.")


class Mistake(NamedTuple):
    """What is wrong with a command line, and what to write instead."""

    cause: str
    hints: tuple[str, ...]


def mistake(error: Any, arguments: Sequence[str]) -> Mistake:
    """What a usage error comes down to; the command line may hold anything."""
    cause = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # its help was printed
        return Mistake("A command is missing. The list above has them.", ())
    see = () if error.ctx is None else (f"See: {error.ctx.command_path} --help",)
    if hasattr(error, "possibilities") and (name := getattr(error, "option_name", None)):
        return _unknown_option(error, name, see)
    if cause.startswith("Got unexpected extra argument"):
        return Mistake(cause, (*_body_without_option(error, arguments), *see))
    if found := _UNKNOWN.match(cause):
        hints = tuple(_other_commands(error, found[1], arguments))
        return Mistake(found[0] if hints else cause, (*hints, *see))
    for pattern, words in _RANGES:
        cause = re.sub(pattern, words, cause)
    return Mistake(cause, see)


def _unknown_option(error: Any, name: str, see: tuple[str, ...]) -> Mistake:
    own = _options(error)
    other = [option for option, words in OPTIONS.items() if name in words and option in own]
    near = [
        one
        for one in sorted(error.possibilities or ())
        if difflib.SequenceMatcher(None, one, name[:64]).ratio() >= LIKENESS
    ]
    hint = f" Did you mean {' or '.join(other or near)}?" if other or near else ""
    return Mistake(f"{error.message.rstrip('.')}.{hint}", see)


def _options(error: Any) -> list[str]:
    """The options of the command that was called."""
    params = [] if error.ctx is None else error.ctx.command.params
    return [option for one in params for option in one.opts]


def _body_without_option(error: Any, arguments: Sequence[str]) -> Iterator[str]:
    """The body of a message stands after its option."""
    if "--body" in _options(error) and "--body" not in arguments:
        body = safe(shlex.quote(arguments[-1][:40]))
        yield f"The body of a message follows its option: --body {body}"


def _other_commands(error: Any, word: str, arguments: Sequence[str]) -> Iterator[str]:
    """Commands by other words, or with the unknown first word as their verb."""
    if error.ctx is None:
        return
    if error.ctx.parent is not None:
        if other := INNER.get((error.ctx.info_name, word)):
            yield f"Did you mean {other}?"
        return
    if word in ("stop", "shutdown", "quit"):
        yield "A queue manager stops on Ctrl-C or SIGTERM; a service: systemctl stop posthouse."
        return
    names = [name for name, _ in commands(error.ctx.command, "posthouse")]
    verbs: dict[str, list[str]] = {}
    for name in names:
        _, *words = name.split()
        if len(words) == 2:
            verbs.setdefault(words[0], []).append(words[1])
    rest = arguments[arguments.index(word) + 1 :] if word in arguments else ()
    noun = rest[0].rstrip("s") if rest else ""
    if (verb := meant(word, verbs.get(noun, []))) in verbs.get(noun, []):
        yield f"Did you mean 'posthouse {noun} {verb}'?"
        return
    other = next((one for one, words in COMMANDS.items() if word in words), "")
    if other:
        yield f"Did you mean 'posthouse {other}'?"
        return
    same = sorted(
        (noun != "queue", noun != "message", noun)
        for noun, known in verbs.items()
        if meant(word, known) in known
    )
    if same:
        found = [f"posthouse {one} {meant(word, verbs[one])}" for *_, one in same]
        end = ", and others." if len(found) > SHOWN_MAX else "."
        yield f"Commands of that name: {', '.join(found[:SHOWN_MAX])}{end}"
