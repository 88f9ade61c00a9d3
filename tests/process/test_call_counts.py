"""One message takes a number of calls that only falls: `posthouse bench calls`, as a ratchet."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.calls import Count, OnTheLoop, count_calls, count_client_calls
from benchmarks.place import Place
from benchmarks.run import Run

# Python calls and calls of builtins of one request. Lower them when the counts have fallen; where
# one has risen the loop, the session or the engine asks more of each message than it did.
MOST = {
    "on_send": Count(107, 108),
    "on_receive": Count(125, 77),
    "on_end": Count(114, 110),
}
MOST_OF_A_CLIENT = Count(27, 32)  # that sends a durable message
MESSAGES = 24


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Count, float]]:
    return count_calls(Run(Place(tmp_path_factory.mktemp("calls")), quick=True), MESSAGES)


@pytest.mark.parametrize("request_name", sorted(MOST))
def test_a_message_takes_no_more_calls_than_it_did(
    counted: dict[str, tuple[Count, float]], request_name: str
) -> None:
    (python, builtin), share = counted[request_name]
    assert share > 0.5, "requests that are alike take as many calls"
    most = MOST[request_name]
    assert python <= most.python, "Python calls"
    assert builtin <= most.builtin, "calls of builtins"


def test_counts_do_not_depend_on_the_disk() -> None:
    policy = OnTheLoop()
    policy.note(10.0)
    assert policy.inline(1 << 30)


def test_a_second_count_is_the_first(
    counted: dict[str, tuple[Count, float]], tmp_path: Path
) -> None:
    again = count_calls(Run(Place(tmp_path), quick=True), MESSAGES)
    assert {name: again[name][0] for name in MOST} == {name: counted[name][0] for name in MOST}


def test_a_client_takes_no_more_calls_for_a_message_than_it_did(tmp_path: Path) -> None:
    (python, builtin), share = count_client_calls(Run(Place(tmp_path), quick=True), MESSAGES)
    assert share > 0.5, "messages that are alike take as many calls"
    assert python <= MOST_OF_A_CLIENT.python, "Python calls"
    assert builtin <= MOST_OF_A_CLIENT.builtin, "calls of builtins"
