"""Whatever is done to a directory, in whatever order: our own, and one that a server keeps."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posthouse.directory.base import equals
from posthouse.directory.embedded import EmbeddedDirectory, record_key
from posthouse.directory.objects import DirectoryObject, Site, encode_entry
from posthouse.directory.service import DirectoryTimers
from tests.support.directory_listing import all_of
from tests.support.directory_operations import Set, orders

from .world import EXISTS, NOT_FOUND, NOW, SUCCESS, World, any_objects, guid, site

few = settings(  # a real server is asked for each step; each example begins with an empty one
    max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def records(directory: EmbeddedDirectory) -> dict[bytes, bytes]:
    """Every object as the log keeps it."""
    entries = [entry for kind in directory._objects.values() for entry in kind.values()]
    return {record_key(entry.value): encode_entry(entry) for entry in entries}


def survives(values: list[DirectoryObject]) -> None:
    world = World()
    for value in values:
        world.directory.create(value, NOW)
    again = world.restarted()
    assert records(again) == records(world.directory) == world.records
    for value in values:
        filters = equals("identifier", value.identifier)
        assert again.read(type(value), filters) == world.directory.read(type(value), filters)


objects = st.lists(any_objects, max_size=6)


@pytest.mark.spec("MS-MQDMPR 3.1.1/2")
@given(objects)
def test_directory_attributes_survive_a_restart(values: list[DirectoryObject]) -> None:
    survives(values)


@pytest.mark.peer("openldap")
@pytest.mark.usefixtures("on_openldap")
@few
@given(objects)
def test_directory_attributes_survive_a_restart_beside_a_server(
    values: list[DirectoryObject],
) -> None:
    survives(values)


class Model:
    """Names and identifiers of sites, as plain dictionaries."""

    def __init__(self) -> None:
        self.sites: dict[bytes, str] = {}

    def taken(self, name: str, identifier: bytes) -> bool:
        return any(known == name and key != identifier for key, known in self.sites.items())


steps = st.lists(
    st.tuples(st.sampled_from("cwdr"), st.integers(1, 4), st.sampled_from("abc")), max_size=30
)


def agrees(sequence: list[tuple[str, int, str]]) -> None:
    world, model = World(), Model()
    for step, number, name in sequence:
        identifier, value = guid(number), site(number, name)
        known = identifier in model.sites
        taken = model.taken(name, identifier)
        if step == "c":
            expected = EXISTS if known or taken else SUCCESS
            assert world.directory.create(value, NOW).status is expected
        elif step == "w":
            expected = NOT_FOUND if not known else EXISTS if taken else SUCCESS
            assert world.directory.write(value, NOW) is expected
        elif step == "d":
            expected = SUCCESS if known else NOT_FOUND
            assert world.directory.delete(value) is expected
        else:
            world.directory = world.restarted()
            continue
        if expected is SUCCESS:
            model.sites.pop(identifier) if step == "d" else model.sites.update({identifier: name})
    found = {
        key: world.directory.read(Site, equals("identifier", key)).value for key in model.sites
    }
    assert {key: value.name for key, value in found.items() if value} == model.sites
    assert len(all_of(world.directory, Site)) == len(model.sites)


@given(steps)
def test_any_sequence_of_changes_agrees_with_a_model(sequence: list[tuple[str, int, str]]) -> None:
    agrees(sequence)


@pytest.mark.peer("openldap")
@pytest.mark.usefixtures("on_openldap")
@few
@given(steps)
def test_any_sequence_of_changes_on_a_server_agrees_with_a_model(
    sequence: list[tuple[str, int, str]],
) -> None:
    agrees(sequence)


outages = st.lists(st.tuples(st.sampled_from("cmrwx"), st.integers(1, 90_000)), max_size=30)


def goes_together(steps: list[tuple[str, int]]) -> None:
    ready = Set(DirectoryTimers(10**12, 10**12, 60_000))
    ready.service.initialize(0)
    now = 0
    for step, wait in steps:
        now += wait
        if step == "c":
            ready.cut()
        elif step == "m":
            ready.mend()
        elif step == "r":
            ready.service.read_directory(Site, (), now)
        elif step == "w":
            ready.service.write_directory(orders, now, NOW)
        ready.service.advance(now)
        deadline = ready.service.next_deadline(now)
        assert deadline is not None
        if ready.service.offline:
            assert now <= deadline <= now + 60_000
        else:
            assert deadline > 10**11


@given(outages)
def test_offline_mode_and_its_timer_always_go_together(steps: list[tuple[str, int]]) -> None:
    goes_together(steps)


@pytest.mark.peer("openldap")
@pytest.mark.usefixtures("on_openldap")
@few
@given(outages)
def test_offline_mode_and_its_timer_go_together_with_a_server(
    steps: list[tuple[str, int]],
) -> None:
    goes_together(steps)
