"""Engine and model in step: calls, turns, syncs, crashes, and what each must come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine

from posthouse.engine.ledger.effects import READ_IN_DOUBT, Read, Reads
from posthouse.engine.ledger.records import LOST_EXPRESS
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import QueueError
from posthouse.runtime.driver import Answer
from posthouse.sim.disk import Policy
from posthouse.sim.faults import PowerLost
from posthouse.wire.packet.packet import Packet
from tests.engine.model.compare import Different, Identifiers, check
from tests.engine.model.ground import Got, Shared
from tests.engine.model.model import Kept, Model, fresh
from tests.engine.model.packets import size_of_acknowledgment
from tests.engine.model.parts import (
    Cursor,
    Descriptor,
    Letter,
    Refusal,
    Step,
    Transaction,
    Waiter,
    outcomes,
)
from tests.engine.model.tally import TALLY
from tests.engine.model.world import JOURNAL_QUOTA_KIB, World

UNLIMITED = 0xFFFFFFFF
UNKNOWN_POSITION = 1 << 62


@dataclass(eq=False)
class Box:
    """Where the answer to one call is let out to, and what it must be."""

    text: str
    expected: object = None
    answers: list[Answer] = field(default_factory=list)

    def put(self, answer: Answer) -> None:
        self.answers.append(answer)


@dataclass
class Turn:
    """A turn that is decided but not yet promised."""

    steps: list[Step]
    boxes: list[Box]
    position: int = UNKNOWN_POSITION


class Play(RuleBasedStateMachine):
    """The stage: one world, one model, and what is between them and the disk."""

    def begin(self, seed: int, machine_quota_kib: int | None) -> None:
        """A new computer."""
        quota = UNLIMITED if machine_quota_kib is None else machine_quota_kib
        self.world = World(seed, quota)
        self.base = fresh(JOURNAL_QUOTA_KIB << 10)
        machine_quota = None if machine_quota_kib is None else machine_quota_kib << 10
        self.shared = Shared(size_of_acknowledgment, machine_quota, happened=TALLY.happened)
        self.identifiers = Identifiers()
        self.pending: list[Turn] = []
        self.boxes: list[Box] = []
        self.wakes: dict[int, Box] = {}
        self.turn_open = False
        self.batch = 0  # further calls that share the turn
        self.lag = 0  # further turns that are not synced at once
        self.policy: Policy = "random"  # of the power loss that is planned
        self.names = 0
        self.cursors: list[Cursor] = []
        self.descriptors: list[Descriptor] = []
        self.stale: list[Descriptor] = []
        self.power_planned = False
        self.cut_off = False  # the power goes when this turn is written and not yet synced
        self.run = 0  # which run of the queue manager this is
        self.sound = self.checking = True
        self.tidy_each_turn = False
        self.world.boot()
        self.model = self._started(self.shared)
        self._first_turn()

    # -- calls

    def perform(
        self,
        rule: str,
        text: str,
        call: Callable[[QueueManager], Any],
        predict: Callable[[], object],
        wake: Box | None = None,
    ) -> object:
        """One call on both; what the model says of it, a Refusal included."""
        self._open_turn()
        self.sound = False  # until this call is through
        box, outcome = Box(text), Answer(None, None, ())

        def spied(manager: QueueManager) -> object:
            nonlocal outcome
            try:
                value = call(manager)
            except QueueError as error:
                outcome = Answer(None, error, ())
                raise
            outcome = Answer(value, None, ())
            return value

        self.world.driver.decide(spied, box.put)
        try:
            box.expected = predict()
        except Refusal as refusal:
            box.expected = refusal
        note(f"  {text} -> {told(box.expected)}")
        TALLY.ran(rule, box.expected)
        self.boxes.append(box)
        if wake is not None and isinstance(box.expected, Waiter):
            self.wakes[id(box.expected)] = wake
        self._same_answer(box, outcome)
        self._adopt(box.expected, outcome.value)
        self._collect_wakes()
        self._sort_handles()
        self.check()
        self.sound = True
        if not self.batch:
            self.close_turn()
        else:
            self.batch -= 1
        return box.expected

    def _adopt(self, expected: object, handle: object) -> None:
        """Handles of the engine for what the model has open."""
        if isinstance(expected, Descriptor | Cursor | Transaction):
            expected.handle = handle

    def _sort_handles(self) -> None:
        """Descriptors of deleted queues are still to be closed; closed ones are forgotten."""
        self.stale += [d for d in self.descriptors if d.queue is None and not d.closed]
        self.descriptors = [d for d in self.descriptors if d.queue is not None]
        self.cursors = [cursor for cursor in self.cursors if not cursor.closed]

    def _collect_wakes(self) -> None:
        for waiter, answer in self.model.answers:
            wake = self.wakes.pop(id(waiter))
            wake.expected = answer
            note(f"    woken: {wake.text} -> {told(answer)}")
            self.boxes.append(wake)
        self.model.answers.clear()

    def check(self) -> None:
        """Engine and model show the same."""
        if self.checking:
            check(self.world, self.model, self.identifiers)

    # -- answers

    def _same_answer(self, box: Box, answer: Answer) -> None:
        expected, error = box.expected, answer.error
        if isinstance(expected, Refusal):
            name = "nothing" if error is None else type(error).__name__
            if name not in expected.names:
                raise Different(f"{box.text}: refused with {name}, expected {expected.names}")
        elif error is not None:
            raise Different(f"{box.text}: refused with {error!r}, expected {told(expected)}")
        elif isinstance(expected, Got):
            self._same_read(box, expected.letter, answer.value)
        elif isinstance(expected, Waiter):
            _equal(box, answer.value, None)
        elif isinstance(expected, list):
            assert isinstance(answer.value, list | Reads)
            _equal(box, len(answer.value), len(expected))
            for got, read in zip(expected, answer.value, strict=True):
                self._same_read(box, got.letter, read)
        elif isinstance(expected, int):
            _equal(box, answer.value, expected)

    def _same_read(self, box: Box, letter: Letter, read: object) -> None:
        if not isinstance(read, Read):
            raise Different(f"{box.text}: {read!r}, expected {letter.name}")
        self.identifiers.note(letter.place, read.lookup_id)
        fields = ("priority", "message_class", "arrived", "aborts", "moves", "last_move")
        _equal(box, [getattr(read, f) for f in fields], [getattr(letter, f) for f in fields])
        _equal(box, bool(read.flags & READ_IN_DOUBT), letter.in_doubt)

    def _let_out(self, box: Box) -> None:
        """A promised answer: given once, and with the letter's own packet."""
        if len(box.answers) != 1:
            raise Different(f"{box.text}: {len(box.answers)} answers let out instead of one")
        answer, expected = box.answers[0], box.expected
        self._same_answer(box, answer)
        letters = [expected] if isinstance(expected, Got) else expected
        if isinstance(letters, list):
            texts = [_text(packet) for packet in answer.packets]
            _equal(box, texts, [(got.letter.name, got.letter.body) for got in letters])

    # -- turns

    def _open_turn(self) -> None:
        if self.turn_open:
            return
        self.world.driver.begin_turn()
        self.model.begin_turn(self.world.clock.now_ms, self.world.clock.utc_seconds)
        self.turn_open = True
        self._collect_wakes()

    def close_turn(self) -> None:
        """Appends; syncs too unless that is held back."""
        if not self.turn_open:
            return
        turn = Turn(self.model.take_steps(), self.boxes)
        self.boxes, self.batch, self.turn_open = [], 0, False
        self.pending.append(turn)
        try:
            turn.position = self.world.driver.end_turn()
            if self.cut_off:
                raise PowerLost("between the write and its sync")
            if self.lag:
                self.lag -= 1
            else:
                self.world.driver.sync()
        except PowerLost:
            what = "power lost between write and sync" if self.cut_off else "power lost in a write"
            self._come_back(what)
        else:
            self.settle()
            if self.tidy_each_turn:
                self.guarded("power lost during upkeep", self.world.driver.tidy)

    def settle(self) -> None:
        """What is synced is let out and promised; nothing else is let out."""
        self.world.driver.release()
        synced = self.world.store.synced
        while self.pending and self.pending[0].position <= synced:
            turn = self.pending.pop(0)
            for box in turn.boxes:
                self._let_out(box)
            for step in turn.steps:
                self.base.apply(step)
        for turn in self.pending:
            TALLY.happened["answers held back until their sync"] += len(turn.boxes)
            for box in turn.boxes:
                if box.answers:
                    raise Different(f"{box.text}: answered before it was synced")
        if not self.pending:
            self.identifiers.promise()

    def sync(self) -> None:
        """Everything decided becomes durable."""
        self.lag = 0
        self.close_turn()
        if self.guarded("power lost while syncing", self.world.driver.sync):
            self.settle()

    def guarded(self, what: str, action: Callable[[], object]) -> bool:
        """Runs what may meet the planned loss of power; False: it did, and the world is back."""
        try:
            action()
        except PowerLost:
            self._come_back(what)
            return False
        return True

    def _first_turn(self) -> None:
        """The turn that a start itself is, then one that brings the clocks."""
        self.check()
        self.turn_open = True
        self.close_turn()
        self.idle_turn()

    def idle_turn(self) -> None:
        """A turn in which only the clocks act."""
        self.close_turn()
        self._open_turn()
        self.check()
        self.close_turn()

    def upkeep(self, checkpoint: bool) -> None:
        """The store tidies up until it has nothing left to do, or needs a sync for more."""
        segments = self.world.segments()
        if checkpoint:
            assert self.world.store._upkeep is not None
            self.world.store._upkeep.checkpoint_wanted = True
        for _ in range(200):
            more = False

            def step() -> None:
                nonlocal more
                more = self.world.driver.tidy()
                if not self.pending:
                    self.world.driver.sync()

            if not self.guarded("power lost during upkeep", step):
                return
            self.settle()
            if not more or self.pending:
                break
        else:
            raise Different("upkeep never ends")
        TALLY.happened["segments compacted away"] += len(segments - self.world.segments())
        self.world.forget_texts()
        self.check()

    def plan_power_loss(self, policy: Policy, calls: int) -> None:
        """The power will go during one of the next calls on the disk."""
        self.power_planned, self.policy = True, policy
        self.world.disk.lose_power_at(calls)

    # -- the end of a run

    def crash(self, policy: Policy, *, again_at: int = 0) -> None:
        """The power goes now; a turn under way was never written."""
        self.policy = policy
        self._come_back("crash", again_at=again_at)

    def restart(self) -> None:
        """A clean stop and a start; the power may go in between."""
        self.lag = 0
        self.close_turn()
        self.model.stop()
        self._collect_wakes()
        self.pending.append(Turn(self.model.take_steps(), self.boxes))
        self.boxes = []
        kept = self.model.kept()
        try:
            self.world.driver.close()
        except PowerLost:
            self._come_back("power lost while stopping", stopped=kept)
            return
        self.pending[-1].position = self.world.store.appended
        self.settle()
        self._forget_handles()
        recovered = self.world.boot()
        if not recovered.clean or recovered.lost_express:
            raise Different("a clean stop was not recognised")
        self.model = self._started(self.shared, kept=kept)
        TALLY.happened["express letters kept over a clean stop"] += len(kept.letters)
        self._first_turn()

    def _come_back(self, what: str, *, again_at: int = 0, stopped: Kept | None = None) -> None:
        """After a loss of power: what was promised is there, the rest wholly or not at all."""
        note(f"  -- {what}, {self.policy} survives of what was not synced")
        TALLY.happened[what] += 1
        self.power_planned = self.cut_off = False
        self.boxes, self.batch, self.lag, self.turn_open = [], 0, 0, False
        before = {n: q.express_books["accepted"] for n, q in self.model.queues.items()}
        self._forget_handles()
        self.identifiers.crash()
        recovered = self._boot_again(again_at)
        if recovered.clean and stopped is None:
            raise Different("a crash was taken for a clean stop")
        lost = {} if recovered.clean else self._lost_express(before)
        turns = [turn.steps for turn in self.pending]
        self.pending.clear()
        self._choose(turns, stopped if recovered.clean else None, lost)
        self._first_turn()

    def _boot_again(self, again_at: int) -> Any:
        self.world.crash(self.policy)
        try:
            return self.world.boot(again_at)
        except PowerLost:
            TALLY.happened["power lost while starting"] += 1
            self.world.crash(self.policy)
            return self.world.boot()

    def _lost_express(self, before: dict[str, int]) -> dict[str, int]:
        """An estimate, counted in a line of the books that begins again."""
        lost = {}
        for name, queue in self.world.queues().items():
            line = queue.state.express_books
            count = line[LOST_EXPRESS]
            if count > before.get(name, count):
                raise Different(f"{count} express letters of {name} lost, more than it ever had")
            if count:
                lost[name] = count
        TALLY.happened["express letters lost in a crash and counted"] += sum(lost.values())
        return lost

    def _choose(self, turns: list[list[Step]], kept: Kept | None, lost: dict[str, int]) -> None:
        """The outcome that the recovered state shows; there has to be one."""
        differences = []
        for label, durable in outcomes(self.base, turns):
            shared = replace(self.shared, happened=Counter())
            model = self._started(shared, durable, kept=kept, lost=lost)
            try:
                check(self.world, model, self.identifiers.twin())
            except Different as difference:
                differences.append(f"{label}: {difference}")
                continue
            self.base = durable
            self.shared = replace(shared, happened=TALLY.happened)
            TALLY.happened.update(shared.happened)
            TALLY.happened[f"crash left of the unsynced turns: {label}"] += 1
            model.shared = self.shared
            self.model = model
            return
        raise Different("no outcome fits what the crash left\n" + "\n".join(differences))

    def _started(
        self,
        shared: Shared,
        durable: Any = None,
        *,
        kept: Kept | None = None,
        lost: dict[str, int] | None = None,
    ) -> Model:
        clock = self.world.clock
        durable = self.base if durable is None else durable
        return Model.started(durable, shared, clock.now_ms, clock.utc_seconds, kept, lost)

    def _forget_handles(self) -> None:
        self.run += 1
        self.descriptors.clear()
        self.stale.clear()
        self.cursors.clear()
        self.wakes.clear()


def told(expected: object) -> str:
    """An answer in a few words."""
    if isinstance(expected, Refusal):
        return " or ".join(expected.names)
    if isinstance(expected, Got):
        return f"{expected.letter.name} (class {expected.letter.message_class:#06x})"
    if isinstance(expected, Waiter):
        return "waits"
    if isinstance(expected, list):
        return f"[{', '.join(map(told, expected))}]"
    return "done" if not isinstance(expected, int) else str(expected)


def _equal(box: Box, seen: object, expected: object) -> None:
    if seen != expected:
        raise Different(f"{box.text}: {seen!r}, expected {expected!r}")


def _text(packet: bytes) -> tuple[str, bytes]:
    read = Packet(packet)
    return read.label, bytes(read.body)
