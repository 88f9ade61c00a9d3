"""The directory as a document: out, in, and what is between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import md5

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.certificates import with_certificate
from posthouse.directory.document.document import (
    AliasPart,
    Difference,
    Document,
    EnterprisePart,
    Holdings,
    LinkPart,
    ListPart,
    MachinePart,
    Names,
    QueuePart,
    SitePart,
    UserPart,
    described,
    difference,
    objects_of,
)
from posthouse.directory.document.fields import FIELDS
from posthouse.directory.document.text import field_changes, parse_document, written
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
from posthouse.model.errors import IllegalPropertyValue, InvalidParameter
from posthouse.model.guids import format_guid
from posthouse.model.properties import (
    DirectoryServerType,
    OperatingSystemType,
    QueuePrivacyLevel,
)
from posthouse.security.access import complete_descriptor
from posthouse.security.keys import ProviderKey, pack_provider_keys
from posthouse.security.sids import make_sid

from .world import ALICE, OWN, Guids, guid, link, machine, queue, site

NOTHING = Holdings.of()
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
            identifier=guid(50),
            name="All",
            members=(
                f"PUBLIC={format_guid(guid(41))}",
                f"DL={format_guid(guid(51))}",
                r"DIRECT=OS:x\private$\q",
            ),
        )
    ],
    [QueueAlias(identifier=guid(51), name="Till", format_name=f"PUBLIC={format_guid(guid(40))}")],
    [with_certificate(User(identifier=guid(60), security_identifier=ALICE), b"x509", guid(61))],
    [ConnectedNetwork(identifier=guid(70), name="ring")],
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
        left(QueueAlias, held.aliases),
        left(User, held.users),
        left(ConnectedNetwork, held.networks),
    )


def test_a_directory_differs_in_nothing_from_its_own_document() -> None:
    for prune in (True, False):
        assert compared(described(HELD), prune=prune) == Difference([], [], [])


def test_names_stand_for_identifiers() -> None:
    document = described(HELD)
    (way,) = document.links
    assert (way.sites, way.cost, way.gates) == (["North", "South"], 7, ["FAR", "GATE"])
    assert document.lists[0].members == [r"FAR\orders", "Till", r"DIRECT=OS:x\private$\q"]
    assert document.aliases[0].queue == r"ALPHA\own"
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
    assert (kept.aliases, kept.users, kept.networks) == (
        wanted.aliases, wanted.users, wanted.networks,
    )  # fmt: skip


def test_what_the_document_is_silent_about_stays() -> None:
    part = MachinePart(name="ALPHA", guid=format_guid(OWN), sites=["South"])
    (changed,) = compared(Document(machines=[part]), prune=False).changed
    assert isinstance(changed, QueueManager)
    assert changed.queue_manager_quota == 77
    assert changed.site_identifier_list == (guid(21),)


def test_what_it_does_not_have_goes_but_for_us_and_ours() -> None:
    found = compared(Document())
    names = {one.identifier for one in found.deleted}
    assert names == {guid(n) for n in (2, 3, 20, 21, 30, 41, 50, 51, 60, 70)}
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
        (Document(links=[LinkPart(sites=["North", "Nowhere"])]), "it does not exist"),
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
            "it does not exist",
        ),
        (
            Document(machines=[MachinePart(name="GATE", guid=format_guid(guid(9)))]),
            "another one has this name",
        ),
        (
            Document(
                machines=[MachinePart(name="X", guid=format_guid(guid(9)), addresses=["a b"])]
            ),
            "is not an address",
        ),
        (Document(queues=[QueuePart(path=r"FAR\q", guid="")]), "not a GUID"),
        (Document(queues=[QueuePart(path=r"FAR\q", guid=format_guid(guid(0)))]), "zero"),
        (
            Document(queues=[QueuePart(path=r"WHO\q", guid=format_guid(guid(9)))]),
            "it does not exist",
        ),
        (
            Document(queues=[QueuePart(path=r"FAR\private$\q", guid=format_guid(guid(9)))]),
            "does not name a public queue",
        ),
        (Document(lists=[ListPart(name="L", members=["nonsense"])]), "L names it, but it does not"),
        (Document(lists=[ListPart(name="L", members=["DIRECT=nonsense"])]), "list 'L'"),
        (
            Document(lists=[ListPart(name="L", members=[r"FAR\none"])]),
            "L names it, but it does not",
        ),
        (Document(lists=[ListPart(name="L", members=[r"FAR\\x"])]), "list 'L'"),
        (Document(aliases=[AliasPart(name="A", queue="nobody")]), "it does not exist"),
        (Document(aliases=[AliasPart(name="All", queue="Till")]), "a list has this name"),
        (
            Document(aliases=[AliasPart(name="X", queue="Till")], lists=[ListPart(name="x")]),
            "a list has this name",
        ),
        (Document(users=[UserPart(sid="S-1")]), "user 'S-1'"),
        (Document(users=[UserPart(sid="S-1-5-21-9", certificates=["!"])]), "base64"),
        (Document(users=[UserPart(sid="S-1-5-21-9", certificates=[""])]), "is empty"),
        (Document(users=[UserPart(sid="S-1-5-9"), UserPart(sid="S-1-5-9")]), "it is there twice"),
        (
            Document(machines=[MachinePart(name="X", guid=format_guid(guid(9)), security="AAAA")]),
            "machine 'X'",
        ),
        (
            Document(
                queues=[
                    QueuePart(path=r"FAR\other", guid=format_guid(guid(41)), transactional=True)
                ]
            ),
            "its guid is that of",
        ),
        (
            Document(queues=[QueuePart(path=r"FAR\orders", guid=format_guid(guid(41)))]),
            "transactional is fixed",
        ),
        (
            Document(
                queues=[
                    QueuePart(path=r"FAR\p", guid=format_guid(guid(9))),
                    QueuePart(path=r"FAR\q", guid=format_guid(guid(9))),
                ]
            ),
            "another one of the document has its guid",
        ),
        (
            Document(
                queues=[
                    QueuePart(
                        path=r"FAR\p",
                        guid=format_guid(guid(9)),
                        created=datetime(1960, 1, 1, tzinfo=UTC),
                    )
                ]
            ),
            "not a time",
        ),
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
    lists=st.lists(
        st.builds(ListPart, name=NAMES, members=st.lists(NAMES | st.just("Till"), max_size=2)),
        max_size=2,
    ),
    aliases=st.lists(
        st.builds(AliasPart, name=NAMES, queue=NAMES | st.just(r"FAR\orders")), max_size=2
    ),
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


def same(value: DirectoryObject) -> DirectoryObject:
    """Without what a directory makes of the rest."""
    paths = {name: "" for name in ("full_path", "directory_path") if hasattr(value, name)}
    return msgspec.structs.replace(value, **paths)


TEXTS = st.text(max_size=6)
IDENTIFIERS = st.integers(1, 30).map(guid)
LISTS = st.lists(IDENTIFIERS, unique=True, max_size=3).map(tuple)
TITLES = st.text("abAB =\\/é", min_size=1, max_size=4).filter(lambda text: text == text.strip())
MEMBERS = st.one_of(
    IDENTIFIERS.map(lambda one: f"PUBLIC={format_guid(one)}"),
    IDENTIFIERS.map(lambda one: f"DL={format_guid(one)}".upper()),
    IDENTIFIERS.map(lambda one: f"DL={format_guid(one)}"),
    st.just(r"DIRECT=OS:a\private$\q"),
)
KEYS = st.sampled_from([b"", pack_provider_keys([ProviderKey("p", 1, b"key")])])
SECURITY = st.sampled_from([b"", complete_descriptor(None, ALICE)])
NUMBERS = st.integers(0, 0xFFFF_FFFF)
FLAGS = st.booleans()
SIDS = st.integers(1, 9).map(lambda rid: make_sid(5, 21, rid))


def user(identifier: bytes, sid: bytes, name: str, ids: tuple[bytes, ...]) -> User:
    made = User(identifier=identifier, security_identifier=sid, name=name)
    for one in ids:
        made = with_certificate(made, b"x509" + one, one)
    return made


COMPUTERS = st.text("ab-", min_size=1, max_size=2)
WHOLE: dict[type[DirectoryObject], st.SearchStrategy[DirectoryObject]] = {
    QueueManager: st.builds(
        QueueManager, identifier=IDENTIFIERS, computer_name=COMPUTERS,
        queue_manager_version=TEXTS, operating_system_version=TEXTS,
        operating_system_type=st.sampled_from(OperatingSystemType),
        qualified_computer_name=st.sampled_from(["", "a.example"]), create_time=NUMBERS,
        modify_time=NUMBERS, queue_manager_quota=NUMBERS, journal_quota=NUMBERS,
        foreign_system=FLAGS, site_identifier_list=LISTS, connected_network_identifier_list=LISTS,
        out_routing_server_identifier_list=LISTS, in_routing_server_identifier_list=LISTS,
        directory_server=FLAGS, remote_access_server=FLAGS, routing_server=FLAGS,
        supporting_server=FLAGS, directory_server_type=st.sampled_from(DirectoryServerType),
        public_encryption_key_list=KEYS, public_signing_key_list=KEYS, clustered=FLAGS,
        addresses=st.sampled_from([(), ("a:1", "[::1]:2")]),
    ),
    Queue: st.builds(
        Queue, identifier=IDENTIFIERS, pathname=COMPUTERS.map(lambda name: rf"A\{name}"),
        label=TEXTS, create_time=NUMBERS, modify_time=NUMBERS, type=IDENTIFIERS,
        qualified_pathname=st.sampled_from(["", "a.example\\a", "x"]), journaling=FLAGS,
        quota=NUMBERS, journal_quota=NUMBERS, authentication=FLAGS,
        privacy_level=st.sampled_from(QueuePrivacyLevel), transactional=st.just(False),
        multicast_address=st.sampled_from(["", "239.1.1.1:1000"]), security=SECURITY,
        base_priority=st.integers(-0x8000, 0x7FFF),
        queue_manager_identifier=IDENTIFIERS | st.just(bytes(16)),
    ),
    Site: st.builds(
        Site, identifier=IDENTIFIERS, name=TITLES, primary_site_controller=TEXTS,
        intra_site_replication_interval=st.integers(0, 9), foreign_site=FLAGS,
        inter_site_replication_interval=st.integers(0, 9), public_signing_key_list=KEYS,
        migrated_from_msmq10=FLAGS,
    ),
    RoutingLink: st.builds(
        RoutingLink, identifier=IDENTIFIERS, site1_identifier=st.integers(1, 3).map(guid),
        site2_identifier=st.integers(4, 6).map(guid), actual_cost=st.integers(1, 99),
        description=TEXTS, site_gate_identifier_list=LISTS,
    ),
    Enterprise: st.builds(
        Enterprise, identifier=IDENTIFIERS, name=TEXTS, weakened_security=FLAGS,
        non_ldap_capable_queue_manager_notification=FLAGS, default_time_to_live=NUMBERS,
        old_directory=FLAGS,
    ),
    ConnectedNetwork: st.builds(ConnectedNetwork, identifier=IDENTIFIERS, name=TITLES),
    User: st.builds(user, IDENTIFIERS, SIDS, st.sampled_from(["", "ada"]), LISTS),
    DistributionList: st.builds(
        DistributionList, identifier=IDENTIFIERS, name=TITLES,
        members=st.lists(MEMBERS, max_size=3).map(tuple),
    ),
    QueueAlias: st.builds(
        QueueAlias, identifier=IDENTIFIERS, name=TITLES, format_name=MEMBERS, description=TEXTS
    ),
}  # fmt: skip


def kept(values: list[DirectoryObject]) -> Holdings:
    """As a directory would have them: identifiers, names and the enterprise once."""
    found: dict[object, DirectoryObject] = {}
    for one in values:
        kind = DistributionList if isinstance(one, QueueAlias) else type(one)
        if (kind, one.unique_name) not in found and one.identifier not in found:
            found[kind, one.unique_name] = found[one.identifier] = one
    return Holdings.of({id(one): one for one in found.values()}.values())


def shown(values: Iterable[DirectoryObject]) -> dict[bytes, object]:
    """Gates are a set; all else is as it is."""
    return {
        one.identifier: msgspec.structs.replace(
            one, site_gate_identifier_list=tuple(sorted(one.site_gate_identifier_list))
        )
        if isinstance(one, RoutingLink)
        else one
        for one in map(same, values)
    }


@given(st.lists(st.one_of(*WHOLE.values()), max_size=8))
def test_a_file_holds_every_attribute_of_every_object(values: list[DirectoryObject]) -> None:
    """What several queue managers share is in the file alone: nothing may be lost in it."""
    held = kept(values)
    text = written(described(held))
    found = objects_of(parse_document(text, "file"))
    assert shown(found) == shown(held.objects())
    assert written(described(Holdings.of(found))) == text


@pytest.mark.parametrize("kind", WHOLE)
def test_no_attribute_is_forgotten(kind: type[DirectoryObject]) -> None:
    """A new attribute has to be written down as well: paths alone are made by the directory."""
    spoken = {field.attribute for field in FIELDS[kind]} | {
        "identifier", "full_path", "directory_path",
        *("site_identifier_list", "connected_network_identifier_list", "members", "format_name"),
        *("out_routing_server_identifier_list", "in_routing_server_identifier_list"),
        *("site1_identifier", "site2_identifier", "site_gate_identifier_list"),
        *("qualified_pathname", "queue_manager_identifier"),
        *("certificates", "certificate_digest_list"),
    }  # fmt: skip
    assert kind.directory_attributes() <= spoken


def test_identifiers_that_a_file_leaves_out_are_the_same_for_everybody() -> None:
    document = Document(
        enterprise=EnterprisePart(name="Shop"),
        sites=[SitePart(name="North"), SitePart(name="South")],
        links=[LinkPart(sites=["North", "South"])],
        lists=[ListPart(name="All")],
        users=[UserPart(sid="S-1-5-21-9")],
    )
    found = objects_of(document)
    assert found == objects_of(document)
    assert len({one.identifier for one in found} - {bytes(16)}) == len(found) == 6


def test_an_identifier_that_nobody_has_is_taken_as_it_is() -> None:
    """A directory may speak of a machine or a site that is gone; its document can be read again."""
    gone = format_guid(guid(9))
    part = MachinePart(
        name="NEW", guid=format_guid(guid(8)), sites=[gone], in_routing_servers=[gone]
    )
    (made,) = compared(Document(machines=[part]), prune=False).created
    assert isinstance(made, QueueManager)
    assert made.site_identifier_list == made.in_routing_server_identifier_list == (guid(9),)
    orphan = queue(42, r"GONE\q", queue_manager_identifier=guid(9))
    held = HELD._replace(queues=[*HELD.queues, orphan])
    assert compared(described(held), held) == Difference([], [], [])


def test_a_list_may_be_named_before_it_is_there() -> None:
    parts = [ListPart(name="A", members=["B"]), ListPart(name="B", members=["a"])]
    one, other = compared(Document(lists=parts), prune=False).created
    assert isinstance(one, DistributionList)
    assert isinstance(other, DistributionList)
    assert one.members == (f"DL={format_guid(other.identifier)}",)
    assert other.members == (f"DL={format_guid(one.identifier)}",)


@pytest.mark.spec("MS-MQDMPR 3.1.1.15/1")
def test_a_user_comes_with_his_certificates() -> None:
    part = described(HELD).users[0]
    assert part.certificates == [f"{format_guid(guid(61))} eDUwOQ=="]
    found = compared(Document(users=[UserPart(sid=part.sid, certificates=["eDUwOA=="])]))
    (changed,) = found.changed
    assert isinstance(changed, User)
    assert changed.security_identifier == ALICE
    assert changed.certificate_digest_list == (md5(b"x508", usedforsecurity=False).digest(),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[sites]]\nname = 7\n", "file, line 1: Expected `str`, got `int`"),
        ('[[sites]]\nname = "a"\n\n[[sites]]\ncolour = 1\n', "file, line 4: "),
        ('[enterprise]\nname = ["a"]\n', "file, line 1: "),
        ("sites = 7\n", "file: Expected `array`"),
        ("[[sites]\n", "file is not TOML: .*line 1"),
        ("x = " + "[" * 9999, "file"),
        ('[[queues]]\npath="a"\nguid=""\ncreated=2026-01-01T00:00:00\n', "file, line 1: "),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(text: str, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        parse_document(text, "file")


@given(st.text(alphabet='[]{}=",.#\n abcsites0-', max_size=60))
def test_any_text_is_a_document_or_refused(text: str) -> None:
    with suppress(InvalidParameter):
        assert isinstance(parse_document(text, "file"), Document)


def test_what_changes_is_told_in_the_words_of_the_file() -> None:
    parts = Document(
        links=[LinkPart(sites=["South", "North"], cost=9, gates=["GATE"])],
        machines=[MachinePart(name="FAR", guid=format_guid(guid(3)), in_routing_servers=["GATE"])],
    )
    found = compared(parts, prune=False)
    names = Names(HELD)
    told = [
        [tuple(one) for one in field_changes(before, after, names)]
        for before, after in zip(found.before, found.changed, strict=True)
    ]
    assert told == [
        [("addresses", '["far:99"]', ""), ("sites", '["South"]', "")],
        [("cost", "7", "9"), ("gates", '["FAR", "GATE"]', '["GATE"]')],
    ]


def test_long_values_are_told_in_one_short_line() -> None:
    before, after = site(20, "North"), site(20, "North", primary_site_controller="x" * 500)
    (told,) = field_changes(before, after, Names(HELD))
    assert (told.before, len(told.after)) == ("", 63)


def only(document: Document, *fields: str) -> Difference:
    return difference(document, HELD, Guids(), OWN, prune=False, only=fields)


def test_of_what_is_there_only_the_fields_that_are_spoken_of_are_changed() -> None:
    far = MachinePart(name="FAR", guid=format_guid(guid(3)), sites=["North"])
    (changed,) = only(Document(machines=[far]), "name", "sites").changed
    assert changed == msgspec.structs.replace(HELD.machines[2], site_identifier_list=(guid(20),))
    way = LinkPart(sites=["South", "North"], gates=["FAR"])
    (link_now,) = only(Document(links=[way]), "gates").changed
    assert isinstance(link_now, RoutingLink)
    assert (link_now.actual_cost, link_now.site_gate_identifier_list) == (7, (guid(3),))
    orders = QueuePart(path="FAR/orders", guid=format_guid(guid(41)), label="Orders")
    (queue_now,) = only(Document(queues=[orders]), "path", "label").changed
    assert queue_now == msgspec.structs.replace(HELD.queues[1], label="Orders")
    assert only(Document(sites=[SitePart(name="South")]), "name").changed == []
    assert only(Document(lists=[ListPart(name="All")]), "members").changed != []
    (made,) = only(Document(sites=[SitePart(name="New", foreign=True)]), "name").created
    assert made == Site(identifier=made.identifier, name="New", foreign_site=True)


def test_a_name_like_an_identifier_is_never_taken_for_one() -> None:
    gone = format_guid(guid(99))
    held = Holdings.of(
        [
            site(20, gone),
            machine(1, "ALPHA", site_identifier_list=(guid(99),)),
            machine(2, "BETA", site_identifier_list=(guid(20),)),
            machine(3, gone),
            queue(40, rf"{gone}\orders", queue_manager_identifier=guid(3)),
        ]
    )
    document = parse_document(written(described(held)), "x")
    assert difference(document, held, Guids(), OWN, prune=True) == Difference([], [], [])
    again = {one.identifier: one for one in objects_of(document)}
    for before in held.machines:
        after = again[before.identifier]
        assert isinstance(after, QueueManager)
        assert after.site_identifier_list == before.site_identifier_list


def test_paths_have_backslashes_whatever_they_were_written_with() -> None:
    part = QueuePart(path="FAR/new", guid=format_guid(guid(42)))
    (made,) = compared(Document(queues=[part]), prune=False).created
    assert isinstance(made, Queue)
    assert made.pathname == r"FAR\new"


@pytest.mark.parametrize(
    ("document", "said", "remedy"),
    [
        (Document(links=[LinkPart(sites=["North", "North"])]), "North,North", "Correct it"),
        (Document(links=[LinkPart(sites=["North", "Away"])]), "'Away'", "directory site list"),
        (
            Document(lists=[ListPart(name="L", members=[r".\private$\q"])]),
            "it does not exist",
            "DIRECT=OS:",
        ),
        (Document(lists=[ListPart(name="L", members=["M"])]), "'M'", "list list"),
        (Document(queues=[QueuePart(path=r"NO\q", guid=format_guid(guid(9)))]), "'NO'", "machine"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(document: Document, said: str, remedy: str) -> None:
    with pytest.raises(IllegalPropertyValue, match=r"[nN]othing was changed") as it:
        compared(document, prune=False)
    assert said in it.value.cause
    assert remedy in it.value.remedy
