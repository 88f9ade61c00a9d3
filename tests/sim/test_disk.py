"""The simulated disk: what a crash leaves, its copies, and that a seed is the whole story."""

import errno
from collections.abc import Callable
from itertools import chain, combinations
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.sim import Operation, PowerLost, SimDisk
from posthouse.sim.simulated_file import SECTOR_SIZE

OLD = b"o" * 1000
SEEDS = range(400)


def with_file(seed: int = 0, content: bytes = OLD, capacity: int = 1 << 20) -> SimDisk:
    return SimDisk(seed, capacity=capacity, files={"a": content})


def outcome(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or 0
    return 0


def crashes(prepare: Callable[[SimDisk], object], content: bytes = OLD) -> set[bytes]:
    """Contents of file `a` after a crash with every seed."""
    found = set()
    for seed in SEEDS:
        disk = with_file(seed, content)
        prepare(disk)
        found.add(disk.crash("random").contents()["a"])
    return found


# What a crash leaves


def test_only_what_was_synced_survives_by_default() -> None:
    disk = with_file()
    file = disk.open("a")
    file.write([b"synced"], 0)
    file.sync()
    file.write([b"lost"], 100)
    file.truncate(50)
    assert disk.crash().contents() == {"a": b"synced" + OLD[6:]}


def test_everything_survives_if_asked() -> None:
    disk = with_file()
    disk.open("a").write([b"kept"], 2000)
    disk.open("b", create=True).write([b"new"], 0)
    seen = disk.contents()
    assert disk.crash("everything").contents() == seen


def test_unsynced_write_is_lost_kept_or_torn() -> None:
    new = b"n" * 800
    found = crashes(lambda disk: disk.open("a").write([new], 100))
    assert OLD in found
    assert OLD[:100] + new + OLD[900:] in found
    torn = {data for data in found if 0 < data.count(b"n") < len(new)}
    assert any(data[100] == ord("n") and data[899] == ord("o") for data in torn)
    assert any(data[100] == ord("o") and data[899] == ord("n") for data in torn)


def test_write_is_torn_at_sectors_and_at_bytes() -> None:
    found = crashes(lambda disk: disk.open("a").write([b"n" * 2000], 0), content=b"o" * 2000)
    heads = {len(data) - len(data.lstrip(b"n")) for data in found} - {0}
    tails = {len(data.rstrip(b"n")) for data in found} - {2000}
    for edges in (heads, tails):
        assert {512, 1024} < edges
        assert any(edge % SECTOR_SIZE for edge in edges - {2000})


def test_sectors_of_one_write_survive_apart_from_each_other() -> None:
    found = crashes(lambda disk: disk.open("a").write([b"n" * 1000], 0))
    assert b"o" * 512 + b"n" * 488 in found
    found = crashes(lambda disk: disk.open("a").write([b"n" * 900], 100))
    assert OLD[:512] + b"n" * 488 in found
    assert OLD[:100] + b"n" * 412 + OLD[512:] in found


def test_later_write_survives_an_earlier_one() -> None:
    def write_both(disk: SimDisk) -> None:
        file = disk.open("a")
        file.write([b"first"], 0)
        file.write([b"second"], 600)

    found = crashes(write_both)
    assert OLD[:600] + b"second" + OLD[606:] in found
    assert b"first" + OLD[5:] in found


def test_growth_survives_without_its_bytes() -> None:
    found = crashes(lambda disk: disk.open("a").write([b"n" * 100], 1000))
    assert OLD + bytes(100) in found
    grown = [data for data in found if len(data) == 1100 and data[1000:].strip(b"n\0")]
    assert grown, "no hole with noise in it"
    assert all(data[:1000] == OLD for data in found)


def test_bytes_survive_only_up_to_the_growth_that_did() -> None:
    found = crashes(lambda disk: disk.open("a").write([b"n" * 100], 1000))
    assert {1000, 1100} < {len(data) for data in found} <= set(range(1000, 1101))


def test_hole_shows_what_a_removed_file_had_there() -> None:
    def reuse(disk: SimDisk) -> None:
        disk.open("b", create=True).write([b"s" * 2000], 0)
        disk.unlink("b")
        disk.open("a").write([b"n" * 100], 1000)

    found = crashes(reuse)
    assert OLD + b"s" * 100 in found
    assert OLD + bytes(100) in found


def test_hole_shows_what_a_replaced_file_had_there() -> None:
    def replace(disk: SimDisk) -> None:
        disk.open("b", create=True).write([b"s" * 2000], 0)
        disk.open("c", create=True)
        disk.rename("c", "b")
        disk.open("a").write([b"n" * 100], 1000)

    assert OLD + b"s" * 100 in crashes(replace)


def test_truncate_is_lost_or_kept() -> None:
    assert crashes(lambda disk: disk.open("a").truncate(10)) == {OLD, OLD[:10]}
    assert crashes(lambda disk: disk.open("a").truncate(1010)) == {OLD, OLD + bytes(10)}


def test_synced_bytes_never_change_unless_overwritten() -> None:
    for data in crashes(lambda disk: disk.open("a").write([b"n" * 300], 200)):
        assert data[:200] == OLD[:200]
        assert data[500:] == OLD[500:]


def test_new_file_needs_its_directory_synced() -> None:
    disk = SimDisk()
    file = disk.open("a", create=True)
    file.write([b"data"], 0)
    file.sync()
    assert disk.clone().crash().names() == []
    disk.sync_directory()
    assert disk.crash().contents() == {"a": b"data"}


def test_directory_sync_keeps_no_content() -> None:
    disk = SimDisk()
    disk.open("a", create=True).write([b"data"], 0)
    disk.sync_directory()
    assert disk.crash().contents() == {"a": b""}


def test_directory_changes_survive_independently() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimDisk(seed, files={"a": b"A", "b": b"B", "c": b"C"})
        disk.unlink("a")
        disk.rename("b", "c")
        disk.open("d", create=True)
        found.add(tuple(sorted(disk.crash("random").contents().items())))
    unlinked: list[dict[str, bytes]] = [{}, {"a": b"A"}]
    renamed = [{"c": b"B"}, {"b": b"B", "c": b"C"}]
    created: list[dict[str, bytes]] = [{}, {"d": b""}]
    expected = [a | b | c for a in unlinked for b in renamed for c in created]
    assert found == {tuple(sorted(files.items())) for files in expected}


def test_lost_rename_brings_the_replaced_file_back() -> None:
    disk = SimDisk(files={"current": b"old"})
    file = disk.open("new", create=True)
    file.write([b"new"], 0)
    file.sync()
    disk.sync_directory()
    disk.rename("new", "current")
    assert disk.contents() == {"current": b"new"}
    assert disk.crash().contents() == {"current": b"old", "new": b"new"}


def test_unlink_that_survives_a_lost_rename_takes_nothing_else_with_it() -> None:
    disk = SimDisk(files={"a": b"old"})
    disk.open("new", create=True)
    disk.rename("new", "a")
    disk.unlink("a")
    assert [operation.kind for operation in disk.pending()] == ["create", "rename", "unlink"]
    assert disk.crash(keep=[2]).contents() == {"a": b"old"}
    assert disk.crash(keep=[1, 2]).contents() == {}


def test_exactly_the_chosen_changes_survive() -> None:
    disk = with_file(content=b"....")
    file = disk.open("a")
    for place, data in enumerate((b"A", b"B", b"C")):
        file.write([data], place)
    for chosen in chain.from_iterable(combinations(range(3), size) for size in range(4)):
        expected = bytes(b"ABC"[place] if place in chosen else ord(".") for place in range(3))
        assert disk.crash(keep=chosen).contents() == {"a": expected + b"."}


def test_write_is_torn_where_it_was_asked_for() -> None:
    disk = with_file(content=b"")
    disk.open("a").write([b"0123456789"], 0)
    for size in range(11):
        assert disk.crash(torn={0: size}).contents() == {"a": b"0123456789"[:size]}


def test_pending_lists_unsynced_changes_oldest_first() -> None:
    disk = with_file()
    file = disk.open("a")
    file.write([b"xyz"], 7)
    disk.open("b", create=True)
    file.truncate(5)
    disk.rename("b", "c")
    changes = [
        Operation("write", "a", 7, 3),
        Operation("create", "b"),
        Operation("truncate", "a", size=5),
        Operation("rename", "b", to="c"),
    ]
    assert disk.pending() == changes
    file.sync()
    assert disk.pending() == [changes[1], changes[3]]
    disk.sync_directory()
    assert disk.pending() == []


def test_pending_names_a_file_that_is_unlinked_already() -> None:
    disk = with_file()
    disk.open("a").write([b"x"], 0)
    disk.unlink("a")
    assert disk.pending() == [Operation("write", "a", 0, 1), Operation("unlink", "a")]
    assert disk.crash(keep=[0]).contents() == {"a": b"x" + OLD[1:]}
    assert disk.crash(keep=[0, 1]).contents() == {}


def test_durable_is_what_the_harshest_crash_leaves() -> None:
    disk = with_file()
    disk.open("a").write([b"lost"], 0)
    disk.open("b", create=True)
    assert disk.durable() == disk.crash().contents() == {"a": OLD}


def test_crashed_disk_and_its_files_raise() -> None:
    disk = with_file()
    file = disk.open("a")
    found = disk.crash()
    calls: list[Callable[[], object]] = [
        file.size,
        file.sync,
        lambda: file.read(0, 1),
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
        lambda: disk.open("a"),
        lambda: disk.rename("a", "b"),
        lambda: disk.unlink("a"),
        lambda: disk.exists("a"),
        lambda: disk.size("a"),
        disk.names,
        disk.sync_directory,
        disk.free_space,
    ]
    for call in calls:
        with pytest.raises(PowerLost):
            call()
    file.close()
    assert found.contents() == {"a": OLD}


def test_disk_found_after_a_crash_works_and_crashes_again() -> None:
    disk = with_file().crash()
    file = disk.open("a")
    file.write([b"again"], 0)
    file.sync()
    file.write([b"lost"], 10)
    assert disk.crash().contents() == {"a": b"again" + OLD[5:]}


# Damage and copies


def test_bit_flips_on_the_disk_and_for_readers() -> None:
    disk = with_file(content=b"\x00\xff")
    disk.flip_bit("a", 0, 7)
    disk.flip_bit("a", 1, 0)
    assert disk.contents() == disk.crash().contents() == {"a": b"\x80\xfe"}


def test_cut_loses_the_end() -> None:
    disk = with_file(content=b"0123")
    disk.cut("a", 3)
    assert disk.contents() == disk.crash().contents() == {"a": b"012"}


def test_damage_stays_on_its_own_copy() -> None:
    disk = with_file(content=b"0123")
    copy = disk.clone()
    copy.flip_bit("a", 0, 0)
    disk.cut("a", 1)
    assert copy.contents() == {"a": b"1123"}
    assert disk.contents() == {"a": b"0"}


def test_clone_goes_its_own_way() -> None:
    disk = with_file(content=b"old")
    file = disk.open("a")
    file.write([b"new"], 0)
    disk.open("b", create=True)
    disk.fail_at(1, "sync")
    copy = disk.clone()
    assert copy.pending() == disk.pending()
    assert copy.operations == disk.operations
    assert outcome(copy.open("a").sync) == errno.EIO
    assert outcome(file.sync) == errno.EIO
    copy.open("a").write([b"copy"], 0)
    copy.unlink("b")
    assert disk.names() == ["a", "b"]
    assert copy.contents() == {"a": b"copy"}
    assert disk.contents()["a"] != b"copy"


def test_crash_of_one_disk_twice_shares_nothing() -> None:
    disk = with_file(content=b"old")
    one, two = disk.crash(), disk.crash()
    one.open("a").write([b"one"], 0)
    two.open("a").write([b"two"], 0)
    assert one.contents() == {"a": b"one"}
    assert two.contents() == {"a": b"two"}
    assert disk.durable() == one.durable() == {"a": b"old"}


def test_note_stands_between_operations() -> None:
    disk = with_file()
    file = disk.open("a")
    file.write([b"x"], 0)
    file.sync()
    disk.note("answer 1")
    assert [operation.kind for operation in disk.operations] == ["write", "sync", "note"]
    assert disk.operations[-1].name == "answer 1"


def test_read_only_refusal_is_no_operation() -> None:
    disk = SimDisk(read_only=True, files={"a": OLD})
    assert outcome(lambda: disk.unlink("a")) == errno.EROFS
    assert disk.operations == []


def test_thread_that_syncs_loses_no_write_of_the_loop() -> None:
    disk = with_file(content=b"")
    file = disk.open("a")

    def sync_often() -> None:
        for _ in range(300):
            file.sync()

    thread = Thread(target=sync_often)
    thread.start()
    for place in range(2000):
        file.write([b"x"], place)
    thread.join()
    file.sync()
    assert disk.crash().contents() == {"a": b"x" * 2000}


# A seed is the whole story

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.integers(0, 1500), st.binary(min_size=1)),
        st.tuples(st.just("truncate"), NAMES, st.integers(0, 1500)),
        st.tuples(st.just("sync"), NAMES),
        st.tuples(st.just("sync_directory")),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("unlink"), NAMES),
        st.tuples(st.just("fail"), st.integers(1, 5)),
    ),
    max_size=20,
)
Step = tuple[object, ...]


def play(disk: SimDisk, steps: list[Step]) -> None:
    for step in steps:
        outcome(lambda step=step: play_step(disk, *step))  # type: ignore[misc]


def play_step(disk: SimDisk, kind: str, *arguments: object) -> None:
    if kind == "fail":
        disk.fail_at(*arguments)  # type: ignore[arg-type]
    elif kind in ("rename", "unlink", "sync_directory"):
        getattr(disk, kind)(*arguments)
    else:
        play_on_file(disk, kind, *arguments)  # type: ignore[arg-type]


def play_on_file(disk: SimDisk, kind: str, name: str, *arguments: object) -> None:
    file = disk.open(name, create=not disk.exists(name))
    if kind == "write":
        offset, data = arguments
        file.write([data], offset)  # type: ignore[list-item, arg-type]
    else:
        getattr(file, kind)(*arguments)
    file.close()


@given(seed=st.integers(), steps=STEPS)
def test_same_seed_and_calls_give_the_same_disk(seed: int, steps: list[Step]) -> None:
    runs = []
    for _ in range(2):
        disk = SimDisk(seed)
        play(disk, steps)
        after = disk.crash("random")
        play(after, steps)
        again = after.crash("random")
        runs.append((disk.operations, after.seed, after.operations, again.contents()))
    assert runs[0] == runs[1]


@given(seed=st.integers(), steps=STEPS)
def test_clone_crashes_as_the_original_does(seed: int, steps: list[Step]) -> None:
    disk = SimDisk(seed)
    play(disk, steps)
    copy = disk.clone()
    assert copy.contents() == disk.contents()
    assert copy.durable() == disk.durable()
    assert copy.crash("random").contents() == disk.crash("random").contents()


@given(before=STEPS, after=STEPS)
def test_clone_and_original_never_touch_each_other(before: list[Step], after: list[Step]) -> None:
    disk = SimDisk()
    play(disk, before)
    copy, idle = disk.clone(), disk.clone()
    seen = idle.contents(), idle.durable(), idle.pending()
    play(disk, after)
    assert (idle.contents(), idle.durable(), idle.pending()) == seen
    play(copy, after)
    assert (idle.contents(), idle.durable(), idle.pending()) == seen
    assert copy.contents() == disk.contents()
    assert copy.durable() == disk.durable()


@given(steps=STEPS)
def test_policies_are_the_ends_of_keep(steps: list[Step]) -> None:
    disk = SimDisk()
    play(disk, steps)
    assert disk.crash(keep=()).contents() == disk.crash("nothing").contents() == disk.durable()
    everything = range(len(disk.pending()))
    assert disk.crash(keep=everything).contents() == disk.crash("everything").contents()


@given(seed=st.integers(), steps=STEPS)
def test_synced_disk_survives_any_crash_unchanged(seed: int, steps: list[Step]) -> None:
    disk = SimDisk(seed)
    play(disk, [step for step in steps if step[0] != "fail"])
    for name in disk.names():
        disk.open(name).sync()
    disk.sync_directory()
    seen = disk.contents()
    for policy in ("nothing", "everything", "random"):
        assert disk.crash(policy).contents() == seen


def test_crash_with_a_seed_of_its_own_repeats() -> None:
    disk = with_file()
    disk.open("a").write([b"n" * 5000], 0)
    assert disk.crash("random", seed=7).contents() == disk.crash("random", seed=7).contents()
    assert len({disk.crash("random", seed=seed).contents()["a"] for seed in range(50)}) > 10


def test_crashes_of_one_disk_differ() -> None:
    disk = with_file()
    disk.open("a").write([b"n" * 5000], 0)
    assert len({disk.crash("random").contents()["a"] for _ in range(50)}) > 10
