"""`posthouse send`: sends one message, many alike, or one for each line of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice, repeat
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple, get_args

import typer

from posthouse.api.sends import Acknowledgment
from posthouse.api.types import BODY_SIZE_MAX, U32_MAX
from posthouse.cli.command import talking, words
from posthouse.cli.connection import Remote
from posthouse.cli.durations import whole_seconds
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import partly, print_json, say
from posthouse.cli.progress import bar
from posthouse.client.manager import Queue
from posthouse.client.send_options import SendOptions
from posthouse.formats import FormatError
from posthouse.formats.encode.activex import variant_of
from posthouse.formats.encode.from_text import check_formatter, encode_text
from posthouse.model.message_json import text_body
from posthouse.model.names import PathName, parse_name
from posthouse.model.text import counted

ACKNOWLEDGMENTS: Final = get_args(Acknowledgment)
AT_ONCE: Final = 1000  # messages between two looks at the progress, and of one transaction
STANDARD: Final = Path("-")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Queues and messages")(send)


@talking
def send(
    remote: Remote,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            parser=full_name,
            help="Name of a private queue, path name or format name; several format names, "
            "separated by commas.",
        ),
    ],
    body: Annotated[
        str | None, typer.Option("--body", metavar="TEXT", help="Body of the message.")
    ] = None,
    body_file: Annotated[
        Path | None,
        typer.Option(
            "--body-file", metavar="FILE", help="File with the body; - reads standard input."
        ),
    ] = None,
    lines: Annotated[
        Path | None,
        typer.Option(
            "--lines",
            metavar="FILE",
            help="Send each line of this file as a message; - reads standard input.",
        ),
    ] = None,
    empty: Annotated[
        bool, typer.Option("--empty", help="Send an empty body, and do not read standard input.")
    ] = False,
    label: Annotated[
        str, typer.Option("--label", metavar="TEXT", help="Label of the message.")
    ] = "",
    app_specific: Annotated[
        int,
        typer.Option(
            "--app-specific", metavar="N", min=0, max=U32_MAX, help="Number for applications."
        ),
    ] = 0,
    extension_file: Annotated[
        Path | None,
        typer.Option("--extension-file", metavar="FILE", help="File with bytes for applications."),
    ] = None,
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            metavar="0-7",
            min=0,
            max=7,
            help="Priority, 0 to 7; higher ones are received first.",
        ),
    ] = 3,
    recoverable: Annotated[
        bool,
        typer.Option(
            "--recoverable",
            help="Write the message to disk before the command ends; it survives a restart.",
        ),
    ] = False,
    transactional: Annotated[
        bool,
        typer.Option(
            "--transactional",
            help="Send in a transaction; for transactional queues of other computers.",
        ),
    ] = False,
    journal: Annotated[
        bool, typer.Option("--journal", help="Keep a copy in the system journal.")
    ] = False,
    dead_letter: Annotated[
        bool,
        typer.Option(
            "--dead-letter",
            help="Keep the message in a dead-letter queue if it cannot be delivered.",
        ),
    ] = False,
    admin_queue: Annotated[
        str,
        typer.Option(
            "--admin-queue", metavar="NAME", parser=full_name, help="Queue for acknowledgments."
        ),
    ] = "",
    ack: Annotated[
        str,
        typer.Option(
            "--ack",
            "--acknowledge",
            metavar="LIST",
            help="Acknowledgments to request: pos-arrival, neg-arrival, pos-receive, neg-receive.",
        ),
    ] = "",
    response_queue: Annotated[
        str,
        typer.Option(
            "--response-queue", metavar="NAME", parser=full_name, help="Queue for responses."
        ),
    ] = "",
    correlation: Annotated[
        str,
        typer.Option(
            "--correlation",
            "--correlation-id",
            metavar="HEX",
            help="Correlation id: 40 hex digits, or a message id.",
        ),
    ] = "",
    time_to_reach_queue: Annotated[
        int | None,
        typer.Option(
            "--time-to-reach-queue",
            metavar="T",
            parser=whole_seconds(U32_MAX),
            help="Longest time to reach the queue, such as 30s, 12h, 5d.",
        ),
    ] = None,
    time_to_be_received: Annotated[
        int | None,
        typer.Option(
            "--time-to-be-received",
            metavar="T",
            parser=whole_seconds(U32_MAX),
            help="Longest time until it is received, such as 30s, 12h, 5d.",
        ),
    ] = None,
    trace: Annotated[
        str, typer.Option("--trace", metavar="NAME", help="Public queue for route reports.")
    ] = "",
    traceparent: Annotated[
        str,
        typer.Option("--traceparent", metavar="TEXT", help="W3C trace context for the message."),
    ] = "",
    tracestate: Annotated[
        str,
        typer.Option("--tracestate", metavar="TEXT", help="W3C tracestate; needs --traceparent."),
    ] = "",
    body_type: Annotated[
        int,
        typer.Option(
            "--body-type",
            metavar="N",
            min=0,
            max=U32_MAX,
            help="Body type, a variant type number; 8 and 31 send text as UTF-16.",
        ),
    ] = 0,
    formatter: Annotated[
        str,
        typer.Option(
            "--formatter",
            metavar="NAME",
            help="Write the body as .NET does: xml, activex, text, json or raw.",
        ),
    ] = "",
    value_type: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="NAME",
            help="With xml or activex: type of the body, such as string, int, dateTime, guid.",
        ),
    ] = "",
    root: Annotated[
        str,
        typer.Option(
            "--root",
            metavar="NAME",
            help="With xml: class or list (ArrayOfInt) that the JSON of the body is written as.",
        ),
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NS", help="With --root: its XML namespace.")
    ] = "",
    sign: Annotated[
        bool,
        typer.Option(
            "--sign",
            help="Sign with the user's certificate, which `posthouse cert create --user` makes.",
        ),
    ] = False,
    encrypt: Annotated[
        bool,
        typer.Option(
            "--encrypt",
            help="Encrypt the body; needs a PRIVATE= or PUBLIC= name of a machine whose keys are "
            "known.",
        ),
    ] = False,
    count: Annotated[
        int,
        typer.Option("--count", metavar="N", min=1, help="Number of times to send the message."),
    ] = 1,
) -> None:
    """Send a message, and print its identifier when the queue manager has accepted it.

    Text is sent as UTF-8, unless the body type means UTF-16. Without --body, --body-file, --lines
    and --empty, the body is read from standard input, byte for byte; if that is empty, the command
    is refused. In a loop that reads standard input itself, give the body or --empty.

    --formatter writes what System.Messaging's formatters read: a value with --type (string where
    it is left out), or with xml a class from JSON: "@name" is an attribute, a list repeats its
    element, null is nil.

    Example: posthouse send './private$/orders' --body '<order/>' --label 'order 1' --recoverable

    Example: posthouse send './private$/orders' --label 'order 2' < order.xml

    Example: posthouse send './private$/orders' --formatter xml --type int --body 42

    Example: posthouse send './private$/orders' --formatter xml --root Order --body '{"Id": 17}'
    """
    written = Formatting(formatter, value_type, root, namespace)
    _check_formatting(written, body_type)
    text_type = body_type  # a formatter takes the text as it is given
    if formatter not in ("", "raw"):
        body_type, text_type = written.body_type, 0
    how = SendOptions(
        label=label,
        priority=priority,
        recoverable=recoverable,
        app_specific=app_specific,
        extension=b"" if extension_file is None else _read(extension_file),
        journal=journal,
        dead_letter=dead_letter,
        admin_queue=admin_queue,
        ack=words(ack, ACKNOWLEDGMENTS, "acknowledgment"),
        response_queue=response_queue,
        correlation=correlation,
        time_to_reach_queue=time_to_reach_queue,
        time_to_be_received=time_to_be_received,
        trace=trace,
        body_type=body_type,
        sign=sign,
        encrypt=encrypt,
        traceparent=traceparent,
        tracestate=tracestate,
    )
    if sum((body is not None, body_file is not None, lines is not None, empty)) > 1:
        raise typer.BadParameter("give one of --body, --body-file, --lines and --empty")
    if how.get("ack") and not admin_queue:
        raise typer.BadParameter("--ack needs --admin-queue NAME, which the acknowledgments go to")
    if lines is not None and count != 1:
        raise typer.BadParameter("--lines sends each line once: leave --count out")
    content = b"" if lines is not None else _body(body, body_file, empty, text_type)
    if lines is None and not empty:
        content = written.body(content)
    queue = remote.queue(destination)
    if not transactional and isinstance(parse_name(destination), PathName):
        transactional = remote.needs_transactions(destination) is True
    if lines is not None:
        with _opened(lines) as file:
            bodies = map(written.body, _bodies(file, text_type))
            _send_all(remote, queue, bodies, 0, transactional, how)
    elif count == 1:
        _tell(remote, [queue.send(content, transactional=transactional, **how)])
    else:
        _send_all(remote, queue, repeat(content, count), count, transactional, how)


def _body(text: str | None, file: Path | None, empty: bool, body_type: int) -> bytes:
    if empty:
        return b""
    if file is not None:
        return _read(file)
    if text is None:
        return _piped()
    try:
        return text_body(text, body_type)
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8
        raise typer.BadParameter("the body is not valid text; use --body-file") from None


def _piped() -> bytes:
    """What another program writes to standard input; a message without a body has to be meant."""
    at_hand = sys.stdin is not None and not sys.stdin.isatty()
    data = _read(STANDARD) if at_hand else b""
    if not data:
        raise typer.BadParameter(
            "the message has no body: give --body TEXT, --body-file FILE or --lines FILE, pipe the "
            "body to standard input, or send an empty message with --empty"
        )
    return data


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD:
        yield sys.stdin.buffer
    else:
        with path.open("rb") as file:
            yield file


def _read(path: Path) -> bytes:
    with _opened(path) as file:
        data = file.read(BODY_SIZE_MAX + 1)
    if len(data) > BODY_SIZE_MAX:
        what = "standard input" if path == STANDARD else path
        raise typer.BadParameter(f"{what} is larger than a message can be ({BODY_SIZE_MAX} bytes)")
    return data


def _bodies(file: BinaryIO, body_type: int) -> Iterator[bytes]:
    number = 0
    while line := file.readline(BODY_SIZE_MAX + 2):
        number += 1
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(body) > BODY_SIZE_MAX:
            raise typer.BadParameter(f"line {number} is larger than a message can be")
        try:
            yield text_body(body.decode(), body_type) if body_type else body
        except UnicodeDecodeError:
            raise typer.BadParameter(f"line {number} is not UTF-8") from None


def _send_all(
    remote: Remote,
    queue: Queue,
    bodies: Iterable[bytes],
    total: int,
    transactional: bool,
    how: SendOptions,
) -> None:
    """Many messages, in portions; each portion of a transactional send is one transaction."""
    waiting, done = iter(bodies), 0
    with (
        partly(lambda: f"Sent about {counted(done, 'message')}" if done else ""),
        bar("sending", total, quiet=remote.json) as advance,
    ):
        while portion := list(islice(waiting, AT_ONCE)):
            ids = queue.send_many(portion, transactional=transactional, **how)
            done += len(portion)
            _tell(remote, ids)
            advance(done, total)


def _tell(remote: Remote, ids: Iterable[str]) -> None:
    for identifier in ids:
        if remote.json:
            print_json({"id": identifier})
        else:
            say(identifier)


class Formatting(NamedTuple):
    """How bodies are written; without a formatter they stay as they are."""

    formatter: str
    type: str
    root: str
    namespace: str

    @property
    def body_type(self) -> int:
        """The type of the bodies."""
        return variant_of(self.type or "string") if self.formatter == "activex" else 0

    def body(self, content: bytes) -> bytes:
        """The body that carries this content."""
        try:
            return encode_text(content, *self.named()).body
        except FormatError as error:
            raise typer.BadParameter(str(error)) from None

    def named(self) -> Formatting:
        """These options with a formatter: `raw` where there is none."""
        return self if self.formatter else self._replace(formatter="raw")


def _check_formatting(how: Formatting, body_type: int) -> None:
    """Refuse options that do not go together, before anything is read or sent."""
    if how.formatter not in ("", "raw") and body_type:
        raise typer.BadParameter("--formatter sets the body type: leave --body-type out")
    try:
        check_formatter(*how.named(), prefix="--")
    except FormatError as error:
        raise typer.BadParameter(str(error)) from None
