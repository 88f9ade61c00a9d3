"""The directory as a document: out, in, and what is between two of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.document import (
    Difference,
    Document,
    EnterprisePart,
    Holdings,
    LinkPart,
    ListPart,
    MachinePart,
    QueuePart,
    SitePart,
    described,
    difference,
)
from posthouse.directory.objects import (
    DistributionList,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
)
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import format_guid

from .world import OWN, Guids, guid, link, machine, queue, site

NOTHING = Holdings(Enterprise(), [], [], [], [], [])
HELD = Holdings(
    Enterprise(name="Shop"),
    [site(20, "North"), site(21, "South", foreign_site=True)],
    [link(30, 20, 21, 2, 3, cost=7)],
    [
        machine(1, "ALPHA", site_identifier_list=(guid(20),), queue_manager_quota=77),
        machine(2, "GATE", site_identifier_list=(guid(20),), routing_server=True),
        machine(
            3,
            "FAR",
            site_identifier_list=(guid(21),),
            addresses=("far:99",),
            in_routing_server_identifier_list=(guid(2),),
        ),
    ],
    [
        queue(40, r"ALPHA\own", queue_manager_identifier=OWN),
        queue(41, r"FAR\orders", transactional=True, queue_manager_identifier=guid(3)),
    ],
    [
        DistributionList(
            identifier=guid(50), name="All", members=(f"PUBLIC={format_guid(guid(41))}",)
        )
    ],
)


def compared(document: Document, held: Holdings = HELD, *, prune: bool = True) -> Difference:
    return difference(document, held, Guids(), OWN, prune=prune)


def applied(found: Difference, held: Holdings) -> Holdings:
    """What a directory holds afterwards."""
    gone = {one.identifier for one in (*found.deleted, *found.changed)}

    def left(kind: type, before: list) -> list:  # type: ignore[type-arg]
        new = [one for one in (*found.changed, *found.created) if isinstance(one, kind)]
        return [one for one in before if one.identifier not in gone] + new

    enterprises = [one for one in found.changed if isinstance(one, Enterprise)]
    return Holdings(
        enterprises[0] if enterprises else held.enterprise,
        left(Site, held.sites),
        left(RoutingLink, held.links),
        left(QueueManager, held.machines),
        left(Queue, held.queues),
        left(DistributionList, held.lists),
    )


def test_a_directory_differs_in_nothing_from_its_own_document() -> None:
    for prune in (True, False):
        assert compared(described(HELD), prune=prune) == Difference([], [], [])


def test_names_stand_for_identifiers() -> None:
    document = described(HELD)
    assert document.links == [LinkPart(sites=["North", "South"], cost=7, gates=["FAR", "GATE"])]
    far = next(part for part in document.machines if part.name == "FAR")
    assert (far.sites, far.in_routing_servers) == (["South"], ["GATE"])


def test_another_queue_manager_comes_to_hold_the_same() -> None:
    own = NOTHING._replace(machines=[machine(9, "NEW")])
    found = difference(described(HELD), own, Guids(), guid(9), prune=True)
    assert found.deleted == []
    after = applied(found, own)
    kept = described(after)
    assert [one.name for one in kept.machines] == ["ALPHA", "FAR", "GATE", "NEW"]
    wanted = described(HELD)
    assert (kept.sites, kept.links, kept.queues) == (wanted.sites, wanted.links, wanted.queues)
    assert (kept.lists, kept.enterprise) == (wanted.lists, wanted.enterprise)


def test_what_the_document_is_silent_about_stays() -> None:
    part = MachinePart(name="ALPHA", guid=format_guid(OWN), sites=["South"])
    (changed,) = compared(Document(machines=[part]), prune=False).changed
    assert isinstance(changed, QueueManager)
    assert changed.queue_manager_quota == 77
    assert changed.site_identifier_list == (guid(21),)


def test_what_it_does_not_have_goes_but_for_us_and_ours() -> None:
    found = compared(Document())
    names = {one.identifier for one in found.deleted}
    assert names == {guid(n) for n in (2, 3, 20, 21, 30, 41, 50)}
    assert compared(Document(), prune=False) == Difference([], [], [])


def test_the_enterprise_changes_only_where_it_is_named() -> None:
    part = EnterprisePart(name="Shop", default_time_to_reach_queue_s=60)
    (changed,) = compared(Document(enterprise=part), prune=False).changed
    assert changed == Enterprise(name="Shop", default_time_to_live=60)


def test_a_renamed_machine_is_the_same_machine() -> None:
    part = MachinePart(name="GATE9", guid=format_guid(guid(2)), routing_server=True)
    found = compared(Document(machines=[part]), prune=False)
    assert (found.created, found.deleted) == ([], [])
    assert found.changed[0].identifier == guid(2)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (Document(sites=[SitePart(name="X"), SitePart(name="x")]), "it is there twice"),
        (Document(sites=[SitePart(name="X", guid="7")]), "not a GUID"),
        (Document(sites=[SitePart(name=" X")]), "cannot be the name"),
        (Document(links=[LinkPart(sites=["North", "Nowhere"])]), "nobody knows it"),
        (Document(links=[LinkPart(sites=["North", "north"])]), "two different sites"),
        (
            Document(
                links=[LinkPart(sites=["North", "South"]), LinkPart(sites=["South", "North"])]
            ),
            "it is there twice",
        ),
        (Document(machines=[MachinePart(name="A b", guid=format_guid(guid(9)))]), "machine"),
        (
            Document(machines=[MachinePart(name="NEW", guid=format_guid(guid(9)), sites=["X"])]),
            "nobody knows it",
        ),
        (
            Document(machines=[MachinePart(name="GATE", guid=format_guid(guid(9)))]),
            "another one has this name",
        ),
        (
            Document(
                machines=[MachinePart(name="X", guid=format_guid(guid(9)), addresses=["a b"])]
            ),
            "is no address",
        ),
        (Document(queues=[QueuePart(path=r"FAR\q", guid="")]), "not a GUID"),
        (Document(queues=[QueuePart(path=r"FAR\q", guid=format_guid(guid(0)))]), "zero"),
        (Document(queues=[QueuePart(path=r"WHO\q", guid=format_guid(guid(9)))]), "nobody knows it"),
        (
            Document(queues=[QueuePart(path=r"FAR\private$\q", guid=format_guid(guid(9)))]),
            "does not name a public queue",
        ),
        (Document(lists=[ListPart(name="L", members=["nonsense"])]), "list 'L'"),
    ],
)
def test_what_is_wrong_is_told_by_its_part(document: Document, why: str) -> None:
    with pytest.raises(IllegalPropertyValue, match=why):
        compared(document, prune=False)


NAMES = st.sampled_from(["A", "B", "C", "north", "SOUTH", "x y"])
GUIDS = st.integers(1, 6).map(guid).map(format_guid)
DOCUMENTS = st.builds(
    Document,
    sites=st.lists(st.builds(SitePart, name=NAMES, foreign=st.booleans()), max_size=4),
    links=st.lists(
        st.builds(LinkPart, sites=st.lists(NAMES, min_size=2, max_size=2), cost=st.integers(1, 9)),
        max_size=2,
    ),
    machines=st.lists(
        st.builds(
            MachinePart, name=NAMES, guid=GUIDS, sites=st.lists(NAMES, max_size=2),
            out_routing_servers=st.lists(NAMES, max_size=2),
        ),
        max_size=3,
    ),
    lists=st.lists(st.builds(ListPart, name=NAMES), max_size=2),
)  # fmt: skip


@given(DOCUMENTS, st.booleans())
def test_any_document_is_refused_or_true_afterwards(document: Document, prune: bool) -> None:
    try:
        found = compared(document, prune=prune)
    except IllegalPropertyValue:
        return
    after = applied(found, HELD)
    assert compared(document, after, prune=prune) == Difference([], [], [])
    assert OWN in {one.identifier for one in after.machines}
    assert msgspec.convert(msgspec.to_builtins(described(after)), Document) == described(after)
