"""`posthouse`: puts the commands together and turns errors into exit codes.

Each noun has a file of its own with `register(app)`; adding one is a line in NOUNS.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from posthouse import __version__
from posthouse.cli import (
    backup,
    bench,
    completion,
    decode,
    demo,
    doctor,
    message,
    queue,
    receive,
    send,
    serve,
    status,
    token,
    transaction,
    user,
)
from posthouse.cli.output import complain, say
from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import QueueError, RemoteProtocolError

# In the order of the help's panels.
NOUNS = (
    serve,
    status,
    transaction,
    backup,
    queue,
    send,
    receive,
    message,
    user,
    token,
    doctor,
    decode,
    bench,
    demo,
    completion,
)

DONE = 0
REFUSED = 1
WRONG_USAGE = 2
NOT_REACHABLE = 3

app = typer.Typer(
    name="posthouse",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for noun in NOUNS:
    noun.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"posthouse {__version__}")
        raise typer.Exit


@app.callback()
def posthouse(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """A message queue manager for Linux that speaks MSMQ on the wire.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 not reachable.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    try:
        app(args=list(arguments), prog_name="posthouse")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except QueueError as error:
        complain(str(error))
        return REFUSED
    except RemoteProtocolError as error:
        complain(f"Not a valid packet: {error}")
        return REFUSED
    except BrokenPipeError:  # whoever reads our output has seen enough
        return REFUSED
    except ClientConnectionError as error:
        complain(f"Not reachable: {error}")
        return NOT_REACHABLE
    except (ConnectionError, TimeoutError) as error:
        complain(f"Not reachable: {error}. Is the queue manager running?")
        return NOT_REACHABLE
    except OSError as error:
        complain(f"{error.filename or 'input/output'}: {error.strerror or error}")
        misnamed = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
        return WRONG_USAGE if misnamed else REFUSED
    return DONE


def main() -> None:
    """The entry point of the `posthouse` program."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # and at the end of the process nothing is to be written either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or REFUSED
    sys.exit(code)


if __name__ == "__main__":
    main()
