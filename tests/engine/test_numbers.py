"""Sets of numbers kept as runs are sets of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.number_ranges import Numbers

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "discard", "add_run", "discard_run"]),
        st.integers(1, 60),
        st.integers(0, 25),
    ),
    max_size=40,
)


def apply(numbers: Numbers, plain: set[int], operation: tuple[str, int, int]) -> None:
    name, first, count = operation
    run = range(first, first + (count if name.endswith("run") else 1))
    arguments = (first, count) if name.endswith("run") else (first,)
    getattr(numbers, name)(*arguments)
    if name.startswith("add"):
        plain.update(run)
    else:
        plain.difference_update(run)


@given(OPERATIONS)
def test_they_hold_what_a_set_would_hold(operations: list[tuple[str, int, int]]) -> None:
    numbers, plain = Numbers(), set[int]()
    for operation in operations:
        apply(numbers, plain, operation)
        assert list(numbers) == sorted(plain)
        assert len(numbers) == len(plain)
        assert bool(numbers) == bool(plain)
        assert all((n in numbers) == (n in plain) for n in range(90))


@given(OPERATIONS)
def test_runs_never_touch_and_make_the_same_numbers_again(
    operations: list[tuple[str, int, int]],
) -> None:
    numbers, plain = Numbers(), set[int]()
    for operation in operations:
        apply(numbers, plain, operation)
    runs = numbers.runs()
    assert all(count > 0 for _, count in runs)
    pairs = pairwise(runs)
    assert all(first + count < following for (first, count), (following, _) in pairs)
    assert Numbers(runs) == numbers == numbers.copy()
    assert numbers != Numbers([*runs, (1000, 1)])


@given(OPERATIONS, st.integers(1, 60), st.integers(1, 25))
def test_a_run_is_held_when_all_of_it_is_there(
    operations: list[tuple[str, int, int]], first: int, count: int
) -> None:
    numbers, plain = Numbers(), set[int]()
    for operation in operations:
        apply(numbers, plain, operation)
    assert numbers.holds(first, count) == plain.issuperset(range(first, first + count))


def test_a_copy_goes_its_own_way() -> None:
    numbers = Numbers([(1, 10)])
    other = numbers.copy()
    other.discard_run(3, 4)
    assert (len(numbers), list(other)) == (10, [1, 2, 7, 8, 9, 10])
    assert numbers != {1, 2}
