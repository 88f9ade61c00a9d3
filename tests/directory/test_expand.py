"""Expand Format Name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.base import Found
from posthouse.directory.expand import DEPTH_MAX, NAMES_MAX, directory_reader, expand_format_name
from posthouse.directory.objects import DistributionList, QueueAlias
from posthouse.model.errors import IllegalFormatName, NoDs, QueueError
from posthouse.model.guids import format_guid
from posthouse.model.names import FormatName, MultipleName, parse_format_name

from .world import NOT_CONNECTED, NOT_FOUND, SUCCESS, Local, World, guid, machine, service_of

A, B, C = (rf"DIRECT=OS:{name}\q" for name in "abc")


def dl(number: int) -> str:
    return f"DL={format_guid(guid(number))}"


class Lists(dict[int, tuple[str, ...]]):
    """Distribution lists by number."""

    def read(self, identifier: bytes) -> Found[DistributionList]:
        members = self.get(int.from_bytes(identifier, "big"))
        if members is None:
            return Found(NOT_FOUND)
        return Found(SUCCESS, DistributionList(identifier=identifier, name="x", members=members))

    def expand(self, text: str) -> str:
        return str(expand_format_name(parse_format_name(text), self.read))


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/1")
@pytest.mark.parametrize(
    "text", [A, f"PUBLIC={format_guid(guid(1))}", f"PRIVATE={format_guid(guid(1))}\\00000004"]
)
def test_a_single_name_is_returned_unchanged(text: str) -> None:
    name = parse_format_name(text)
    assert expand_format_name(name, Lists().read) is name


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/2")
def test_lists_in_lists_are_resolved_until_none_is_left() -> None:
    lists = Lists({1: (A, dl(2)), 2: (dl(3), B), 3: (C,)})
    assert lists.expand(dl(1)) == f"{A},{B},{C}"
    assert lists.expand(f"{dl(3)},{dl(2)}") == f"{B},{C}"


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/3")
def test_circular_lists_end() -> None:
    lists = Lists({1: (A, dl(2)), 2: (B, dl(1), dl(2))})
    assert lists.expand(dl(1)) == f"{A},{B}"
    with pytest.raises(IllegalFormatName):
        Lists({1: (dl(2),), 2: (dl(1),)}).expand(dl(1))


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/3")
def test_the_depth_of_nesting_is_limited() -> None:
    deep = Lists({n: (dl(n + 1),) for n in range(1, DEPTH_MAX)})
    deep[DEPTH_MAX] = (A,)
    assert deep.expand(dl(1)) == A
    deep[DEPTH_MAX] = (dl(DEPTH_MAX + 1),)
    deep[DEPTH_MAX + 1] = (A,)
    with pytest.raises(IllegalFormatName, match="deep"):
        deep.expand(dl(1))


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/4")
def test_one_unknown_list_fails_the_whole_expansion() -> None:
    lists = Lists({1: (A, dl(2))})
    for text in (dl(1), f"{A},{dl(9)}"):
        with pytest.raises(IllegalFormatName):
            lists.expand(text)


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/5")
def test_names_are_kept_once_whatever_their_case() -> None:
    lists = Lists({1: (A, A.upper(), A.lower())})
    assert lists.expand(dl(1)).casefold() == A.casefold()
    assert not isinstance(expand_format_name(parse_format_name(dl(1)), lists.read), MultipleName)
    assert lists.expand(f"{B},{A},{B.upper()}").casefold() == f"{A},{B}".casefold()


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.8/6")
def test_several_names_are_joined_in_order_without_regard_to_case() -> None:
    lists = Lists({1: (C, r"DIRECT=os:B\q", A)})
    assert lists.expand(dl(1)).casefold() == f"{A},{B},{C}".casefold()


def test_an_alias_stands_for_its_queue_alone_and_in_lists() -> None:
    world = World()
    world.add(QueueAlias(identifier=guid(2), name="till", format_name=A))
    world.add(QueueAlias(identifier=guid(3), name="all of them", format_name=dl(4)))
    world.add(DistributionList(identifier=guid(4), name="x", members=(B, dl(2))))
    read = directory_reader(service_of(world, Local(machine(1, "ALPHA"))), 0)
    expanded = [str(expand_format_name(parse_format_name(dl(n)), read)) for n in (2, 3, 4)]
    assert expanded == [A, f"{A},{B}", f"{A},{B}"]


def test_aliases_that_stand_for_each_other_end() -> None:
    world = World()
    world.add(QueueAlias(identifier=guid(2), name="a", format_name=dl(3)))
    world.add(QueueAlias(identifier=guid(3), name="b", format_name=dl(2)))
    read = directory_reader(service_of(world, Local(machine(1, "ALPHA"))), 0)
    with pytest.raises(IllegalFormatName, match="contains no queue to send to"):
        expand_format_name(parse_format_name(dl(2)), read)


def test_a_list_without_queues_is_refused() -> None:
    with pytest.raises(IllegalFormatName):
        Lists({1: ()}).expand(dl(1))


def test_lists_that_grow_beyond_any_use_are_refused() -> None:
    many = {
        n: (
            *(dl(100 * n + k) for k in range(1, 90)),
            *(rf"DIRECT=OS:h{n}\q{k}" for k in range(150)),
        )
        for n in range(1, 90)
    }
    lists = Lists({**many, **{100 * n + k: (A,) for n in range(1, 90) for k in range(1, 90)}})
    with pytest.raises(IllegalFormatName):
        lists.expand(",".join(dl(n) for n in range(1, 90)))


def test_no_more_lists_are_read_than_their_names_could_count() -> None:
    wide = {n: tuple(rf"DIRECT=OS:h\q{k}" for k in range(256)) for n in range(1, 201)}
    read: list[bytes] = []

    def counted(identifier: bytes) -> Found[DistributionList]:
        read.append(identifier)
        return Lists(wide).read(identifier)

    with pytest.raises(IllegalFormatName, match="too many names"):
        expand_format_name(parse_format_name(",".join(map(dl, wide))), counted)
    assert len(read) == NAMES_MAX // 256


def test_without_directory_the_code_says_so() -> None:
    with pytest.raises(NoDs):
        expand_format_name(parse_format_name(dl(1)), lambda _: Found(NOT_CONNECTED))


@pytest.mark.usefixtures("any_directory")
def test_lists_are_read_through_the_service() -> None:
    world = World()
    world.add(DistributionList(identifier=guid(7), name="all", members=(A, B)))
    service = service_of(world, Local(machine(1, "ALPHA")))
    name: FormatName = parse_format_name(dl(7))
    assert str(expand_format_name(name, directory_reader(service, 0))) == f"{A},{B}"


@given(
    st.dictionaries(
        st.integers(1, 5),
        st.lists(st.one_of(st.integers(1, 5).map(dl), st.sampled_from([A, B, C])), max_size=4),
    ),
    st.integers(1, 5),
)
def test_any_lists_expand_to_the_reachable_names_or_fail(
    graph: dict[int, list[str]], start: int
) -> None:
    lists = Lists({number: tuple(members) for number, members in graph.items()})
    names, unknown = reachable(graph, start)
    try:
        expanded = lists.expand(dl(start))
    except QueueError:
        assert unknown or not names
        return
    assert not unknown
    assert expanded.split(",") == sorted(names)


def reachable(graph: dict[int, list[str]], start: int) -> tuple[set[str], bool]:
    names, seen, todo = set[str](), set[int](), [start]
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        if number not in graph:
            return set(), True
        for member in graph[number]:
            if member.startswith("DL="):
                todo.append(int(member[-12:], 16))
            else:
                names.add(member)
    return names, False
