"""`replay --map FILE.py:function`: a function of the user's changes each message, or leaves it out.

The function runs in the command's own process, with the rights of its user: never in a task, and
never for a job. It is tried on every message before the first one is sent.
"""

from __future__ import annotations

import re
import runpy
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, NamedTuple

import pyarrow as pa

from posthouse.client import stages
from posthouse.client.admin_http import BulkHttp
from posthouse.client.bodies import Body, decode_json, decode_text, encode_body
from posthouse.client.stages import Signature
from posthouse.formats import Decoded, decode
from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.text import excerpt
from posthouse.spark.rows.rows import RowMap

PIECE_MAX: Final = 8 << 20  # bytes of bodies and extensions that are staged together
PIECE_ROWS_MAX: Final = 10_000
EXAMPLES_MAX: Final = 5
ERROR_MAX: Final = 300
_ATTEMPT_BITS: Final = 62
_FUNCTION: Final = re.compile(r"(.+\.py):([A-Za-z_]\w*)", re.DOTALL)
_SETTABLE: Final[dict[str, tuple[type, ...]]] = {
    "label": (str,),
    "priority": (int,),
    "correlation_id": (str,),
    "response_queue": (str,),
    "app_specific": (int,),
    "extension": (bytes,),
    "body_type": (int,),
    "time_to_be_received": (int, type(None)),
}
_STAGE: Final = pa.schema(
    [
        ("destination", pa.string()),
        ("delivery", pa.string()),
        ("id", pa.string()),
        ("body", pa.binary()),
        ("body_type", pa.int64()),
        ("label", pa.string()),
        ("priority", pa.int64()),
        ("correlation_id", pa.string()),
        ("response_queue", pa.string()),
        ("app_specific", pa.int64()),
        ("extension", pa.binary()),
        ("time_to_be_received", pa.int64()),
    ]
)
SHOWN: Final = ("body", *_SETTABLE)


class FunctionFailed(QueueError):
    """The function of a replay failed, or gave something that cannot be sent."""

    default_remedy = "Nothing was sent. Correct the function; --dry-run tries it."


class ReplayMessage:
    """A message on its way back to a queue: what a function of `replay --map` gets and returns.

    `body`, `label`, `priority`, `correlation_id`, `response_queue`, `app_specific`, `extension`,
    `body_type` and `time_to_be_received` may be set. A body may be bytes, a text (sent as the body
    type has it), a dict or a list (sent as JSON). The other attributes identify the message.
    """

    __slots__ = ("_row", "body", *_SETTABLE)

    body: Body
    label: str
    priority: int
    correlation_id: str
    response_queue: str
    app_specific: int
    extension: bytes
    body_type: int
    time_to_be_received: int | None

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self.body = bytes(row["body"] or b"")
        self.extension = bytes(row["extension"] or b"")
        self.time_to_be_received = row["time_to_be_received"]
        for name in ("label", "correlation_id", "response_queue"):
            setattr(self, name, row[name] or "")
        for name in ("priority", "app_specific", "body_type"):
            setattr(self, name, row[name] or 0)

    def __repr__(self) -> str:
        return f"<ReplayMessage {self.named}: {self.label!r}>"

    @property
    def id(self) -> str:
        """The identifier that it had: `guid\\ordinal`."""
        return str(self._row["id"] or "")

    @property
    def queue(self) -> str:
        """The queue that it was in."""
        return str(self._row["queue"])

    @property
    def queue_manager(self) -> str:
        """The computer of that queue."""
        return str(self._row["queue_manager"] or "")

    @property
    def lookup_id(self) -> int:
        """Its number there."""
        return int(self._row["lookup_id"])

    @property
    def sent_time(self) -> Any:
        """When it was sent, a datetime."""
        return self._row["sent_time"]

    @property
    def arrived_time(self) -> Any:
        """When it arrived, a datetime."""
        return self._row["arrived_time"]

    @property
    def destination(self) -> str:
        """The queue that it goes to now."""
        return str(self._row["destination"])

    @property
    def named(self) -> str:
        """Which message it is, for people."""
        return f"{self.id} (lookup id {self.lookup_id} of {self.queue})"

    @property
    def text(self) -> str:
        """The body as text; ValueError where it is none."""
        return decode_text(*encode_body(self.body, self.body_type))

    def json(self) -> Any:
        """The value of the JSON body; ValueError where it is not JSON."""
        return decode_json(*encode_body(self.body, self.body_type))

    def decoded(self, code_page: str = "1252") -> Decoded:
        """What is in the message: XML, .NET objects, WCF, headers of message buses."""
        body, body_type = encode_body(self.body, self.body_type)
        return decode(
            body,
            body_type=body_type,
            extension=self.extension,
            label=self.label,
            app_specific=self.app_specific,
            correlation_id=bytes.fromhex(self.correlation_id),
            code_page=code_page,
        )

    def to_row(self) -> dict[str, Any]:
        """It as a row of a stage; what has another type than a message has is refused."""
        body, body_type = encode_body(self.body, self.body_type)
        row = {"body": body, "destination": self.destination, "delivery": self._row["delivery"]}
        for name, types in _SETTABLE.items():
            value = getattr(self, name)
            if not isinstance(value, types) or isinstance(value, bool):
                wanted = " or ".join("None" if one is type(None) else one.__name__ for one in types)
                raise TypeError(f"{name} is {type(value).__name__}, not {wanted}")
            row[name] = value
        return {**row, "body_type": body_type, "id": self.id}


class Example(NamedTuple):
    """A message before the function and after it; None: it is left out."""

    message: str
    before: dict[str, Any]
    after: dict[str, Any] | None


class MapFunction(NamedTuple):
    """A function of the user's, and by what a changed one is known."""

    name: str
    call: Callable[[ReplayMessage], ReplayMessage | None]
    digest: str = ""

    def __call__(self, message: ReplayMessage) -> ReplayMessage | None:
        """The message as it is to be sent; None: not at all."""
        named = message.named
        try:
            with redirect_stdout(sys.stderr):  # --json stays JSON
                found = self.call(message)
            if found is not None:
                if not isinstance(found, ReplayMessage):
                    raise TypeError(
                        f"it returned {type(found).__name__}, not the message and not None"
                    )
                if found.named != named:
                    raise TypeError(f"it returned another message, {found.named}")
                found.to_row()
        except (Exception, SystemExit) as error:
            raise self._failed(named, error) from None
        return found

    def _failed(self, named: str, error: BaseException) -> FunctionFailed:
        frames = [one for one in extract_tb(error.__traceback__) if one.filename != __file__]
        line = f", line {frames[0].lineno}" if frames else ""
        return FunctionFailed(f"{self.name}{line} failed for the message {named}: {why(error)}")


def not_loaded(path: Path, error: BaseException) -> InvalidParameter:
    """What is reported of a file of the user's that cannot be run, with the line of it."""
    lines = [one.lineno for one in extract_tb(error.__traceback__) if one.filename == str(path)]
    line = f", line {lines[-1]}," if lines else ""
    return InvalidParameter(f"{path}{line} cannot be loaded: {why(error)}", "Correct the file.")


def why(error: BaseException) -> str:
    """An error of the user's code in one line."""
    cause = error.cause if isinstance(error, QueueError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {cause[:ERROR_MAX]}" if cause else type(error).__name__


def is_function(text: str) -> bool:
    """Whether a value of `--map` names a function, not a queue."""
    return _FUNCTION.fullmatch(text) is not None


def load_function(text: str) -> MapFunction:
    """The function that `FILE.py:function` names. The code of the file is run."""
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise InvalidParameter(
            f"{excerpt(text)} is not FILE.py:function",
            "Write a file, a colon and a function of it.",
        )
    path, name = Path(found[1]), found[2]
    try:
        content = path.read_bytes()
        made = runpy.run_path(str(path)).get(name)
    except OSError as error:
        raise InvalidParameter(
            f"{path} cannot be read: {error.strerror or error}", "Check the name of the file."
        ) from None
    except (Exception, SystemExit) as error:
        raise not_loaded(path, error) from None
    if not callable(made):
        raise InvalidParameter(f"{path} has no function {name}", "Check its name.")
    digest = sha256(name.encode() + b"\0" + content).hexdigest()
    return MapFunction(f"{path.name}:{name}", made, digest)


class Tried(NamedTuple):
    """What a function makes of all messages, before any is sent."""

    counts: list[list[Any]]  # destination, messages, bytes, first and last arrival in microseconds
    left_out: int
    examples: tuple[Example, ...]


def tried(function: MapFunction, rows: Iterable[Mapping[str, Any]], same_ids: bool) -> Tried:
    """Calls the function for every message, and checks what it returns; nothing is sent."""
    counts: dict[str, list[Any]] = {}
    examples: list[Example] = []
    left_out = 0

    def called() -> Iterator[ReplayMessage]:
        nonlocal left_out
        for row in rows:
            before = shown_values(ReplayMessage(row)) if len(examples) < EXAMPLES_MAX else None
            message = ReplayMessage(row)
            found = function(message)
            if before is not None:
                after = None if found is None else shown_values(found)
                examples.append(Example(message.named, before, after))
            if found is None:
                left_out += 1
            else:
                _count(counts, found)
                yield found

    for piece in pieces(called(), function.name, same_ids):
        del piece  # it was checked
    return Tried(sorted(counts.values()), left_out, tuple(examples))


def shown_values(message: ReplayMessage) -> dict[str, Any]:
    """What a message is about to be sent with, as JSON has it."""
    row = message.to_row()
    decoded = decode(row["body"], body_type=row["body_type"], extension=row["extension"])
    body = decoded.text if decoded.error is None else f"{len(row['body']):,} bytes"
    row["extension"] = bytes(row["extension"]).hex()
    return {**{name: row[name] for name in SHOWN}, "body": body}


def _count(counts: dict[str, list[Any]], message: ReplayMessage) -> None:
    at = round(message.arrived_time.timestamp() * 1e6)
    size = len(encode_body(message.body, message.body_type)[0])
    one = counts.setdefault(message.destination, [message.destination, 0, 0, at, at])
    one[1:] = [one[1] + 1, one[2] + size, min(one[3], at), max(one[4], at)]


def pieces(
    messages: Iterable[ReplayMessage], name: str, same_ids: bool
) -> Iterator[pa.RecordBatch]:
    """Messages as rows of stages, checked, in pieces that are not large."""
    schema = _STAGE if same_ids else _STAGE.remove(_STAGE.get_field_index("id"))
    rows_map = RowMap(schema, {}, same_ids=same_ids)
    kept: list[dict[str, Any]] = []
    names: list[str] = []
    size = 0
    for message in messages:
        row = message.to_row()
        kept.append(row)
        names.append(message.named)
        size += len(row["body"]) + len(row["extension"])
        if size >= PIECE_MAX or len(kept) >= PIECE_ROWS_MAX:
            yield _piece(rows_map, schema, kept, names, name)
            kept, names, size = [], [], 0
    if kept:
        yield _piece(rows_map, schema, kept, names, name)


def _piece(
    rows_map: RowMap, schema: Any, rows: list[dict[str, Any]], names: list[str], function: str
) -> pa.RecordBatch:
    try:
        checked = rows_map.check(pa.RecordBatch.from_pylist(rows, schema))
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise FunctionFailed(
            f"{function} made a message between {names[0]} and {names[-1]} that cannot be "
            f"written: {error}"
        ) from None
    if checked.faults:
        fault = checked.faults[0]
        raise FunctionFailed(
            f"what {function} made of the message {names[fault.row]} cannot be sent: "
            f"{fault.column}: {fault.cause}"
        )
    return checked.batch


def send_mapped(
    http: BulkHttp,
    query: str,
    number: int,
    function: MapFunction,
    rows: Iterable[Mapping[str, Any]],
    same_ids: bool,
) -> int:
    """Sends one batch of a replay through the function, once; how many messages it has.

    A batch that was sent before the last run was cut off stays as it was sent, whatever the
    function makes of it now.
    """
    signature = Signature(content=f"{query}/{number}")
    done: list[tuple[int, int]] = []
    made = (found for row in rows if (found := function(ReplayMessage(row))) is not None)
    for part, piece in enumerate(pieces(made, function.name, same_ids)):
        attempt = secrets.randbits(_ATTEMPT_BITS)
        key = (query, number, part, attempt)
        if stages.stage(http, *key, piece.schema, [piece], "", signature).already:
            break
        done.append((part, attempt))
    return stages.publish(http, query, number, done, signature).messages
