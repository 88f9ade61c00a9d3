"""Start-up in directory mode, its timers, and what failures of the directory do to a manager.

[MS-MQDMPR] 3.1.2, 3.1.3, 3.1.6; the table of failures of routing-and-directory-facts 4.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from posthouse.directory.authority import Changes, Refused
from posthouse.directory.base import equals
from posthouse.directory.mirror import Action
from posthouse.directory.objects import DirectoryObject, QueueManager, RoutingLink, Site
from posthouse.engine.directory.authority_calls import AuthorityNeeded
from posthouse.engine.manager import QueueManager as Engine
from posthouse.engine.manager import QueueManagerState
from posthouse.model.errors import DsError, NoDs
from posthouse.model.guids import format_guid
from posthouse.model.names import PathName
from posthouse.model.properties import DirectoryOperationResult
from tests.engine.rig import Rig

HOUR_S = 3600
NORTH, SOUTH, GATE, LINK = (bytes([number]) * 16 for number in (1, 2, 3, 4))
PUBLIC = r".\public"
AUTHORITY = "file /shared/directory.toml"


class Member(Rig):
    """A queue manager that is in the site North."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.enter(Site(identifier=NORTH, name="North"), Site(identifier=SOUTH, name="South"))
        self.write(self.own(site_identifier_list=(NORTH,)))

    @property
    def service(self) -> Any:
        return self.manager.directory.service

    def own(self, **attributes: Any) -> QueueManager:
        return QueueManager(
            identifier=self.manager.machine.identifier, computer_name="ALPHA", **attributes
        )

    def enter(self, *values: DirectoryObject) -> None:
        for value in values:
            self.run(partial(self._create, value))

    def _create(self, value: DirectoryObject, manager: Engine) -> None:
        core = manager.ledger
        self.service.create_directory_object(value, core.now_ms, core.utc)

    def write(self, value: DirectoryObject) -> None:
        self.run(lambda m: self.service.write_directory(value, m.machine.now_ms, m.machine.utc))

    def written_elsewhere(self, value: DirectoryObject) -> None:
        """Behind the back of the service, as other writers of a directory do."""
        directory = self.manager.directory.queues.directory
        self.run(lambda m: directory.write(value, m.machine.utc))


@pytest.mark.spec("MS-MQDMPR 3.1.2.1/1", "MS-MQDMPR 3.1.6.1/1", "MS-MQDMPR 3.1.3/14")
def test_a_queue_manager_looks_at_its_sites_every_twelve_hours() -> None:
    rig = Member()
    rig.restart()
    rig.written_elsewhere(Site(identifier=NORTH, name="Far North"))
    rig.advance(12 * HOUR_S - 1)
    assert rig.service.sites[NORTH].name == "North"
    rig.advance(1)
    assert rig.service.sites[NORTH].name == "Far North"


@pytest.mark.spec("MS-MQDMPR 3.1.2.2/1", "MS-MQDMPR 3.1.6.2/1", "MS-MQDMPR 3.1.3/14")
def test_a_queue_manager_looks_at_its_gates_every_hour() -> None:
    rig = Member()
    rig.enter(
        QueueManager(identifier=GATE, computer_name="GATE", site_identifier_list=(NORTH,)),
        RoutingLink(
            identifier=LINK,
            site1_identifier=NORTH,
            site2_identifier=SOUTH,
            site_gate_identifier_list=(GATE,),
        ),
    )
    rig.restart()
    changed = QueueManager(
        identifier=GATE, computer_name="TOR", site_identifier_list=(NORTH,), routing_server=True
    )
    rig.written_elsewhere(changed)
    rig.advance(HOUR_S - 1)
    assert rig.service.site_gates[NORTH][GATE].computer_name == "GATE"
    rig.advance(1)
    assert rig.service.site_gates[NORTH][GATE].computer_name == "TOR"


@pytest.mark.spec("MS-MQDMPR 3.1.2.5/1", "MS-MQDMPR 3.1.7.1.25/1", "MS-MQDMPR 3.1.7.1.25/2")
def test_a_queue_manager_looks_for_its_directory_every_minute() -> None:
    rig = Member()
    queue = rig.create(PUBLIC, label="before")
    directory = rig.manager.directory.queues.directory
    directory.connected = False
    rig.run(lambda m: rig.service.read_directory(Site, (), m.machine.now_ms))
    assert rig.service.offline
    rig.advance(60)
    assert rig.service.offline
    directory.connected = True
    changed = rig.manager.directory.queues.object_of(queue.definition)
    rig.written_elsewhere(_labelled(changed, "after"))
    rig.advance(59)
    assert (rig.service.offline, queue.definition.label) == (True, "before")
    rig.advance(1)
    assert (rig.service.offline, queue.definition.label) == (False, "after")


def _labelled(value: Any, label: str) -> DirectoryObject:
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    made: DirectoryObject = type(value)(**fields | {"label": label})
    return made


@pytest.mark.spec("MS-MQDMPR 3.1.3/12")
def test_a_start_reads_the_own_sites() -> None:
    rig = Member()
    rig.restart()
    assert [site.name for site in rig.service.sites.values()] == ["North"]
    rig.write(rig.own())
    rig.restart()
    assert rig.service.sites == {}


@pytest.mark.spec("MS-MQDMPR 3.1.3/4")
@pytest.mark.parametrize("site", ["North", "NORTH", format_guid(NORTH)])
def test_a_new_queue_manager_enters_itself_in_the_configured_site(site: str) -> None:
    rig = Rig(directory_file=AUTHORITY.removeprefix("file "), directory_site=site)
    north = Site(identifier=NORTH, name="North")
    (order,) = rig.run(lambda m: m.directory.take(Changes([north], [], True, "1")))
    assert order.action is Action.CREATE
    assert order.value.site_identifier_list == (NORTH,)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1.1/2",
    "MS-MQDMPR 3.1.1.1/6",
    "MS-MQDMPR 3.1.1.1/7",
    "MS-MQDMPR 3.1.1.1/8",
    "MS-MQDMPR 3.1.1.1/9",
    "MS-MQDMPR 3.1.1.1/10",
    "MS-MQDMPR 3.1.1.1/12",
    "MS-MQDMPR 3.1.1.1/1",
)
@pytest.mark.parametrize("routing", [False, True])
def test_a_new_queue_manager_enters_itself_with_the_documented_defaults(routing: bool) -> None:
    rig = Rig(
        directory_file=AUTHORITY.removeprefix("file "),
        routing_server=routing,
        dns_domain="example.com",
    )
    (order,) = rig.run(lambda m: m.directory.take(Changes([], [], True, "1")))
    new = order.value
    assert new.identifier == rig.manager.machine.identifier
    assert (new.computer_name, new.qualified_computer_name) == ("ALPHA", "ALPHA.example.com")
    assert new.queue_manager_version == ""
    assert new.journal_quota == 0xFFFFFFFF
    assert (new.foreign_system, new.remote_access_server) == (False, False)
    assert (new.supporting_server, new.routing_server) == (False, routing)
    assert new.site_identifier_list == new.connected_network_identifier_list == ()
    assert new.out_routing_server_identifier_list == new.in_routing_server_identifier_list == ()
    assert new.public_encryption_key_list == new.public_signing_key_list == b""


def test_a_configured_site_that_nobody_knows_is_told() -> None:
    rig = Rig(directory_file=AUTHORITY.removeprefix("file "), directory_site="Atlantis")
    (order,) = rig.run(lambda m: m.directory.take(Changes([], [], True, "1")))
    assert order.value.site_identifier_list == ()
    rig.turn()
    assert "directory_site_unknown" in [event.name for event in rig.events]


# -- a shared directory that is away


@pytest.mark.spec("MS-MQDMPR 3.1.3/11")
def test_a_start_without_the_shared_directory_goes_on_offline() -> None:
    rig = Rig(directory_file=AUTHORITY.removeprefix("file "))
    assert rig.manager.machine.state is QueueManagerState.READY
    state = rig.manager.directory.state()
    assert (state.source, state.online) == (AUTHORITY, False)
    assert state.reason
    rig.create("orders")
    rig.send("orders", b"one")
    assert rig.receive("orders").read.lookup_id
    with pytest.raises(NoDs):
        rig.create(PUBLIC)
    assert is_missing(rig)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/6", "MS-MQDMPR 3.1.7.1.20/7")
def test_what_was_known_of_the_shared_directory_leads_on_while_it_is_away() -> None:
    rig = Rig(directory_file=AUTHORITY.removeprefix("file "))
    other = QueueManager(identifier=GATE, computer_name="GATE")
    rig.run(lambda m: m.directory.take(Changes([other], [], True, "1")))
    assert rig.manager.directory.state().online
    rig.restart()
    service = rig.manager.directory.service
    assert not rig.manager.directory.state().online
    read = rig.run(
        lambda m: service.read_directory(QueueManager, equals("identifier", GATE), m.machine.now_ms)
    )
    assert read.status is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
    known = rig.run(
        lambda m: service.known(QueueManager, equals("identifier", GATE), m.machine.now_ms)
    )
    assert known.value is not None
    assert rig.run(lambda m: service.next_hops(GATE, m.machine.now_ms)).candidates == (GATE,)


def test_a_directory_that_has_another_machine_of_our_name_is_left_as_it_is() -> None:
    """The own GUID differs from the directory object's: offline, and nothing is overwritten."""
    rig = Rig(directory_file=AUTHORITY.removeprefix("file "))
    other = QueueManager(identifier=GATE, computer_name="ALPHA", queue_manager_quota=77)
    orders = rig.run(lambda m: m.directory.take(Changes([other], [], True, "1")))
    (order,) = [order for order in orders if isinstance(order.value, QueueManager)]
    assert order.action is Action.CREATE
    assert order.value.identifier == rig.manager.machine.identifier
    refused = Refused(DirectoryOperationResult.OBJECT_ALREADY_EXISTS, "there is an ALPHA already")
    rig.run(lambda m: m.directory.entered([(order, refused)]))
    state = rig.manager.directory.state()
    assert not state.online
    assert "there is an ALPHA already" in state.reason
    kept = rig.manager.directory.queues.directory.known(QueueManager, equals("identifier", GATE))
    assert kept is not None
    assert kept.queue_manager_quota == 77


@pytest.mark.spec("MS-MQDMPR 3.1.3/22")
def test_a_refusal_of_the_directory_is_told_to_whoever_asked() -> None:
    rig = Rig(directory_file=AUTHORITY.removeprefix("file "))
    rig.run(lambda m: m.directory.take(Changes([], [], True, "1")))
    with pytest.raises(AuthorityNeeded) as needed:
        rig.create(PUBLIC)
    refused = Refused(DirectoryOperationResult.GENERIC_ERROR, "not today")
    asking = rig.manager.directory.queues.asking
    with pytest.raises(DsError, match="not today"):
        asking.again(needed.value, refused, lambda: rig.create(PUBLIC))
    assert is_missing(rig)


def is_missing(rig: Rig) -> bool:
    return rig.manager.queues.collection.find_local(PathName.parse(PUBLIC)) is None
