"""The directory as operators change it: what only we can say, and who is meant by a name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from posthouse.directory.document.document import (
    Difference,
    Document,
    LinkPart,
    MachinePart,
    SitePart,
    UserPart,
)
from posthouse.model.errors import DsError, StatusNotFound
from posthouse.model.guids import format_guid
from tests.engine.letters import PostRig

SITES = [SitePart(name="North"), SitePart(name="East, West")]
ADA = "S-1-5-21-1-2-3-1001"


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    enter(rig, Document(sites=SITES, links=[LinkPart(sites=["North", "East, West"])]))
    yield rig
    rig.check_books()


def enter(rig: PostRig, document: Document, only: list[str] | None = None) -> Difference:
    return rig.run(
        lambda own: own.directory.changes.take_in(document, prune=False, only=only, dry_run=False)
    )


def own_part(rig: PostRig) -> MachinePart:
    guid = format_guid(rig.manager.machine.identifier)
    machines = rig.manager.directory.document().machines
    return next(one for one in machines if one.guid == guid)


def remove(rig: PostRig, kind: str, name: str) -> None:
    rig.run(lambda own: own.directory.changes.remove(kind, name, dry_run=False))


def test_a_file_does_not_say_who_we_are(rig: PostRig) -> None:
    before = own_part(rig)
    said = MachinePart(
        name="OMEGA", guid=before.guid, dns_name="other", sites=["North"], routing_server=True
    )
    found = enter(rig, Document(machines=[said]))
    assert [type(one).__name__ for one in found.changed] == ["QueueManager"]
    after = own_part(rig)
    assert after.sites == ["North"]
    assert (after.name, after.dns_name) == (before.name, before.dns_name)
    assert after.routing_server is before.routing_server
    assert not enter(rig, Document(machines=[said])).changed


def test_a_command_that_would_say_it_is_refused(rig: PostRig) -> None:
    before = own_part(rig)
    for part, field in (
        (MachinePart(name="OMEGA", guid=before.guid), "name"),
        (MachinePart(name=before.name, guid=before.guid, routing_server=True), "routing_server"),
    ):
        with pytest.raises(DsError, match="this queue manager sets") as refused:
            enter(rig, Document(machines=[part]), ["name", field])
        assert "posthouse.toml" in refused.value.remedy
    assert own_part(rig) == before
    # Where it listens nobody here knows; what is said of it then holds.
    part = MachinePart(name=before.name, guid=before.guid, addresses=["10.0.0.1:1801"])
    assert enter(rig, Document(machines=[part]), ["name", "addresses"]).changed


def test_a_command_about_something_else_is_not_refused_for_it(rig: PostRig) -> None:
    """The directory may say something old of us; who changes our site does not speak of that."""
    own = rig.manager.directory.own_queue_manager()
    old = msgspec.structs.replace(own, qualified_computer_name="alpha.old.example")
    rig.run(lambda m: m.directory.service.write_directory(old, m.machine.now_ms, m.machine.utc))
    part = MachinePart(name=own.computer_name, guid=own_part(rig).guid, sites=["North"])
    assert enter(rig, Document(machines=[part]), ["name", "sites"]).changed
    assert own_part(rig).sites == ["North"]
    assert own_part(rig).dns_name == own.qualified_computer_name


@pytest.mark.parametrize("first", [True, False])
def test_a_link_is_found_by_names_with_commas_and_without_a_site(rig: PostRig, first: bool) -> None:
    ends = {one.name: one.guid for one in rig.manager.directory.document().sites}
    if first:
        remove(rig, "link", "east, west,NORTH")
    else:
        remove(rig, "site", "North")
        with pytest.raises(StatusNotFound):
            remove(rig, "link", "North,East, West")
        remove(rig, "link", f"{ends['North']},East, West")
    assert rig.manager.directory.document().links == []


def test_a_name_that_two_could_mean_is_refused(rig: PostRig) -> None:
    other = ADA[:-1] + "2"
    users = [UserPart(sid=ADA, name="Ada"), UserPart(sid=other, name="ada")]
    enter(rig, Document(users=users))
    with pytest.raises(DsError, match="ADA is ambiguous: 2 objects") as refused:
        remove(rig, "user", "ADA")
    assert "SID" in refused.value.remedy
    with pytest.raises(DsError):
        rig.manager.directory.user("Ada")
    remove(rig, "user", other)
    assert rig.manager.directory.user("Ada").name == "Ada"
    links = [LinkPart(sites=["a,b", "c"]), LinkPart(sites=["a", "b,c"])]
    names = ["a", "a,b", "b,c", "c"]
    enter(rig, Document(sites=[SitePart(name=one) for one in names], links=links))
    with pytest.raises(DsError, match="a,b,c is ambiguous: 2 objects"):
        remove(rig, "link", "a,b,c")
