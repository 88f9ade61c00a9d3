"""How a failed command ends: one line of text or JSON, and an exit code.

With `--json` every line on standard error is JSON: `{"error": {...}}` ends a command that failed,
`{"note": "..."}` is any other output.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer

from posthouse.cli.contexts import ContextError
from posthouse.cli.exit_codes import NOT_REACHABLE, NOTHING_THERE, REFUSED, WRONG_USAGE
from posthouse.cli.output import complain, json_error
from posthouse.cli.usage_hints import mistake
from posthouse.client.errors import (
    CertificateExpired,
    CertificateNotTrusted,
    ClientConnectionError,
)
from posthouse.model.errors import (
    IoTimeout,
    MessageNotFound,
    QueueError,
    RemoteProtocolError,
    hex_code,
)

# Of click, or of the copy that typer brings along.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])

TRUSTED = (
    "Give --ca-file with a PEM file of its certificate or that of its authority, and use a host "
    "name that is in the certificate."
)
SERVICE_HOME = Path("/var/lib/posthouse")
"""The home of the service that deploy/posthouse.service starts."""
CHECK_RUNNING = "Check that it runs: posthouse status."


class CommandFailed(Exception):
    """A command cannot do its work: why, what to do, and its exit code."""

    def __init__(
        self, cause: str, remedy: str = "", exit_code: int = REFUSED, name: str = "REFUSED"
    ) -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy
        self.exit_code, self.name = exit_code, name


class Failure(NamedTuple):
    """What is printed of an error, and the exit code."""

    name: str
    cause: str
    remedy: str
    exit_code: int
    code: int | None = None
    hints: tuple[str, ...] = ()
    text: str = ""

    def tell(self, *, json: bool) -> int:
        """Print it on standard error; returns the exit code."""
        if json:
            json_error(
                {
                    "name": self.name,
                    "code": self.code,
                    "hex": None if self.code is None else hex_code(self.code),
                    "cause": self.cause,
                    "remedy": self.remedy,
                    "hints": self.hints,
                    "exit_code": self.exit_code,
                }
            )
            return self.exit_code
        for line in (*(self.text or self._sentence()).splitlines(), *self.hints):
            complain(line.replace("\t", "  "))
        return self.exit_code

    def _sentence(self) -> str:
        return f"{self.cause.rstrip('. ')}. {self.remedy}".rstrip()


# What ends a command with a line on standard error. Everything else is a fault of the program.
EXPECTED = (
    UsageError,
    typer.Abort,
    CommandFailed,
    ContextError,
    QueueError,
    RemoteProtocolError,
    ConnectionError,
    TimeoutError,
    UnicodeError,
    OSError,
)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the options of a command line ask for JSON."""
    words = list(arguments)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def failure_of(error: BaseException, arguments: Sequence[str] = ()) -> Failure:
    """What an error that ends a command comes down to."""
    match error:
        case UsageError():
            return _usage(error, arguments)
        case typer.Abort():
            return Failure("CANCELLED", "Nothing was changed", "", REFUSED)
        case CommandFailed():
            return Failure(error.name, error.cause, error.remedy, error.exit_code)
        case ContextError():
            return Failure("WRONG_USAGE", str(error), "", WRONG_USAGE, text=str(error))
        case QueueError():
            hints = tuple(getattr(error, "__notes__", ()))
            words = (error.name, error.cause, error.remedy)
            nothing = isinstance(error, IoTimeout | MessageNotFound)
            exit_code = NOTHING_THERE if nothing else REFUSED
            return Failure(*words, exit_code, error.code, hints, str(error))
        case RemoteProtocolError():
            cause = f"Not a valid packet: {error}"
            return Failure("NOT_A_VALID_PACKET", cause, "", REFUSED, text=cause)
        case CertificateNotTrusted() if not isinstance(error, CertificateExpired):
            return _unreachable(error.cause, TRUSTED)
        case ClientConnectionError():
            remedy = error.remedy.replace("its home or address", "its home (--home) or URL (--url)")
            return _unreachable(error.cause, remedy, _service(error, arguments))
        case ConnectionError() | TimeoutError():
            return _unreachable(str(error), CHECK_RUNNING)
        case UnicodeError():
            cause = f"an argument or the input is not valid UTF-8: {error}"
            return Failure("WRONG_USAGE", cause, "Convert it to UTF-8.", WRONG_USAGE)
        case OSError():
            return _input_output(error)
    raise error


def _unreachable(cause: str, remedy: str, hint: str = "") -> Failure:
    text = f"Not reachable: {cause.rstrip('. ')}. {remedy}"
    hints = (hint,) if hint else ()
    return Failure("NOT_REACHABLE", cause, remedy, NOT_REACHABLE, hints=hints, text=text)


def _input_output(error: OSError) -> Failure:
    cause = f"{error.filename or 'input/output'}: {error.strerror or error}"
    misnamed = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
    if misnamed:
        return Failure("WRONG_USAGE", cause, "Check the path.", WRONG_USAGE)
    return Failure("INPUT_OUTPUT", cause, "", REFUSED, text=cause)


def _usage(error: Any, arguments: Sequence[str]) -> Failure:
    found = mistake(error, arguments)
    see = next((hint for hint in found.hints if hint.startswith("See: ")), "")
    return Failure(
        "WRONG_USAGE", found.cause, see, WRONG_USAGE, hints=found.hints, text=found.cause
    )


def _service(error: ClientConnectionError, arguments: Sequence[str]) -> str:
    """What to add where the command asked a home without a queue manager beside a service."""
    asked = any(word.split("=")[0] in ("--home", "--url") for word in arguments)
    if asked or str(SERVICE_HOME) in error.cause or not SERVICE_HOME.exists():
        return ""
    return (
        f"A service has its home at {SERVICE_HOME}: add --home {SERVICE_HOME}, or set "
        "POSTHOUSE_HOME. Only root and the user of the service may do this."
    )
