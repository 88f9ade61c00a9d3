"""`posthouse`: the entry point.

The version and the completion of words are answered here, without loading any command: a shell asks
for them while somebody types. Everything else is `posthouse.cli.program`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from posthouse import __version__
from posthouse.cli.complete import SHELLS, VARIABLE, complete
from posthouse.cli.exit_codes import DONE as DONE
from posthouse.cli.exit_codes import NOT_REACHABLE as NOT_REACHABLE
from posthouse.cli.exit_codes import REFUSED as REFUSED
from posthouse.cli.exit_codes import WRONG_USAGE as WRONG_USAGE
from posthouse.model.interpreter import describe

VERSION = (["--version"], ["version"])
INTERRUPTED = 130
# Options that may stand before the command, and whether a value follows.
BEFORE_COMMANDS = {
    "--home": True,
    "--url": True,
    "--token-file": True,
    "--ca-file": True,
    "--context": True,
    "--json": False,
}


def program(word: str = "") -> Any:
    """The command line; where the first word is known, only what it needs."""
    from posthouse.cli.program import program as load

    return load(word)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    if list(arguments) in VERSION:
        sys.stdout.write(f"posthouse {__version__} ({describe()})\n")
        return DONE
    from posthouse.cli.program import run as run_command

    words = command_first(arguments)
    return run_command(program(words[0] if words else ""), words)


def command_first(arguments: Sequence[str]) -> list[str]:
    """Return a command line with the options that stand before its command at its end.

    They are those that every command has. One that the command has itself is left out there.
    """
    words, before = list(arguments), list[list[str]]()
    while words and words[0].partition("=")[0] in BEFORE_COMMANDS:
        name, equals, _ = words[0].partition("=")
        taken = 2 if BEFORE_COMMANDS[name] and not equals else 1
        if len(words) <= taken:
            return list(arguments)  # its value or the command is missing
        before.append(words[:taken])
        del words[:taken]
    own = words[: words.index("--") if "--" in words else None]
    rest, names = words[len(own) :], {word.partition("=")[0] for word in own}
    for option in before:
        if option[0].partition("=")[0] not in names:
            own += option
    return own + rest


def _open_closed_streams() -> None:
    """Streams that the caller closed: input is empty, output fails when something is printed.

    Nothing printed may seem to have been delivered, and no file or socket gets their numbers.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _tell_lost_output(error: OSError) -> None:
    """What was printed last did not reach its file."""
    from posthouse.cli.error_output import failure_of, wants_json

    failure = failure_of(OSError(error.errno, error.strerror or str(error), "standard output"))
    failure.tell(json=wants_json(sys.argv[1:]))


def main() -> None:
    """The entry point of the `posthouse` program."""
    _open_closed_streams()
    if os.environ.get(VARIABLE) in SHELLS:
        code = complete(sys.argv[1:])
    else:
        try:
            code = run(sys.argv[1:])
        except KeyboardInterrupt:  # while the command is loaded; later ones end there
            code = INTERRUPTED
    try:
        sys.stdout.flush()
    except OSError as error:  # and at the end of the process nothing is to be written either
        if not code and not isinstance(error, BrokenPipeError):
            _tell_lost_output(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or REFUSED
    sys.exit(code)


if __name__ == "__main__":
    main()
