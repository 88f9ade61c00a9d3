"""Conversations: steps one after the other, refusals raised where the handler waits, cancelling."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.model.errors import (
    AccessDenied,
    OperationCancelled,
    QueueError,
    RemoteProtocolError,
)
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.handlers.context import on_the_spot
from posthouse.protocols.handlers.request_steps import (
    AHEAD_MAX,
    Ahead,
    Conversation,
    Decide,
    Outside,
    Steps,
    Wait,
    at_once,
    looked_at,
)
from tests.engine.rig import Rig
from tests.protocols.admin.session_rig import TurnDesk


class Ends:
    """What a conversation came to."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[Exception | None] = []

    def __call__(self, value: Any, error: Exception | None) -> None:
        self.values.append(value)
        self.errors.append(error)


def run(steps: Steps[Any]) -> tuple[TurnDesk, Conversation[Any], Ends]:
    desk, ends = TurnDesk(Rig().driver), Ends()
    conversation = Conversation(desk, steps, ends)
    conversation.start()
    desk.settle()
    return desk, conversation, ends


def test_each_step_is_a_turn_of_its_own_and_waits_for_its_sync() -> None:
    def steps() -> Steps[int]:
        first = yield Decide(lambda m: 1)
        second = yield Decide(lambda m: 2)
        return int(str(first.value) + str(second.value))

    desk, ends = TurnDesk(Rig().driver), Ends()
    Conversation(desk, steps(), ends).start()
    desk.append()
    assert ends.values == []
    desk.settle()
    assert (ends.values, ends.errors, desk.decisions) == ([12], [None], 2)


def test_what_runs_ahead_does_not_wait_for_its_sync_but_the_end_does() -> None:
    reached = list[int]()

    def steps() -> Steps[int]:
        for number in range(AHEAD_MAX + 2):
            answer = yield Ahead(lambda m, number=number: number)
            reached.append(answer.value)  # type: ignore[arg-type]
        yield Decide(lambda m: None)
        return sum(reached)

    desk, ends = TurnDesk(Rig().driver), Ends()
    Conversation(desk, steps(), ends).start()
    assert reached == list(range(AHEAD_MAX))  # one more has run, and waits
    desk.append()
    assert ends.values == []
    desk.settle()
    assert (ends.values, desk.decisions) == ([6], AHEAD_MAX + 3)


def test_a_refusal_of_what_runs_ahead_is_raised_at_once() -> None:
    def refuse(manager: QueueManager) -> None:
        raise AccessDenied("no")

    def steps() -> Steps[str]:
        try:
            yield Ahead(refuse)
        except AccessDenied as error:
            return error.cause
        return "?"

    desk, ends = TurnDesk(Rig().driver), Ends()
    conversation = Conversation(desk, steps(), ends)
    conversation.start()
    assert ends.values == ["no"]
    assert isinstance(conversation.refusal, AccessDenied)
    desk.settle()
    assert desk.manager.machine.refusals["MQ_ERROR_ACCESS_DENIED"] == 1


def test_a_refusal_is_raised_where_the_handler_waits() -> None:
    def refuse(manager: QueueManager) -> None:
        raise AccessDenied("no")

    def steps() -> Steps[str]:
        try:
            yield Decide(refuse)
        except AccessDenied as error:
            return error.cause
        return "?"

    _, conversation, ends = run(steps())
    assert ends.values == ["no"]
    assert isinstance(conversation.refusal, AccessDenied)


@pytest.mark.parametrize("error", [AccessDenied("no"), ValueError("ours")])
def test_what_the_handler_raises_ends_it(error: Exception) -> None:
    def steps() -> Steps[None]:
        yield Decide(lambda m: None)
        raise error

    _, conversation, ends = run(steps())
    assert ends.errors == [error]
    assert conversation.refusal is None


def test_a_desk_that_throws_ends_it() -> None:
    class Shut:
        manager = Rig().manager

        def decide(self, call: Call, release: Release) -> None:
            raise RemoteProtocolError("shut")

    ends = Ends()
    Conversation(Shut(), at_once(lambda m: 1), ends).start()
    assert [type(error) for error in ends.errors] == [RemoteProtocolError]


def test_a_look_that_fails_fails_alone() -> None:
    def broken(manager: QueueManager) -> int:
        raise KeyError("ours")

    desk, _, ends = run(looked_at(broken))
    assert [type(error) for error in ends.errors] == [KeyError]
    assert not desk.driver.failed
    Conversation(desk, at_once(broken), ends).start()
    assert desk.driver.failed


def test_a_refused_look_is_the_engines_refusal() -> None:
    def refused(manager: QueueManager) -> int:
        raise AccessDenied("no")

    _, conversation, ends = run(looked_at(refused))
    assert ends.errors == [conversation.refusal]


def test_work_outside_brings_its_value_or_its_error() -> None:
    def fails() -> object:
        raise OSError("full")

    def steps(step: Outside) -> Steps[object]:
        return (yield step).value

    assert run(steps(on_the_spot(lambda: 7)))[2].values == [7]
    assert [type(error) for error in run(steps(on_the_spot(fails)))[2].errors] == [OSError]


class Waiting:
    """A step that waits until it is woken or cancelled."""

    def __init__(self) -> None:
        self.token: Release | None = None
        self.cancelled = 0

    def call(self, manager: QueueManager, token: Release) -> None:
        self.token = token

    def cancel(self, manager: QueueManager) -> None:
        self.cancelled += 1
        assert self.token is not None
        error: QueueError = AccessDenied("cancelled")
        manager.ledger.effects.wakes.append(_wake(self.token, error))

    def steps(self) -> Steps[str]:
        try:
            yield Wait(self.call, self.cancel)
        except QueueError as error:
            yield Decide(lambda m: None)
            return error.cause
        return "woken"


def _wake(token: Release, error: QueueError | None) -> Any:
    from posthouse.engine.ledger.effects import Wake

    return Wake(token, None, error)


def test_a_wait_ends_when_it_is_woken() -> None:
    waiting = Waiting()
    desk, _, ends = run(waiting.steps())
    assert ends.values == []
    assert waiting.token is not None
    desk.decide(lambda m: m.ledger.effects.wakes.append(_wake(waiting.token, None)), _ignored)
    desk.settle()
    assert ends.values == ["woken"]


def test_a_cancelled_wait_ends_and_cleans_up() -> None:
    waiting = Waiting()
    desk, conversation, ends = run(waiting.steps())
    conversation.cancel()
    desk.settle()
    assert (ends.values, waiting.cancelled) == (["cancelled"], 1)
    conversation.cancel()
    desk.settle()
    assert waiting.cancelled == 1


@pytest.mark.parametrize(("looks", "steps_done"), [(True, 1), (False, 3)])
def test_only_a_look_is_broken_off_when_nobody_wants_it_any_more(
    looks: bool, steps_done: int
) -> None:
    done: list[int] = []

    def steps() -> Steps[str]:
        for number in range(3):
            yield Decide(lambda m, number=number: done.append(number))  # type: ignore[misc]
        return "all"

    desk, ends = TurnDesk(Rig().driver), Ends()
    conversation = Conversation(desk, steps(), ends, looks=looks)
    conversation.start()
    conversation.cancel()
    desk.settle()
    assert len(done) == steps_done
    assert conversation.ended
    assert isinstance(ends.errors[0], OperationCancelled) is looks


def test_who_leaves_before_the_wait_began_cancels_it_too() -> None:
    waiting, ends = Waiting(), Ends()

    def steps() -> Steps[str]:
        yield Decide(lambda m: None)
        return (yield from waiting.steps())

    desk = TurnDesk(Rig().driver)
    conversation = Conversation(desk, steps(), ends)
    conversation.start()
    conversation.cancel()
    desk.settle()
    assert (ends.values, waiting.cancelled) == (["cancelled"], 1)


def test_who_leaves_in_the_turn_of_the_wait_cancels_it_once() -> None:
    waiting, ends = Waiting(), Ends()
    desk = TurnDesk(Rig().driver)
    conversation = Conversation(desk, waiting.steps(), ends)
    conversation.start()
    conversation.cancel()
    desk.settle()
    assert (ends.values, waiting.cancelled) == (["cancelled"], 1)


def _ignored(answer: object) -> None:
    pass
