"""Rules of remote readers: their ends, their moves, their rejections, and how they get lost."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer import remote_reads
from posthouse.model.guids import NULL_GUID
from tests.engine.model.actions import (
    SUBQUEUES,
    Actions,
    among,
    is_available,
    is_transactional,
    within,
)
from tests.engine.model.parts import NACK_RECEIVE_REJECTED, Descriptor, Letter, Transaction
from tests.engine.model.world import identifier_of

numbers = st.integers(0, 255)
CLASSES = [0, NACK_RECEIVE_REJECTED, NACK_RECEIVE_REJECTED, 0xC000]


class FarRules(Actions):
    """What remote readers do beside what all readers do."""

    def held_letters(self) -> list[tuple[Letter, Descriptor]]:
        """What somebody has read and not ended."""
        return [
            (letter, letter.lock.holder)
            for queue in self.model.queues.values()
            for letter in queue.letters
            if letter.lock is not None and letter.lock.holder in self.descriptors
        ]

    def _pick(self, which: int, at: int) -> tuple[Descriptor, int, int]:
        """A read under way, and now and then one that is not; place and lookup identifier."""
        held = self.held_letters()
        if held and which % 5:
            letter, descriptor = among(held, which // 5)
            return descriptor, letter.place, self.identifiers.of_place[letter.place]
        descriptor = among(self.descriptors, which)
        return descriptor, *self.place(at, descriptor.queue)

    @rule(which=numbers, tx=st.integers(0, 2))
    def start_far_receive(self, which: int, tx: int) -> None:
        transaction = self.active(which) if tx else None
        if transaction is not None and transaction.unended is None and not transaction.operations:
            transaction.unended = set()
            transaction.handle.unended = set()  # type: ignore[attr-defined]
        name = self.source(which, is_transactional if transaction else is_available)
        self.dequeue("begin a read", name, tx=transaction, two_phase=True)

    @precondition(lambda self: self.descriptors)
    @rule(which=numbers, at=numbers, positive=st.booleans())
    def end_far_read(self, which: int, at: int, positive: bool) -> None:
        descriptor, place, lookup_id = self._pick(which, at)
        self.perform(
            f"end a far read: {'ack' if positive else 'nack'}",
            f"end lookup id {lookup_id} in {descriptor.name} from afar, {positive}",
            lambda m: remote_reads.end_read(m, descriptor.handle, lookup_id, positive=positive),  # type: ignore[arg-type]
            lambda: self.model.end_read(descriptor, place, positive=positive),
        )

    @precondition(lambda self: self.descriptors)
    @rule(which=numbers, at=numbers)
    def give_up_far_read(self, which: int, at: int) -> None:
        descriptor, place, lookup_id = self._pick(which, at)
        self.perform(
            "give up a far read",
            f"give up lookup id {lookup_id} in {descriptor.name}",
            lambda m: remote_reads.return_message(m, descriptor.handle, lookup_id, in_doubt=True),  # type: ignore[arg-type]
            lambda: self.model.give_up(descriptor, place),
        )

    @precondition(lambda self: self.descriptors)
    @rule(which=numbers, sure=st.integers(0, 2))
    def lose_far_reader(self, which: int, sure: int) -> None:
        held = [descriptor for _, descriptor in self.held_letters()]
        if sure and not held:
            return
        descriptor: Descriptor = among(held or self.descriptors, which)
        self.descriptors.remove(descriptor)
        self.perform(
            "lose a far reader",
            f"the reader of {descriptor.name} ({descriptor.access}) is lost",
            lambda m: remote_reads.run_down(m, descriptor.handle),  # type: ignore[arg-type]
            lambda: self.model.lose(descriptor),
        )

    @precondition(lambda self: self.descriptors)
    @rule(which=numbers, at=numbers, message_class=st.sampled_from(CLASSES))
    def reject_from_afar(self, which: int, at: int, message_class: int) -> None:
        descriptor, place, lookup_id = self._pick(which, at)
        self.perform(
            "set the class from afar",
            f"class {message_class:#x} for {lookup_id} in {descriptor.name}",
            lambda m: remote_reads.set_acknowledgement_class(
                m,
                descriptor.handle,  # type: ignore[arg-type]
                lookup_id,
                message_class,
            ),
            lambda: self.model.set_class(descriptor, place, message_class),
        )

    @rule(which=numbers, at=numbers, to=numbers, tx=st.integers(0, 3), known=st.integers(0, 5))
    def move_from_afar(self, which: int, at: int, to: int, tx: int, known: int) -> None:
        transaction = self.active(tx) if tx > 1 else None
        if transaction is not None and not known:
            transaction = Transaction("T0", 0)
        name = self.source(which, is_transactional if transaction else is_available)
        root = name.partition(";")[0]
        family = [root, *(other for other in SUBQUEUES if other.startswith(f"{root};"))]
        others = [other for other in family if other != name]
        target_name = among(SUBQUEUES if to % 6 == 5 or not others else others, to // 6)
        source = self.opened(name, "receive")
        access = "receive" if to % 11 == 10 else "move"
        target = self.opened(target_name, access) if source is not None else None
        if target is None or not self.live(source):
            return
        self._move_from_afar(source, at, target, transaction)

    def _move_from_afar(
        self, source: Any, at: int, target: Any, transaction: Transaction | None
    ) -> None:
        place, lookup_id = self.place(at, source.queue)
        identifier = NULL_GUID if transaction is None else identifier_of(transaction.name)

        def call(manager: QueueManager) -> None:
            context = target.handle.context
            remote_reads.move_message(manager, source.handle, context, lookup_id, identifier)

        self.perform(
            "move from afar, transactional" if transaction else "move from afar",
            f"move {lookup_id} from {source.name} to {target.name} from afar{within(transaction)}",
            call,
            lambda: self.model.far_move(source, place, target, transaction),
        )
