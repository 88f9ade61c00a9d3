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

    return run_command(program(arguments[0] if arguments else ""), arguments)


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
