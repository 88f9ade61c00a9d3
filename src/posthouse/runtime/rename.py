"""Gives the queue manager of a stopped home another computer name."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from posthouse.engine.machine.computer_name import checked_name, first_name, kept_name
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import QueueRole
from posthouse.model.errors import InvalidParameter
from posthouse.model.properties import QueueType
from posthouse.runtime.home import STORE, Home, Started, engine_settings, start_manager
from posthouse.runtime.ports import PortSet
from posthouse.runtime.settings.file import SETTINGS_NAME, read_settings
from posthouse.runtime.settings.settings import Settings
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore


class Renamed(NamedTuple):
    """What a rename did, and what it left to its operator."""

    home: str
    old: str
    name: str
    queues: int  # whose path names have changed, journals and subqueues not counted
    public_queues: int  # of these: in the directory, too
    outgoing_messages: int  # that wait for other computers with the old name in them
    has_certificate: bool  # made for the old name
    notes: tuple[str, ...]


def rename(home: Path, name: str, config: Path | None = None) -> Renamed:
    """Keeps a new name; raises QueueError, with nothing changed, where that cannot be."""
    checked_name(name, "Choose another one, such as BETA.")
    require_store(home)
    settings = read_settings(config or home / SETTINGS_NAME, must_exist=config is not None)
    taken = Home(home)
    try:
        started = _start(taken, settings, "")
        try:
            old = started.manager.machine.settings.computer_name
            _require_free(started.manager, name)
            found = _look(started.manager)
            if old != name:
                started.driver.run(lambda manager: _keep(manager, name))
        finally:
            started.driver.close()
        # The start under the new name brings the path names and the directory up to it.
        _start(taken, settings, name).driver.close()
    finally:
        taken.close()
    notes = tuple(_notes(old, name, found, settings))
    return Renamed(str(home), old, name, *found, notes)


def current_name(home: Path) -> str:
    """The name that a stopped home keeps, or had at its first start under version 0.1."""
    require_store(home)
    taken = Home(home)
    try:
        store = LogStore(RealDisk(taken.path / STORE), Settings().store)
        state = store.recover().state
        store.close()
        return kept_name(state) or first_name(state)
    finally:
        taken.close()


def require_store(home: Path) -> None:
    """Refuses a folder that is not the home of a queue manager."""
    if not any((home / STORE).glob("*.log")):
        raise InvalidParameter(f"{home} holds no store", "Name the home of a queue manager.")


class _Found(NamedTuple):
    queues: int
    public_queues: int
    outgoing_messages: int
    has_certificate: bool


def _start(home: Home, settings: Settings, name: str) -> Started:
    engine = engine_settings(settings, name, PortSet(settings.queue_manager.ports))
    return start_manager(home, engine, settings.store)


def _require_free(manager: QueueManager, name: str) -> None:
    known = manager.directory.machine_named(name)
    if known is not None and known.identifier != manager.machine.identifier:
        raise InvalidParameter(
            f"the directory has another machine that is named {name}",
            f"Choose another name, or remove it: posthouse directory machine delete {name}.",
        )
    if manager.directory.is_shared and (public := _public(manager)):
        raise InvalidParameter(
            f"{public} public queues of this computer are in a directory that others share, under "
            "its present name",
            "Delete them, rename, and create them under the new name; private queues stay.",
        )


def _public(manager: QueueManager) -> int:
    return sum(
        queue.definition.queue_type is QueueType.PUBLIC and queue.definition.role is QueueRole.PLAIN
        for queue in manager.queues.all()
    )


def _look(manager: QueueManager) -> _Found:
    queues = manager.queues.all()
    return _Found(
        queues=sum(queue.definition.role is QueueRole.PLAIN for queue in queues),
        public_queues=_public(manager),
        outgoing_messages=sum(queue.state.count for queue in manager.queues.outgoing_queues()),
        has_certificate=bool(manager.certificates.own_public_keys()),
    )


def _keep(manager: QueueManager, name: str) -> None:
    manager.machine.keep_name(name)


def _notes(old: str, name: str, found: _Found, settings: Settings) -> list[str]:
    """What does not follow by itself; names that differ in case only are one name to others."""
    if old.casefold() == name.casefold():
        return []
    notes = [
        f"Senders that use {old} in a name reach this queue manager only if [queue_manager] "
        f'aliases has it (aliases = ["{old}"]) and the name still leads to this machine.'
    ]
    if found.outgoing_messages:
        notes.append(
            f"Messages that wait for other computers: {found.outgoing_messages:,}; the names of "
            f"response and administration queues in them still have {old}."
        )
    if found.has_certificate:
        notes.append(
            f"The certificate of this queue manager was made for {old}: make another with "
            "posthouse cert create, and let the others trust it."
        )
    if (wanted := settings.queue_manager.name) and wanted.casefold() != name.casefold():
        notes.append(
            f"The settings name {wanted}: take name out of [queue_manager], or set it to {name}; "
            "the next start is refused until then."
        )
    if settings.directory.source:
        notes.append("The entry in the shared directory follows at the next start.")
    return notes
