"""Trials with an attacker on the network, and with machines that change addresses.

The trials of `posthouse.sim.trial` and `posthouse.sim.routed`, with the same account: whatever the
stranger sends, nothing of others is lost, doubled, reordered or stopped. What it sends itself is in
no letter of the trial, so the account leaves it out, but for what readers are shown of it. In a
third of all trials a machine that sends gets other addresses in mid-stream; in some, two machines
send through one NAT.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from posthouse.engine.queues.queue import Queue
from posthouse.model.guids import format_guid
from posthouse.model.message import ACK_NONE
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.sim.balance_check import Account
from posthouse.sim.forgery import Aim
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import STRANGE, Kind, Letter
from posthouse.sim.routed import ROUTERS, RoutedTrial
from posthouse.sim.stranger import ADDRESSES, Stranger
from posthouse.sim.trial import NAMES, Acts, Protocol, Summary, Trial

NAT = "10.77.0.1"
LAST_ACTS = 8  # of the stranger, when everything else has come to rest


class StrangerTrial(Trial):
    """A trial in which somebody else speaks too."""

    def __init__(self, seed: int, protocol: Protocol = "binary") -> None:
        own = Random(f"{seed} stranger")
        self.moves = 0
        self._moving = seed % 3 == 0
        self._behind_nat = seed % 6 == 1
        super().__init__(seed, protocol)
        self._withdrawn: list[SimManager] = []  # nothing is sent to them
        self._left: list[str] = []  # addresses that no machine has any longer
        if self._moving:
            self._withdrawn = [own.choice(self._movable())]
        elif self._behind_nat:
            self._withdrawn = [machine for machine in self.machines if machine.seen_as]
        chance = Random(own.getrandbits(64))
        self.stranger = Stranger(
            self.world, self.machines, self.told, chance, self._aim, self._doors
        )
        self.world.overheard = self.stranger.overheard
        self._strange = (*ADDRESSES, format_guid(self.stranger.guid))  # in names of queues

    @property
    def way(self) -> str:
        """The name of these trials in `posthouse selftest`."""
        return f"{super().way} --stranger"

    def _names(self) -> tuple[str, ...]:
        if not self._behind_nat:
            return super()._names()
        self.world.nat, self.world.forwarded = NAT, {NAMES[0]: 8001, NAMES[-1]: 8003}
        return NAMES

    def _movable(self) -> list[SimManager]:
        """Whose address may change."""
        return self.machines

    def _settings(self) -> BinarySettings:
        """There is a place for each session: how many a stranger may have is another question."""
        return replace(super()._settings(), sessions_max=10_000)

    # -- what applications do

    def _sender(self) -> SimManager:
        return self.chance.choice([one for one in self.machines if self._targets(one)])

    def _targets(self, sender: SimManager) -> list[SimManager]:
        return [one for one in super()._targets(sender) if one not in self._withdrawn]

    def _is_answered(self, kind: Kind) -> bool:
        """Some queues have names of the binary protocol, also where most are posted to."""
        return kind != "transactional" or self.world.insecure_nacks

    def _ask_for_more(self, letter: Letter, sender: SimManager) -> None:
        """Answers are sent to an address, and those of some machines do not last."""
        super()._ask_for_more(letter, sender)
        if sender in self._withdrawn:
            letter.acks, letter.administration = ACK_NONE, ""

    # -- what the stranger does

    def _aim(self, queues: tuple[str, ...]) -> Aim:
        source, queue = self._sender(), self.chance.choice(queues)
        target = self.chance.choice(self._targets(source))
        return Aim(source, target, queue, self._name_of(target, queue))

    def _doors(self, aim: Aim) -> list[SimManager]:
        """Who may take a forged message."""
        return [aim.target]

    def _acts(self) -> Acts:
        acts: Acts = (*super()._acts(), (StrangerTrial._provoke, 12))
        return (*acts, (StrangerTrial._move, 1.5)) if self._moving else acts

    def _provoke(self) -> None:
        for _ in range(self.chance.choice((1, 1, 3))):
            self.stranger.act()

    def _move(self) -> None:
        """A machine gets another address: while it runs, or it is started there again."""
        (machine,) = self._withdrawn
        self.moves += 1
        self._left.append(machine.address)
        if self.chance.random() < 0.5:
            machine.crash()
        machine.move(f"10.0.{self.moves}.{100}", silently=self.chance.random() < 0.5)

    # -- the end

    def _summary(self) -> Summary:
        read = {name for names in self.told.places.values() for name in names}
        return (
            super()
            ._summary()
            ._replace(
                forged=self.stranger.forger.made,
                anonymous=sum(name.startswith(STRANGE) for name in read),
                moves=self.moves,
            )
        )

    def _account(self) -> Account:
        """What a machine believes of a stranger is a fault, whatever comes of it."""
        account = super()._account()
        account.is_left_out = self._is_strange
        account.faults += [f"{name} took a session as itself" for name in self.stranger.posing]
        account.faults += [f"{name} is shown as vouched for" for name in self.told.vouched]
        return account

    def _settle(self) -> None:
        """The stranger goes on for a while; what it has done must not matter when it has gone."""
        for _ in range(LAST_ACTS):
            self.stranger.act()
            self._read_everything()
            self.clock.advance(self.pace_ms)
        self.stranger.leave()
        super()._settle()

    def _is_connected(self, machine: SimManager) -> bool:
        return machine.connected(beside=(*ADDRESSES, *self._left))

    def _must_be_empty(self, machine: SimManager, number: int) -> bool:
        queue = machine.manager.queues.numbered(number)
        return super()._must_be_empty(machine, number) and not self._is_strange(queue)

    def _is_strange(self, queue: Queue) -> bool:
        """Whether it is for the stranger, who has gone, or for an address that a machine has left.

        What is kept for an address is an acknowledgment; a machine that waits for one has waiting
        messages.
        """
        definition = queue.definition
        strange = any(each in definition.format_name for each in self._strange)
        left = any(f"//{host}:" in definition.format_name for host in self._left)
        return queue.outgoing is not None and (strange or left or bool(definition.answers_at))


class StrangerRoutedTrial(StrangerTrial, RoutedTrial):
    """A trial with a stranger among seven machines in three sites."""

    def _names(self) -> tuple[str, ...]:
        self._behind_nat = False
        return RoutedTrial._names(self)

    def _movable(self) -> list[SimManager]:
        return [machine for machine in self.machines if machine.name not in ROUTERS]

    def _doors(self, aim: Aim) -> list[SimManager]:
        """Routing servers pass on what others send."""
        return [aim.target, *(one for one in self.machines if one.name in ROUTERS)]

    def _move(self) -> None:
        super()._move()
        self._spread()
