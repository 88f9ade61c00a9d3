"""Get Queue Path ([MS-MQDMPR] 3.1.7.1.26): where a format name leads."""

from typing import NamedTuple

from posthouse.directory.base import equals
from posthouse.directory.objects import Queue, QueueManager
from posthouse.directory.service import DirectoryService, LocalObjects
from posthouse.model.errors import IllegalFormatName
from posthouse.model.names import DirectName, FormatName, PrivateName, PublicName
from posthouse.model.properties import QueueType


class QueuePath(NamedTuple):
    """Path name and computer of a queue; empty where they cannot be known."""

    path_name: str = ""
    machine_name: str = ""


def get_queue_path(
    name: FormatName, service: DirectoryService, local: LocalObjects, now_ms: int
) -> QueuePath:
    """Path name and machine of a direct, public or private name; nothing for other kinds."""
    if isinstance(name, DirectName):
        return QueuePath(str(name.path) if name.path else "", name.machine)
    if isinstance(name, PublicName):
        return _public(name, service, now_ms)
    if isinstance(name, PrivateName):
        return _private(name, service, local, now_ms)
    return QueuePath()


def _public(name: PublicName, service: DirectoryService, now_ms: int) -> QueuePath:
    queue = service.read_directory(Queue, equals("identifier", name.guid), now_ms).value
    if queue is None:
        raise IllegalFormatName(f"{name} is not in the directory")
    # The document asks a reference that the directory does not hold; the path has the computer.
    return QueuePath(queue.pathname, queue.computer_name)


def _private(
    name: PrivateName, service: DirectoryService, local: LocalObjects, now_ms: int
) -> QueuePath:
    machine = service.read_directory(QueueManager, equals("identifier", name.guid), now_ms).value
    if machine is None:
        raise IllegalFormatName(f"the queue manager of {name} is not in the directory")
    path_name = ""
    if machine.identifier == local.own_queue_manager().identifier:
        path_name = next(
            (queue.pathname for queue in local.local_queues() if _is_meant(queue, name)), ""
        )
    return QueuePath(path_name, machine.computer_name)


def _is_meant(queue: Queue, name: PrivateName) -> bool:
    return queue.queue_type is QueueType.PRIVATE and queue.private_queue_number == name.number
