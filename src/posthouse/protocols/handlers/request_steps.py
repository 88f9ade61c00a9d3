"""How a request of the API runs: steps on the engine, each answered once it is durable.

A handler is a generator. It yields steps and gets their answers; a refusal is raised where it
waits. Parsing, filtering and the making of JSON happen between the steps, so that nothing but
engine calls runs inside a turn. No sockets and no event loop: HTTP requests and the CALL frames of
client sessions run the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Generic, NamedTuple, TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.model.errors import OperationCancelled, QueueError, without_frames
from posthouse.protocols.engine_calls import Answer, Desk, Release

T = TypeVar("T")


class Decide(NamedTuple):
    """One call on the engine."""

    call: Callable[[QueueManager], object]


class Wait(NamedTuple):
    """A read that may wait: `call` gets the token to be woken by and returns None if it waits."""

    call: Callable[[QueueManager, Release], object]
    cancel: Callable[[QueueManager], None]


Resume = Callable[[object, Exception | None], None]


class Outside(NamedTuple):
    """Work outside the engine: `start` gets what to call with its value or its error."""

    start: Callable[[Resume], None]


class Present(NamedTuple):
    """Asks whether the caller is still there: the value of the answer."""


class Ahead(NamedTuple):
    """A call on the engine after which the next step begins before it is durable.

    For what is not visible before a later step: that one waits for all in front of it. No
    more than `AHEAD_MAX` of them run ahead of the disk.
    """

    call: Callable[[QueueManager], object]


AHEAD_MAX: Final = 2
Step = Decide | Wait | Outside | Ahead | Present
Steps = Generator[Step, Answer, T]
Finish = Callable[[T | None, Exception | None], None]


class Conversation(Generic[T]):
    """Runs one generator to its end; `finish` gets its value, or the error that ended it.

    One that only `looks` is broken off between two steps when the caller has gone.
    """

    def __init__(
        self, desk: Desk, steps: Steps[T], finish: Finish[T], *, looks: bool = False
    ) -> None:
        self._desk = desk
        self._steps = steps
        self._finish = finish
        self._looks = looks
        self._waiting: Wait | None = None
        self._cancelled = False
        self._ahead = 0  # calls that ran ahead of the disk
        self._held: Callable[[], None] | None = None  # what goes on when one of them is durable
        self.ended = False
        self.refusal: QueueError | None = None  # the engine's own, which it has counted

    def start(self) -> None:
        """The first step."""
        self._advance(lambda: next(self._steps))

    def cancel(self) -> None:
        """The client has left: a wait ends now, a read soon; a step that changes data runs on."""
        self._cancelled = True
        waiting = self._waiting
        if waiting is not None:
            self._decide(_cancelling(waiting), lambda answer: None)

    def _advance(self, move: Callable[[], Step]) -> None:
        # Answers come inside the driver's release: nothing may be thrown back at it.
        try:
            step = move()
        except StopIteration as end:
            self._end(end.value, None)
        except Exception as error:
            self._end(None, error)
            without_frames(error)
        else:
            self._take(step)

    def _end(self, value: T | None, error: Exception | None) -> None:
        """Lets go of what it was for: in a circle that would stay for long."""
        self.ended = True
        finish, self._finish = self._finish, _finished
        finish(value, error)

    def _take(self, step: Step) -> None:
        if self._cancelled and self._looks:
            self._throw(OperationCancelled("the caller has gone"))
        elif isinstance(step, Decide):
            self._decide(step.call, self._answered)
        elif isinstance(step, Wait):
            self._waiting = step
            call = step.call
            self._decide(lambda manager: call(manager, self._woken), self._maybe_waits)
            if self._cancelled:
                self.cancel()
        elif isinstance(step, Ahead):
            self._run_ahead(step.call)
        elif isinstance(step, Present):
            self._answered(Answer(not self._cancelled, None, ()))
        else:
            step.start(self._came)

    def _run_ahead(self, call: Callable[[QueueManager], object]) -> None:
        outcome: list[tuple[object, QueueError | None]] = []

        def run(manager: QueueManager) -> None:
            try:
                outcome.append((call(manager), None))
            except QueueError as error:
                outcome.append((None, manager.machine.refused(error)))

        def durable(answer: Answer) -> None:
            self._ahead -= 1
            held, self._held = self._held, None
            if held is not None:
                held()

        def go_on() -> None:
            value, error = outcome[0]
            self._answered(Answer(value, error, ()))

        self._ahead += 1
        self._decide(run, durable)
        if outcome and self._ahead > AHEAD_MAX:
            self._held = go_on
        elif outcome:
            go_on()

    def _decide(self, call: Callable[[QueueManager], object], release: Release) -> None:
        """A desk that is closed, or a call that it throws back, ends the conversation."""
        try:
            self._desk.decide(call, release)
        except Exception as error:
            self._waiting = None
            self._throw(error)

    def _answered(self, answer: Answer) -> None:
        if answer.error is not None:
            self.refusal = answer.error
            self._throw(answer.error)
        else:
            self._advance(lambda: self._steps.send(answer))

    def _maybe_waits(self, answer: Answer) -> None:
        if answer.value is not None or answer.error is not None:
            self._woken(answer)

    def _woken(self, answer: Answer) -> None:
        self._waiting = None
        self._answered(answer)

    def _came(self, value: object, error: Exception | None) -> None:
        if error is not None:
            self._throw(error)
        else:
            self._advance(lambda: self._steps.send(Answer(value, None, ())))

    def _throw(self, error: Exception) -> None:
        self._advance(lambda: self._steps.throw(error))


def _finished(value: object, error: Exception | None) -> None:
    """Does nothing: the client already has its answer."""


def _cancelling(waiting: Wait) -> Callable[[QueueManager], object]:
    def cancel(manager: QueueManager) -> None:
        waiting.cancel(manager)

    return cancel


def both(first: Outside, second: Outside) -> Outside:
    """Two steps beside each other; the value is the first one's."""

    def start(resume: Resume) -> None:
        values: list[object] = [None]
        errors: list[Exception] = []
        left = [first, second]

        def ended(step: Outside, value: object, error: Exception | None) -> None:
            left.remove(step)
            if step is first:
                values[0] = value
            if error is not None:
                errors.append(error)
            if not left:
                resume(values[0], errors[0] if errors else None)

        first.start(lambda value, error: ended(first, value, error))
        second.start(lambda value, error: ended(second, value, error))

    return Outside(start)


def followed(step: Outside, call: Callable[[], None]) -> Outside:
    """A step after which something is done, however it ended."""

    def start(resume: Resume) -> None:
        def ended(value: object, error: Exception | None) -> None:
            call()
            resume(value, error)

        step.start(ended)

    return Outside(start)


def at_once(call: Callable[[QueueManager], T]) -> Steps[T]:
    """The steps of a handler that is one call on the engine.

    What it returns is not a list of reads, so its answer is the value alone.
    """
    held: list[T] = []
    yield Decide(lambda manager: held.append(call(manager)))
    (value,) = held
    return value


def looked_at(call: Callable[[QueueManager], T]) -> Steps[T]:
    """The steps of a handler that only reads: an error in it is not a fault of the engine.

    An error other than a refusal inside a turn means a step half done, and ends the process; a
    look that fails fails alone.
    """
    held: list[T | Exception] = []

    def look(manager: QueueManager) -> None:
        try:
            held.append(call(manager))
        except QueueError:
            raise
        except Exception as error:
            held.append(error)

    yield Decide(look)
    (value,) = held
    if isinstance(value, Exception):
        raise value
    return value
