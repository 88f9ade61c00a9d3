"""`posthouse message export|import`: messages as lines of JSON in a file, and back."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import typer
from msgspec import Meta

from posthouse.api.sends import Acknowledgment, Delivery, Journaling
from posthouse.api.types import (
    BODY_SIZE_MAX,
    U32,
    OptionalName,
)
from posthouse.cli.command import DryRun, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.messages.selection import (
    LookupIds,
    Source,
    Where,
    check,
    count_of,
    found_messages,
)
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import json_line, partly, print_json, say, whole_file
from posthouse.cli.progress import bar
from posthouse.client.packets import Draft
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.message_json import MessageJson, text_body
from posthouse.model.text import counted, excerpt

STANDARD: Final = "-"
LINE_SIZE_MAX: Final = 8 * BODY_SIZE_MAX  # the body in base64, and as text with escapes
VALUES: Final = "Correct that field: `posthouse peek QUEUE --json` shows how fields are written."
JSON_WANTED: Final = (
    'Each line is one message as JSON, such as {"label": "order 1", "body_text": "<order/>"}; '
    "`posthouse message export` writes such a file. To send each line of a text as a body: "
    "`posthouse send QUEUE --lines FILE`."
)
AT_ONCE: Final = 500  # messages of one portion, and of one transaction


class Line(msgspec.Struct):
    """What an import takes from a line: all that a sender sets.

    Other fields are passed over, but for those that look like one of these.
    """

    label: Annotated[str, Meta(max_length=249)] = ""
    body: bytes | None = None
    body_text: str | None = None
    body_type: U32 = 0
    priority: Annotated[int, Meta(ge=0, le=7)] = 3
    delivery: Delivery = "express"
    correlation_id: Annotated[str, Meta(pattern="^([0-9a-fA-F]{40})?$")] = ""
    admin_queue: OptionalName = ""
    response_queue: OptionalName = ""
    acknowledge: list[Acknowledgment] = []
    journal: list[Journaling] = []
    app_specific: U32 = 0
    connector_type: Annotated[str, Meta(max_length=38)] = ""
    trace: OptionalName = ""
    time_to_be_received: U32 | None = None
    extension: bytes | None = None
    body_file: str | None = None
    body_size: int = 0

    def draft(self, folder: Path | None) -> Draft:
        """The message to send; its body may be in a file of the folder."""
        return Draft(
            self._body(folder),
            label=self.label,
            body_type=self.body_type,
            priority=self.priority,
            recoverable=self.delivery != "express",
            correlation=self.correlation_id,
            admin_queue=self.admin_queue,
            response_queue=self.response_queue,
            ack=tuple(self.acknowledge),
            journal="positive" in self.journal,
            dead_letter="negative" in self.journal,
            app_specific=self.app_specific,
            connector_type=self.connector_type,
            trace=self.trace,
            time_to_be_received=self.time_to_be_received,
            extension=self.extension or b"",
        )

    def _body(self, folder: Path | None) -> bytes:
        if self.body is not None:
            return self.body
        if self.body_text is None and self.body_file is not None and folder is not None:
            return (folder / Path(self.body_file).name).read_bytes()
        if self.body_text is None and self.body_size:
            raise IllegalPropertyValue(
                f"the message has a body of {self.body_size:,} bytes, and it is not in the line",
                "Import the folder that `posthouse receive --out` wrote, or the JSON file in it.",
            )
        return text_body(self.body_text or "", self.body_type)


_decoder = msgspec.json.Decoder(Line)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KNOWN: Final = frozenset({*Line.__struct_fields__, *MessageJson.__struct_encode_fields__})
_BODY: Final = frozenset({"body", "body_text", "body_file"})
LIKENESS: Final = 0.8  # of a name to that of a field; less where the line has no body


def register(app: typer.Typer) -> None:
    """Add the commands to `posthouse message`."""
    app.command("export")(export)
    app.command("import")(import_messages)


# -- export


@talking
def export(
    remote: Remote,
    source: Source,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="New file; - writes to standard output.")
    ],
    where: Where = None,
    lookup_ids: LookupIds = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
) -> None:
    """Write messages to a file as lines of JSON, bodies in base64. They stay in the queue.

    The file appears when it is complete, and a new one can be read by you alone. `message import`
    sends its messages again.

    Example: posthouse message export './private$/orders' orders.jsonl --where 'priority >= 5'
    """
    check(where, lookup_ids)
    if file.exists() and not overwrite and str(file) != STANDARD:
        raise typer.BadParameter(f"{file} already exists; name another, or use --overwrite")
    total = count_of(remote, source)
    done = 0
    kept = "lines were written" if str(file) == STANDARD else f"and {file} was not written"

    def stopped() -> str:
        return f"Stopped after {done:,} of {counted(total, 'message')}, {kept}. Run it again."

    with (
        partly(lambda: "", stopped),
        _writing(file) as out,
        bar("exporting", total, quiet=remote.json) as advance,
    ):
        for message in _messages(remote, source, where, lookup_ids):
            out.write(json_line(message).encode() + b"\n")
            done += 1
            advance(done, total)
    if str(file) == STANDARD:
        return
    if remote.json:
        print_json({"file": str(file), "messages": done})
    else:
        say(f"Exported {counted(done, 'message')} to {file}.")


def _messages(
    remote: Remote, source: str, where: str | None, lookup_ids: list[int] | None
) -> Iterator[MessageJson]:
    if not lookup_ids:
        yield from found_messages(remote, source, where, bodies=True)
        return
    for lookup_id in dict.fromkeys(lookup_ids):
        path = path_of("queues", source, "messages", str(lookup_id))
        yield remote.ask(MessageJson, "GET", path)


@contextmanager
def _writing(file: Path) -> Iterator[BinaryIO]:
    """The output, or a file that takes its name when it is whole."""
    if str(file) == STANDARD:
        yield sys.stdout.buffer
        return
    with whole_file(file, private=True) as out:
        yield out


# -- import


@talking
def import_messages(
    remote: Remote,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File of JSON lines, - for standard input, or a folder that `receive --out` "
            "wrote.",
        ),
    ],
    destination: Annotated[
        str, typer.Argument(metavar="DEST", parser=full_name, help="Queue to send the messages to.")
    ],
    dry_run: DryRun = False,
) -> None:
    """Send the messages of a file that `message export` wrote, as new messages.

    Properties that a sender sets are kept; identifier, times and lookup id are new. You can write
    lines by hand: `body_text` or `body` is enough. A folder of `posthouse receive --out` is sent in
    the order of its file names. A file is checked before its first message is sent.

    Example: posthouse message import orders.jsonl './private$/orders' --dry-run
    """
    total = 0
    if dry_run or str(file) != STANDARD:
        total = sum(1 for _ in _drafts(file))
    done = 0
    if not dry_run:
        done = _send(remote, destination, _drafts(file), total)
    result = {"messages": total if dry_run else done, "dry_run": dry_run}
    if remote.json:
        print_json(result)
    elif dry_run:
        say(f"Would send {counted(total, 'message')} to {destination}. Nothing was changed.")
    else:
        say(f"Sent {counted(done, 'message')} to {destination}.")


def _drafts(source: Path) -> Iterator[tuple[bool, Draft]]:
    """Each message, and whether it was sent in a transaction; an error names its place."""
    if str(source) == STANDARD:
        yield from _drafts_of(sys.stdin.buffer, None, "")
        return
    files = sorted(source.glob("*.json")) if source.is_dir() else [source]
    if not files:
        raise typer.BadParameter(f"{source} has no messages: `posthouse receive --out` writes some")
    for file in files:
        with file.open("rb") as lines:
            yield from _drafts_of(lines, file.parent, f"{file}: " if file != source else "")


def _drafts_of(lines: BinaryIO, folder: Path | None, place: str) -> Iterator[tuple[bool, Draft]]:
    number = 0
    while text := lines.readline(LINE_SIZE_MAX):
        number += 1
        if text.strip():
            yield _draft(text, folder, f"{place}line {number}")


def _draft(text: bytes, folder: Path | None, place: str) -> tuple[bool, Draft]:
    if len(text) >= LINE_SIZE_MAX:
        raise IllegalPropertyValue(f"{place} is longer than a message can be")
    try:
        line = _decoder.decode(text)
        _check_fields(_fields.decode(text))
        return line.delivery == "transactional", line.draft(folder)
    except msgspec.ValidationError as error:
        raise IllegalPropertyValue(f"{place}: {error}", VALUES) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise IllegalPropertyValue(f"{place}: {error}", JSON_WANTED) from None
    except IllegalPropertyValue as error:
        raise IllegalPropertyValue(f"{place}: {error.cause}", error.remedy) from None


def _check_fields(given: Iterable[str]) -> None:
    """Refuses a name that was written wrong: a property, or the body, would not be sent."""
    names = set(given)
    likeness = LIKENESS if names & _BODY else 0.6
    for name in sorted(names - _KNOWN):
        word = name[:64].lower()
        near = difflib.get_close_matches(word, Line.__struct_fields__, 1, likeness)
        if near or not names & _KNOWN:
            hint = f"Did you mean {near[0]}?" if near else VALUES
            raise IllegalPropertyValue(f"{excerpt(name)} is not a field of a message", hint)


def _send(
    remote: Remote, destination: str, drafts: Iterator[tuple[bool, Draft]], total: int
) -> int:
    """In portions; where transactions are needed each portion is one."""
    queue, needed, done = remote.queue(destination), remote.needs_transactions(destination), 0

    def stopped() -> str:
        """The portion that was under way may be sent or not."""
        of = f" of {counted(total, 'message')}" if total else " messages"
        return (
            f"Sent {done:,} to {done + AT_ONCE:,}{of}, in the order of the file. Running it again "
            f"sends those once more: import only the lines that are not in {destination} yet."
        )

    with (
        partly(lambda: f"Sent about {counted(done, 'message')}" if done else "", stopped),
        bar("importing", total, quiet=remote.json) as advance,
    ):
        while portion := list(islice(drafts, AT_ONCE)):
            for was, alike in groupby(portion, lambda one: one[0]):
                transactional = was if needed is None else needed
                messages = [draft for _, draft in alike]
                queue.send_many(messages, transactional=transactional)
                done += len(messages)
                advance(done, total)
    return done
