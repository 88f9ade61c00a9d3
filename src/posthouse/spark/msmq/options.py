"""The options of `transport=msmq`: queues of any MSMQ, Windows included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import posthouse
from posthouse.model.errors import InvalidParameter
from posthouse.spark.options import (
    CONNECTION,
    EARLIEST,
    LATEST,
    SOURCE,
    Manager,
    Option,
    choice,
    chosen_columns,
    folded,
    managers,
    positive,
    taken,
    text,
    texts,
)
from posthouse.spark.sink_options import WRITE, Writing, destination, writing

BINARY_PORT: Final = 1801
EPM_PORT: Final = 135
CONSUME_MAX: Final = 10_000  # messages of a batch, whose identifiers its offset lists


def _port(value: str) -> int:
    number = positive(value)
    if number > 0xFFFF:
        raise ValueError("a port from 1 to 65535 is wanted")
    return number


def _queue(value: str) -> str:
    """A queue of the computer, such as `private$\\orders`, or a direct name."""
    name = text(value).replace("/", "\\") if "=" not in value else text(value)
    destination(name if "=" in name or name.startswith(".") else f".\\{name}")
    return name


_BY_NAME: Final = {option.name: option for option in (*CONNECTION, *SOURCE)}
_SHARED: Final = tuple(_BY_NAME[name] for name in ("transport", "timeout"))
MACHINE: Final = (
    *_SHARED,
    Option("host", text, "", "the computer"),
    Option("user", text, None, "user who reads the queues: NAME or DOMAIN\\NAME"),
    Option("passwordFile", text, None, "a file whose first line is the password"),
    Option("rpcPort", _port, None, "port of remote read (default: the endpoint mapper is asked)"),
    Option("epmPort", _port, EPM_PORT, "the endpoint mapper"),
    Option("binaryPort", _port, BINARY_PORT, "where messages are sent to"),
    Option("authentication", choice("privacy", "integrity", "connect", "none"), None, "how"),
    Option("mechanism", choice("negotiate", "ntlm", "kerberos"), "negotiate", "by what"),
)
MSMQ_SOURCE: Final = (
    *MACHINE,
    Option("queue", texts, (), "queues to read, such as private$\\orders"),
    Option("startingOffsets", choice(EARLIEST, LATEST), EARLIEST, "where a stream begins"),
    *(
        _BY_NAME[name]
        for name in (
            "maxMessagesPerTrigger",
            "maxOffsetsPerTrigger",
            "minPartitions",
            "consume",
            "includeBody",
            "includeBodyText",
            "includeExtension",
            "decode",
            "bodyJson",
            "columns",
        )
    ),
)
_CONNECTION_OF_SINK: Final = (
    Option("url", text, "", "a local queue manager that keeps and delivers what is written"),
    *(_BY_NAME[name] for name in ("tokenFile", "caFile")),
)
MSMQ_SINK: Final = (
    *MACHINE,
    *_CONNECTION_OF_SINK,
    *(option._replace(read=_queue) if option.read is destination else option for option in WRITE),
)


class Machine(NamedTuple):
    """How to reach the computer. Pickled into tasks: the password stays in its file."""

    host: str
    user: str | None
    password_file: str | None
    rpc_port: int | None
    epm_port: int
    binary_port: int
    authentication: Any
    mechanism: Any
    timeout_s: float

    def connect(self, prefetch: int = 0) -> posthouse.RemoteQueueManager:
        """Its queue manager, straight."""
        return posthouse.msmq(
            self.host,
            user=self.user,
            password=self._password(),
            binary_port=self.binary_port,
            rpc_port=self.rpc_port,
            epm_port=self.epm_port,
            authentication=self.authentication,
            mechanism=self.mechanism,
            prefetch=prefetch,
            timeout=self.timeout_s,
            reconnect=self.timeout_s,
        )

    def _password(self) -> str | None:
        if self.password_file is None:
            return None
        try:
            lines = Path(self.password_file).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise InvalidParameter(
                f"the password file {self.password_file} cannot be read: {error.strerror}",
                "It has to be there on every machine that runs tasks.",
            ) from error
        return lines[0] if lines else ""


class MsmqSource(NamedTuple):
    """The options of a read, checked against each other."""

    machine: Machine
    queues: tuple[str, ...]
    starting: str
    max_messages: int | None
    partitions: int
    consume: bool
    columns: tuple[str, ...]
    json_as_text: bool = False


class MsmqSink(NamedTuple):
    """The options of a write; with a manager, by way of it."""

    machine: Machine
    manager: Manager | None
    writing: Writing


def is_msmq(options: Mapping[str, str]) -> bool:
    """Whether the options ask for this transport."""
    given = {folded(name): value for name, value in options.items()}
    return given.get("transport", "").strip().lower() == "msmq"


def _machine(values: Mapping[str, Any]) -> Machine:
    if not values["host"]:
        raise InvalidParameter("transport=msmq needs a computer", "Name it with the option host.")
    asks_password = values["user"] is not None and values["mechanism"] != "kerberos"
    if asks_password and values["passwordFile"] is None:
        raise InvalidParameter("a user needs a password", "Name a passwordFile.")
    return Machine(
        values["host"],
        values["user"],
        values["passwordFile"],
        values["rpcPort"],
        values["epmPort"],
        values["binaryPort"],
        values["authentication"],
        values["mechanism"],
        values["timeout"],
    )


def msmq_source(options: Mapping[str, str]) -> MsmqSource:
    """The options of a read from any MSMQ, all of them checked."""
    values = taken(options, MSMQ_SOURCE)
    if not values["queue"]:
        raise InvalidParameter("a read names its queues", "Give the option queue.")
    consume = values["consume"] != "none"
    if consume and values["startingOffsets"] == LATEST:
        raise InvalidParameter(
            "a stream that consumes begins with what is there", "Leave startingOffsets out."
        )
    return MsmqSource(
        _machine(values),
        tuple(name.replace("/", "\\") for name in values["queue"]),
        values["startingOffsets"],
        values["maxMessagesPerTrigger"] or values["maxOffsetsPerTrigger"],
        values["minPartitions"] or 1,
        consume,
        chosen_columns(values),
        values["bodyJson"] == "string",
    )


def msmq_sink(options: Mapping[str, str]) -> MsmqSink:
    """The options of a write to any MSMQ, all of them checked."""
    values = taken(options, MSMQ_SINK)
    manager = None
    if values["url"]:
        manager = managers({**values, "url": (values["url"],)})[0]
    return MsmqSink(_machine(values), manager, writing(values))
