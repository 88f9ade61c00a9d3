"""Options of reads and writes: declared in tables, read from what Spark hands over.

Spark gives texts under keys in lower case. Names are compared without regard to case and
underscores; one that no table has is refused with the nearest name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.message_classes import class_code
from posthouse.model.message_columns import DECODED_NAMES, NAMES, READABLE

DEFAULT_URL: Final = "http://127.0.0.1:8816"
TOKEN_FILE_VARIABLE: Final = "POSTHOUSE_TOKEN_FILE"
SPARKS_OWN: Final = ("checkpointLocation", "queryName", "triggerInterval")
"""What Spark adds to the options of a source or sink by itself."""
TABLE_PREFIX: Final = "option."
"""Before the options that a table of the catalog is made with."""

Offsets = dict[str, int]
Position = str | Offsets
RETRY_S: Final = 300.0
FIRST_S: Final = 4.0
"""How long an address is asked that has never answered: it may be mistyped."""
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_BOOLEANS: Final = {"true": True, "false": False}
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_WORDS: Final = {EARLIEST: -2, LATEST: -1}


class Option(NamedTuple):
    """One option: how its text is read, and what counts where it is not given."""

    name: str
    read: Callable[[str], Any]
    default: Any
    meaning: str

    @property
    def key(self) -> str:
        """The name as it is compared."""
        return folded(self.name)


def folded(name: str) -> str:
    """Without case and underscores: `correlationId` is `correlation_id`."""
    return name.replace("_", "").lower()


def taken(options: Mapping[str, str], table: Iterable[Option]) -> dict[str, Any]:
    """The values of all options of a table by name; whatever is wrong is said in one error."""
    known = {option.key: option for option in table}
    if any(key.lower().startswith(TABLE_PREFIX) for key in options):
        raise InvalidParameter(
            "Spark forgets the options of a table in its catalog before it reads it",
            "Make a temporary view: CREATE TEMPORARY VIEW v USING posthouse OPTIONS (...).",
        )
    given = {folded(key): (key, text) for key, text in options.items()}
    wrong = [
        _unknown(key, known.values())
        for short, (key, _) in given.items()
        if short not in known and short not in map(folded, SPARKS_OWN)
    ]
    values = {option.name: option.default for option in known.values()}
    for short in known.keys() & given.keys():
        option, text = known[short], given[short][1]
        try:
            values[option.name] = option.read(text)
        except ValueError as error:
            wrong.append(f"option {option.name} is {text!r}: {error}")
    if wrong:
        raise InvalidParameter(
            "; ".join(sorted(wrong)), "The options are listed in docs/spark-options.md."
        )
    return values


def _unknown(key: str, known: Iterable[Option]) -> str:
    names = {option.key: option.name for option in known}
    near = get_close_matches(folded(key), names, n=1, cutoff=0.5)
    hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(names.values())}"
    return f"unknown option {key}: {hint}"


def text(value: str) -> str:
    """A text that is not empty."""
    if not value.strip():
        raise ValueError("it is empty")
    return value.strip()


def texts(value: str) -> tuple[str, ...]:
    """A list: texts between commas, or as JSON where one of them has a comma."""
    if value.lstrip().startswith("["):
        read = json.loads(value)
        if not all(isinstance(item, str) for item in read):
            raise ValueError("a JSON list of texts is wanted")
    else:
        read = value.split(",")
    items = tuple(dict.fromkeys(item.strip() for item in read if item.strip()))
    if not items:
        raise ValueError("it names nothing")
    return items


def boolean(value: str) -> bool:
    """True or false."""
    try:
        return _BOOLEANS[value.strip().lower()]
    except KeyError:
        raise ValueError("true or false is wanted") from None


def positive(value: str) -> int:
    """A whole number above zero."""
    if not re.fullmatch(r"\s*\d{1,18}\s*", value) or not int(value):
        raise ValueError("a whole number from 1 is wanted")
    return int(value)


def size(value: str) -> int:
    """A number of bytes: `1048576`, `1m`, `64 MiB`."""
    match = re.fullmatch(r"\s*(\d{1,15})\s*([kmg]?)(?:i?b)?\s*", value.lower())
    if match is None or not int(match.group(1)):
        raise ValueError("a number of bytes is wanted, such as 1048576 or 8m")
    return int(match.group(1)) * _UNITS[match.group(2)]


def seconds(value: str) -> float:
    """A time span in seconds."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86_400:
        raise ValueError("a number of seconds above 0 is wanted")
    return number


def patience(value: str) -> float:
    """A time span in seconds that may be nothing."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 86_400:
        raise ValueError("a number of seconds from 0 to 86400 is wanted")
    return number


def moment(value: str) -> float:
    """A point in time as seconds since 1970, UTC: ISO 8601, or milliseconds as Spark has them."""
    if re.fullmatch(r"\s*\d{1,15}\s*", value):
        return int(value) / 1000
    try:
        read = datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError("a time as 2026-01-31T12:00:00Z or in milliseconds is wanted") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def choice(*words: str) -> Callable[[str], str]:
    """One of some words, in any case."""
    by_key = {word.lower(): word for word in words}

    def read(value: str) -> str:
        try:
            return by_key[value.strip().lower()]
        except KeyError:
            raise ValueError(f"one of {', '.join(words)} is wanted") from None

    return read


def position(value: str) -> Position:
    """`earliest`, `latest`, or JSON: by queue the lookup id after which to begin, or a word.

    The offset that a stream shows in its progress is understood too.
    """
    word = value.strip().lower()
    if word in _WORDS:
        return word
    try:
        read: Any = json.loads(value)
        return {queue: _offset(number) for queue, number in read.get("queues", read).items()}
    except (AttributeError, ValueError):
        raise ValueError(
            'earliest, latest or JSON such as {"ALPHA\\\\private$\\\\orders": 17} is wanted'
        ) from None


def _offset(number: object) -> int:
    """A lookup id; -2 and -1 stand for the first and for the last, as elsewhere in Spark."""
    read = _WORDS.get(number) if isinstance(number, str) else number
    if not isinstance(read, int) or isinstance(read, bool) or not -2 <= read < 1 << 63:
        raise ValueError
    return read


def numbers(most: int) -> Callable[[str], tuple[int, ...]]:
    """Numbers between commas, up to the highest."""

    def read(value: str) -> tuple[int, ...]:
        found = tuple(int(item) for item in texts(value))
        if not all(0 <= number <= most for number in found):
            raise ValueError(f"0 to {most} are wanted")
        return found

    return read


def classes(value: str) -> tuple[int, ...]:
    """The codes of message classes between commas."""
    try:
        return tuple(class_code(item) for item in texts(value))
    except QueueError as error:
        raise ValueError(error.cause) from None


def columns(value: str) -> tuple[str, ...]:
    """Some columns of messages."""
    names = texts(value)
    for name in names:
        if name not in READABLE:
            near = get_close_matches(name, READABLE, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"there is no column {name}{hint}")
    return names


CONNECTION: Final = (
    Option("url", texts, (DEFAULT_URL,), "admin endpoints of queue managers"),
    Option("tokenFile", texts, (), "files with their tokens: one for all, or one for each url"),
    Option("caFile", text, None, "certificates to trust, for https"),
    Option("timeout", seconds, 30.0, "seconds to wait for an answer"),
    Option("retryFor", patience, None, "seconds to keep trying if one does not answer; 0: none"),
    Option("transport", choice("posthouse", "msmq"), "posthouse", "how to reach it"),
)
SOURCE: Final = (
    *CONNECTION,
    Option("queue", texts, (), "queues to read"),
    Option("path", texts, (), "another name for queue: the argument of load()"),
    Option("queuePattern", text, "", "pattern with * and ? for the names of queues"),
    Option("startingOffsets", position, EARLIEST, "where to begin: earliest, latest or JSON"),
    Option(
        "startingTimestamp", moment, None, "begin with messages that arrived at this time or later"
    ),
    Option("endingOffsets", position, LATEST, "where a batch read ends: latest or JSON"),
    Option(
        "endingTimestamp",
        moment,
        None,
        "batch reads: leave out messages that arrived at this time or later",
    ),
    Option("maxMessagesPerTrigger", positive, None, "messages in one micro-batch, at most"),
    Option("maxOffsetsPerTrigger", positive, None, "Kafka's name for maxMessagesPerTrigger"),
    Option("maxBytesPerTrigger", size, None, "bytes in one micro-batch, at most"),
    Option("minPartitions", positive, None, "partitions to make, at least"),
    Option("maxRecordsPerPartition", positive, None, "messages in one partition, at most"),
    Option(
        "consume",
        choice("none", "onCommit"),
        "none",
        "remove messages from the queue once they are committed",
    ),
    Option("group", text, "", "name of the durable position"),
    Option("checkpoint", text, "", "the stream's checkpoint, to be synced"),
    Option("failOnDataLoss", boolean, True, "fail if messages were removed before they were read"),
    Option("includeBody", boolean, True, "the column body"),
    Option("includeBodyText", boolean, False, "the column body_text"),
    Option("includeExtension", boolean, True, "the column extension"),
    Option("decode", boolean, False, "columns of what is in bodies and headers"),
    Option("bodyJson", choice("variant", "string"), "variant", "the type of body_json"),
    Option("columns", columns, (), "only these columns"),
    Option("priorities", numbers(7), (), "batch reads: only messages of these priorities"),
    Option("classes", classes, (), "batch reads: only messages of these classes"),
    Option("pushdown", boolean, False, "batch reads: let the queue manager apply filters"),
)


class Manager(NamedTuple):
    """How to reach one queue manager. Pickled into tasks: it holds no secret."""

    url: str
    token_file: str | None
    ca_file: str | None
    timeout_s: float
    retry_s: float = RETRY_S
    first_s: float = FIRST_S  # before its first answer


class SourceOptions(NamedTuple):
    """The options of a read, checked against each other."""

    managers: tuple[Manager, ...]
    queues: tuple[str, ...]
    queue_pattern: str
    starting: Position
    starting_time_s: float | None
    ending: Position
    max_messages: int | None
    max_bytes: int | None
    min_partitions: int | None
    max_records: int | None
    consume: bool
    group: str
    checkpoint: str
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    pushdown: bool
    json_as_text: bool = False
    ending_time_s: float | None = None
    priorities: tuple[int, ...] = ()
    classes: tuple[int, ...] = ()


def managers(values: Mapping[str, Any]) -> tuple[Manager, ...]:
    """The queue managers that the options of a connection name."""
    urls: tuple[str, ...] = values["url"]
    files: tuple[str | None, ...] = values["tokenFile"]
    files = files or (os.environ.get(TOKEN_FILE_VARIABLE),)
    if len(files) not in (1, len(urls)):
        raise InvalidParameter(
            f"there are {len(urls)} urls and {len(files)} token files",
            "Name one token file for all of them, or one for each.",
        )
    files = files * len(urls) if len(files) == 1 else files
    ca_file, timeout_s = values["caFile"], values["timeout"]
    given = values.get("retryFor")
    patience = (RETRY_S, FIRST_S) if given is None else (given, given)
    return tuple(
        Manager(url.rstrip("/"), file, ca_file, timeout_s, *patience)
        for url, file in zip(urls, files, strict=True)
    )


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a read from Posthouse, all of them checked."""
    values = taken(options, SOURCE)
    _check_source(values)
    return SourceOptions(
        managers=managers(values),
        queues=tuple(whole_name(name) for name in values["queue"] or values["path"]),
        queue_pattern=values["queuePattern"].replace("/", "\\"),
        starting=values["startingOffsets"],
        starting_time_s=values["startingTimestamp"],
        ending=values["endingOffsets"],
        max_messages=values["maxMessagesPerTrigger"] or values["maxOffsetsPerTrigger"],
        max_bytes=values["maxBytesPerTrigger"],
        min_partitions=values["minPartitions"],
        max_records=values["maxRecordsPerPartition"],
        consume=values["consume"] == "onCommit",
        group=values["group"],
        checkpoint=values["checkpoint"],
        fail_on_data_loss=values["failOnDataLoss"],
        columns=chosen_columns(values),
        pushdown=values["pushdown"],
        json_as_text=values["bodyJson"] == "string",
        ending_time_s=values["endingTimestamp"],
        priorities=values["priorities"],
        classes=values["classes"],
    )


def _check_source(values: Mapping[str, Any]) -> None:
    """Options that contradict or want each other."""
    if sum(bool(values[name]) for name in ("queue", "path", "queuePattern")) != 1:
        raise InvalidParameter(
            "a read needs its queues named once",
            'Give the option queue, or load("NAME"), or else queuePattern.',
        )
    if values["maxMessagesPerTrigger"] and values["maxOffsetsPerTrigger"]:
        raise InvalidParameter(
            "maxOffsetsPerTrigger is another name of maxMessagesPerTrigger", "Give one of them."
        )
    if values["startingTimestamp"] is not None and values["startingOffsets"] != EARLIEST:
        raise InvalidParameter(
            "a read needs one starting point", "Give startingOffsets, or else startingTimestamp."
        )
    if values["consume"] != "none" and not values["group"]:
        raise InvalidParameter(
            "a read that consumes needs a group", "Name it with the option group."
        )
    if values["endingOffsets"] == EARLIEST:
        raise InvalidParameter(
            "a read cannot end where it begins", "endingOffsets is latest, or JSON."
        )


def whole_name(name: str) -> str:
    """The path of a queue; a bare name is one of a private queue."""
    path = name.replace("/", "\\")
    return path if "\\" in path or "=" in path else f".\\private$\\{path}"


def chosen_columns(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of `columns`, else all that are not left out."""
    if values["columns"]:
        return tuple(values["columns"])
    left_out = {
        name
        for name, option in (("body", "includeBody"), ("extension", "includeExtension"))
        if not values[option]
    }
    names = tuple(name for name in NAMES if name not in left_out)
    if values["includeBodyText"]:
        names = (*names, "body_text")
    return (*names, *DECODED_NAMES) if values["decode"] else names
