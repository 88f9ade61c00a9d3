"""The computer name of a queue manager: kept in its store from the first start on."""

from __future__ import annotations

import struct
from typing import Final

from posthouse.engine.ledger.records import TABLE_QUEUE
from posthouse.engine.ledger.state import State
from posthouse.engine.machine.identity import kept_record
from posthouse.engine.queues.queue import DEADLETTER, QueueDefinition, QueueType, decode_definition
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import InvalidParameter
from posthouse.model.names import PathName
from posthouse.model.paths import check_computer
from posthouse.model.queue_name_parts import NameFault

START_REMEDY: Final = (
    "Give it another one: posthouse serve --name NAME, or name in [queue_manager]."
)
_U32 = struct.Struct("<I")


class OtherComputerName(InvalidParameter):
    """A start under another name than the one that the home keeps."""


def kept_name(state: State) -> str:
    """The name that a store keeps; empty: it is new, or it is of version 0.1."""
    record = kept_record(state)
    return "" if record is None else record.computer_name


def first_name(state: State) -> str:
    """The name of the first start, which the system queues still have; empty: it is new.

    Version 0.1 kept no other.
    """
    stored = state.definitions.get((TABLE_QUEUE, _U32.pack(DEADLETTER)))
    return "" if stored is None else PathName.parse(decode_definition(stored).pathname).computer


def chosen_name(state: State, wanted: str, host: str, home: str) -> str:
    """The name to start under: the kept one, else the one that is wanted, else the host's.

    Raises OtherComputerName where another one is wanted than is kept, InvalidParameter for a text
    that cannot be a computer name.
    """
    kept = kept_name(state)
    if not kept:
        return checked_name(wanted or first_name(state) or host)
    if wanted and wanted.casefold() != kept.casefold():
        raise OtherComputerName(
            f"the home {home} belongs to the computer {kept}, and the name {wanted} was given",
            f"Leave the name out to start as {kept}; to change it for good: "
            f"posthouse rename {wanted} --home {home}.",
        )
    return kept


def checked_name(name: str, remedy: str = START_REMEDY) -> str:
    """The name itself, where it can be one."""
    try:
        check_computer(name)
    except NameFault as fault:
        raise InvalidParameter(
            f"{name!r} cannot be the name of this computer: {fault}", remedy
        ) from None
    return name


def follow_name(definition: QueueDefinition, settings: EngineSettings) -> bool:
    """Gives a path name the computer's present name; True if it had another.

    Public queues in a shared directory keep theirs: other machines use that path name.
    """
    shared = definition.queue_type is QueueType.PUBLIC and settings.directory.source
    if not definition.pathname or shared:
        return False
    path = PathName.parse(definition.pathname)
    if path.computer == settings.computer_name:
        return False
    definition.pathname = str(path.with_computer(settings.computer_name))
    return True
