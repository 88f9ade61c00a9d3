"""A small enterprise for the tests: an embedded directory and a local queue manager."""

from collections.abc import Iterable
from typing import ClassVar

from hypothesis import strategies as st

from posthouse.directory.embedded import EmbeddedDirectory
from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.directory.service import DirectoryService, DirectoryTimers
from posthouse.model.properties import (
    DirectoryOperationResult,
    DirectoryServerType,
    OperatingSystemType,
    QueuePrivacyLevel,
    QueueType,
)
from posthouse.security.sids import make_sid

SUCCESS = DirectoryOperationResult.SUCCESS
NOT_CONNECTED = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND
NO_ATTRIBUTE = DirectoryOperationResult.ATTRIBUTE_NOT_FOUND
EXISTS = DirectoryOperationResult.OBJECT_ALREADY_EXISTS
GENERIC_ERROR = DirectoryOperationResult.GENERIC_ERROR
END_OF_DATA = DirectoryOperationResult.END_OF_DATA

NOW = 1_700_000_000


def guid(number: int) -> bytes:
    return number.to_bytes(16, "big")


OWN = guid(1)
ALICE = make_sid(5, 21, 1, 2, 3, 1000)


class Records(dict[bytes, bytes]):
    """What a store would keep."""

    def define(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            del self[key]
        else:
            self[key] = value


class Guids:
    def __init__(self) -> None:
        self.last = 1000

    def __call__(self) -> bytes:
        self.last += 1
        return guid(self.last)


class Backing:
    """What keeps the directory of a world: the queue manager itself."""

    keeps_silence = True
    """Whether attributes that nobody ever wrote are told from those that are as usual."""
    unknown_kinds: tuple[type[DirectoryObject], ...] = ()
    """What it cannot hold."""

    def made(self, records: Records, guids: Guids) -> EmbeddedDirectory:
        return EmbeddedDirectory(records.define, guids)

    def restarted(self, records: Records, guids: Guids) -> EmbeddedDirectory:
        return EmbeddedDirectory.load(records.items(), records.define, guids)


class World:
    """A directory with its records, kept by whatever the fixture `any_directory` chose."""

    backing: ClassVar[Backing] = Backing()

    def __init__(self) -> None:
        self.records = Records()
        self.guids = Guids()
        self.directory = self.backing.made(self.records, self.guids)

    def restarted(self) -> EmbeddedDirectory:
        return self.backing.restarted(self.records, self.guids)

    def one_of_each(self) -> list[DirectoryObject]:
        """An object of every kind that it can hold."""
        return [one for one in ONE_OF_EACH if not isinstance(one, self.backing.unknown_kinds)]

    def add(self, *values: DirectoryObject) -> list[bytes]:
        created = [self.directory.create(value, NOW) for value in values]
        assert [result.status for result in created] == [SUCCESS] * len(values)
        return [result.identifier for result in created]


class Local:
    """The local queue manager, as the engine will offer it."""

    def __init__(self, own: QueueManager, queues: Iterable[Queue] = ()) -> None:
        self.own = own
        self.queues = {queue.identifier: queue for queue in queues}

    def own_queue_manager(self) -> QueueManager:
        return self.own

    def local_queues(self) -> Iterable[Queue]:
        return self.queues.values()

    def update_own_queue_manager(self, value: QueueManager) -> None:
        self.own = value

    def update_local_queue(self, value: Queue) -> None:
        self.queues[value.identifier] = value


def machine(number: int, name: str, **fields: object) -> QueueManager:
    return QueueManager(identifier=guid(number), computer_name=name, **fields)  # type: ignore[arg-type]


def queue(number: int, pathname: str, **fields: object) -> Queue:
    return Queue(identifier=guid(number), pathname=pathname, **fields)  # type: ignore[arg-type]


def private(number: int, pathname: str, queue_number: int) -> Queue:
    return queue(number, pathname, queue_type=QueueType.PRIVATE, private_queue_number=queue_number)


def site(number: int, name: str, **fields: object) -> Site:
    return Site(identifier=guid(number), name=name, **fields)  # type: ignore[arg-type]


def link(number: int, one: int, other: int, *gates: int, cost: int = 1) -> RoutingLink:
    return RoutingLink(
        identifier=guid(number),
        site1_identifier=guid(one),
        site2_identifier=guid(other),
        actual_cost=cost,
        site_gate_identifier_list=tuple(map(guid, gates)),
    )


def service_of(
    world: World, local: Local, timers: DirectoryTimers | None = None, *, integrated: bool = True
) -> DirectoryService:
    return DirectoryService(world.directory, local, timers, integrated=integrated)


ONE_OF_EACH: list[DirectoryObject] = [
    machine(10, "ALPHA"),
    queue(11, r"ALPHA\orders"),
    site(12, "Berlin"),
    link(13, 12, 14),
    Enterprise(identifier=guid(15), name="corp"),
    ConnectedNetwork(identifier=guid(16), name="net"),
    User(identifier=guid(17), security_identifier=ALICE),
    DistributionList(identifier=guid(18), name="all", members=(r"DIRECT=OS:a\q",)),
    QueueAlias(identifier=guid(19), name="till", format_name=r"DIRECT=OS:a\q"),
]

guids = st.binary(min_size=16, max_size=16)
u32 = st.integers(0, 0xFFFFFFFF)
computers = st.text("ABCdef019-", min_size=1, max_size=12)
machines = st.builds(
    QueueManager,
    identifier=guids,
    computer_name=computers,
    qualified_computer_name=st.text(max_size=8),
    operating_system_type=st.sampled_from(OperatingSystemType),
    queue_manager_quota=u32,
    site_identifier_list=st.lists(guids, unique=True, max_size=3).map(tuple),
    routing_server=st.booleans(),
    directory_server=st.booleans(),
    directory_server_type=st.sampled_from(DirectoryServerType),
)
queues = st.builds(
    Queue,
    identifier=guids,
    pathname=computers.map(lambda name: rf"HOST\{name}"),
    label=st.text("abc é", max_size=10),
    type=guids,
    journaling=st.booleans(),
    quota=u32,
    privacy_level=st.sampled_from(QueuePrivacyLevel),
    base_priority=st.integers(-32768, 32767),
)
links = st.builds(
    RoutingLink,
    identifier=guids,
    site1_identifier=st.just(guid(1)),
    site2_identifier=st.integers(2, 99).map(guid),
    actual_cost=st.integers(1, 999_999),
    description=st.text(max_size=5),
)
any_objects: st.SearchStrategy[DirectoryObject] = st.one_of(machines, queues, links)
