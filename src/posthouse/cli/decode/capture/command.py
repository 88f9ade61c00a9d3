"""What `posthouse decode` prints of a capture file, and the copy that it can write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from posthouse.cli.decode.capture.blanking import blanked
from posthouse.cli.decode.capture.offline import OwnAnswer, not_asked, own_answers
from posthouse.cli.decode.capture.transcript import (
    NAMES,
    CaptureFound,
    Line,
    Session,
    read_capture,
)
from posthouse.cli.decode.packets import View, view_packet
from posthouse.cli.decode.value_text import words
from posthouse.cli.output import print_json, say
from posthouse.model.errors import InvalidParameter, RemoteProtocolError
from posthouse.wire.binary.stream import PacketSplitter

SHOWN: Final = {
    "EstablishConnection": ("client_guid", "server_guid", "time_stamp"),
    "ConnectionParameters": ("window_size", "ack_timeout", "recoverable_ack_timeout"),
    "SessionAck": (
        "ack_sequence_number",
        "recoverable_ack_sequence_number",
        "recoverable_ack_flags",
        "window_size",
    ),
    "UserMessage": (
        "destination",
        "message_id",
        "class",
        "sequence_number",
        "previous_sequence_number",
        "admin",
        "label",
        "body",
    ),
    "OrderAck": ("destination", "sequence_number", "previous_sequence_number"),
    "FinalAck": ("destination", "class", "sequence_number"),
    "HTTP response": ("status_line",),
    "HTTP request": ("request_line",),
    "NCP Reply": ("sequence", "completion"),
}
ALWAYS: Final = ("request_line", "to", "action", "id", "current", "previous", "body")
HIDDEN: Final = ("token", "size", "reserved", "length", "signed", "data")
EMPTY: Final[tuple[Any, ...]] = (None, "", b"", [], {}, "00000000-0000-0000-0000-000000000000")
_KIND: Final = 24


class CaptureOptions(NamedTuple):
    """How a capture is shown."""

    json: bool
    answers: bool = True
    blank_to: Path | None = None


def decode_capture(data: bytes, options: CaptureOptions) -> None:
    """Prints every session; with `blank_to` it writes the copy instead."""
    found = read_capture(data)
    if options.blank_to is not None:
        _write_copy(data, found, options.blank_to)
        return
    for number, session in enumerate(found.sessions, 1):
        answers = own_answers(session) if options.answers else []
        if options.json:
            _print_session_json(number, session, answers, options)
        else:
            _print_session(number, session, answers, options)
    if options.json:
        print_json({"passed_over": found.passed_over, "cut": found.cut})
    else:
        _print_rest(found)


def _write_copy(data: bytes, found: CaptureFound, target: Path) -> None:
    if target.exists():
        raise InvalidParameter(f"{target} already exists", "Name a new file.")
    if not found.sessions:
        raise InvalidParameter("the capture has no session of our protocols", "Nothing is written.")
    copy = blanked(data, found)
    target.write_bytes(copy)
    again = read_capture(copy)
    lines = sum(len(session.lines) for session in again.sessions)
    say(
        f"{target}: {len(again.sessions)} sessions, {lines} messages, {len(copy):,} bytes. Bodies, "
        "extensions, tokens and passwords are blank; names, labels and addresses are not."
    )


# -- for people


def _print_session(
    number: int, session: Session, answers: list[OwnAnswer], options: CaptureOptions
) -> None:
    when = datetime.fromtimestamp(session.at_us / 1e6, UTC).isoformat(timespec="milliseconds")
    say(
        f"Session {number}: {NAMES[session.protocol]}, {session.client} -> {session.server}, {when}"
    )
    if not session.begun:
        say("  # The beginning of the connection was not captured.")
    for at_us, mark, text in _merged(session, answers):
        say(f"{(at_us - session.at_us) / 1e6:9.3f} {mark} {text}")
    if session.end:
        say(f"  # The connection is {session.end}.")
    if options.answers and (why := not_asked(session)):
        say(f"  # What Posthouse would have answered: {why}.")
    say("")


def _merged(session: Session, answers: list[OwnAnswer]) -> list[tuple[int, str, str]]:
    """Messages as they came, and ours after what they answer."""
    rows = [
        (line.at_us, ">" if line.from_client else "<", text)
        for line in session.lines
        for text in _line_texts(line)
    ]
    rows += [(one.at_us, "=", text) for one in answers for text in _answer_texts(session, one)]
    return sorted(rows, key=lambda row: row[0])


def _line_texts(line: Line) -> list[str]:
    texts = [f"# {line.lost:,} bytes are missing here."] if line.lost else []
    if line.view is None:
        return [*texts, f"# {line.size:,} bytes cannot be read: {line.problem}."]
    return [*texts, _told(line.view)]


def _answer_texts(session: Session, answer: OwnAnswer) -> list[str]:
    if answer.closed:
        return [f"Posthouse {answer.closed}"]
    return [_told(view) for view in _answer_views(session, answer)]


def _answer_views(session: Session, answer: OwnAnswer) -> list[View]:
    if session.protocol == "http":
        first = answer.data.partition(b"\r\n")[0].decode("latin-1")
        return [View(first, "", [])]
    return [view_packet(packet) for packet in PacketSplitter().feed(answer.data)]


def _told(view: View) -> str:
    fields = "  ".join(f"{name}={words(value, name)}" for name, value in told_fields(view).items())
    return f"{view.kind:<{_KIND}} {fields}".rstrip()


def told_fields(view: View) -> dict[str, Any]:
    """The fields that a line has; `--json` has all of them."""
    values: dict[str, Any] = {}
    for header in view.headers:
        for name, value in header.fields.items():
            values.setdefault(name, value)
    shown = SHOWN.get(view.kind)
    if shown is None:
        names = ALWAYS if view.kind.startswith("SRMP") else values
        return {n: values[n] for n in names if n in values and _matters(n, values[n])}
    return {name: values[name] for name in shown if _matters(name, values.get(name))}


def _matters(name: str, value: Any) -> bool:
    return name not in HIDDEN and value not in EMPTY


def _print_rest(found: CaptureFound) -> None:
    if not found.sessions:
        say("No session of our protocols was found.")
    for what, count in sorted(found.passed_over.items()):
        say(f"# Passed over: {count:,} {what}.")
    if found.cut:
        say(f"# The file ends early: {found.cut}.")


# -- for machines


def _print_session_json(
    number: int, session: Session, answers: list[OwnAnswer], options: CaptureOptions
) -> None:
    ends = {"client": str(session.client), "server": str(session.server)}
    head = {"session": number, "protocol": session.protocol, **ends}
    more = {"begun": session.begun, "end": session.end, "time": session.at_us / 1e6}
    asked = {"answers": not_asked(session) or "asked"} if options.answers else {}
    print_json(head | more | asked)
    for line in session.lines:
        print_json(head | _line_json(line))
    for answer in answers:
        print_json(head | _answer_json(session, answer))


def _line_json(line: Line) -> dict[str, Any]:
    way = "client" if line.from_client else "server"
    row: dict[str, Any] = {"from": way, "time": line.at_us / 1e6, "size": line.size}
    if line.lost:
        row["missing"] = line.lost
    if line.view is None:
        return row | {"problem": line.problem}
    return row | _view_json(line.view)


def _view_json(view: View) -> dict[str, Any]:
    rows = [header._asdict() for header in view.headers]
    return {"kind": view.kind, "section": view.section, "headers": rows}


def _answer_json(session: Session, answer: OwnAnswer) -> dict[str, Any]:
    row: dict[str, Any] = {"from": "posthouse", "time": answer.at_us / 1e6}
    if answer.closed:
        return row | {"kind": answer.closed}
    try:
        return row | {"packets": [_view_json(view) for view in _answer_views(session, answer)]}
    except RemoteProtocolError as error:  # a packet of ours that our own reader refuses
        return row | {"problem": str(error)}
