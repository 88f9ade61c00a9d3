"""Changes that were decided on an older version of an object."""

from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.certificates import with_certificate, without_certificate
from posthouse.directory.change_merging import merged, rebased
from posthouse.directory.objects import DistributionList, Site, User
from posthouse.security.keys import certificate_digest
from tests.directory.world import ALICE, guid
from tests.security.key_ring import certificate

ONES = st.lists(st.integers(0, 5), max_size=4, unique=True).map(tuple)
OLD, NEW, OTHER = certificate("old"), certificate("new"), certificate("other")


@given(ONES, ONES, ONES)
def test_lists_get_what_was_added_and_lose_what_was_taken_out(
    value: tuple[int, ...], base: tuple[int, ...], present: tuple[int, ...]
) -> None:
    after = merged(value, base, present)
    assert len(set(after)) == len(after)
    removed, added = set(base) - set(value), set(value) - set(base)
    assert set(after) == (set(present) - removed) | added
    assert merged(value, base, base) == value


def user(*certificates: bytes) -> User:
    made = User(identifier=guid(7), security_identifier=ALICE)
    for one in certificates:
        made = with_certificate(made, one, certificate_digest(one))
    return made


def test_a_certificate_that_was_withdrawn_does_not_come_back() -> None:
    assert rebased(user(OLD, NEW), user(OLD), user()) == user(NEW)
    assert rebased(user(OLD, NEW), user(OLD), user(OTHER)) == user(OTHER, NEW)
    assert rebased(user(), user(OLD), user(OLD, OTHER)) == user(OTHER)
    assert rebased(user(OLD, NEW), user(OLD), user(NEW)) == user(NEW)


def test_the_digests_are_those_of_the_certificates() -> None:
    after = rebased(user(OLD, NEW), user(OLD), user(OTHER))
    assert isinstance(after, User)
    assert after.certificate_digest_list == tuple(map(certificate_digest, (OTHER, NEW)))
    assert without_certificate(after, certificate_digest(NEW)) == user(OTHER)


def test_what_is_no_list_is_as_it_was_wanted() -> None:
    before, present = DistributionList(name="a", members=("x",)), DistributionList(name="b")
    wanted = DistributionList(name="c", members=("x", "y"))
    assert rebased(wanted, before, present) == DistributionList(name="c", members=("y",))
    assert rebased(wanted, None, present) == wanted
    assert rebased(Site(name="c"), Site(name="a"), Site(name="b")) == Site(name="c")
