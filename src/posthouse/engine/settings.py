"""The settings that the engine reads, with the documents' defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import AddressValueError, IPv6Address
from typing import Annotated, Literal

import msgspec

from posthouse.directory.settings import DirectorySettings
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.transfer.settings import ArrivalSettings, StreamSettings
from posthouse.model.errors import QueueError
from posthouse.model.paths import check_computer
from posthouse.model.properties import UNLIMITED
from posthouse.model.queue_name_parts import NameFault
from posthouse.model.settings_kinds import (
    COUNT_MAX,
    DAY_S,
    GIB,
    KIB,
    MIB,
    YEAR_S,
    Fault,
    FileName,
    Name,
    Names,
    Section,
    is_address,
    meaning,
    size,
    text,
    within,
)
from posthouse.model.text import excerpt, nearest
from posthouse.security.access import Access, default_access
from posthouse.security.sids import PRINCIPALS

QUOTA_MAX_KIB = 0xFFFF_FFFE
TIME_TO_REACH_QUEUE_MAX = 0x54600  # four days: [MS-MQDMPR] 3.1.1.12, note 12


class QueueManagerSettings(Section, frozen=True):
    """The identity of this queue manager."""

    name: Annotated[
        Name,
        meaning(
            "Computer name of this queue manager. The home keeps the name of its first start;"
            " if empty, that name is used, and a new home takes the host name. `posthouse "
            "rename` changes it."
        ),
    ] = ""
    dns_domain: Annotated[Name, meaning("DNS domain of the computer, if it has one.")] = ""
    aliases: Annotated[Names, meaning("Other computer names of this queue manager.")] = ()
    addresses: Annotated[
        Names,
        meaning(
            "Addresses of this queue manager in direct names, in addition to those of this machine."
        ),
    ] = ("127.0.0.1", "::1")
    accept_any_name: Annotated[
        bool,
        meaning(
            "Takes messages and readers of other computers that use any computer name or address "
            "in a direct name, also one that is not a name of this queue manager: for containers "
            "and NAT, where the names that others use are not known here."
        ),
    ] = False
    host_changed: Annotated[
        Literal["warn", "refuse"],
        meaning(
            "What happens when the home was moved or copied since the last start: to another "
            "computer, or to another place. `warn`: a warning in the log and in `posthouse "
            "status`; `refuse`: the queue manager does not start."
        ),
    ] = "warn"
    listen: Annotated[
        Name, meaning("Address of the listeners. The option `--listen` overrides it.")
    ] = "127.0.0.1"
    ports: Annotated[
        Literal["standard", "user", "ephemeral"],
        meaning(
            "`standard`: the ports of the documents; `user`: privileged ports moved up by "
            "10,000; `ephemeral`: ports chosen by the system. The option `--ports` overrides "
            "it."
        ),
    ] = "user"
    default_access: Annotated[
        dict[str, str],
        meaning(
            "Rights of others than the owner on a new queue: `everyone`, `users`, `anonymous`"
            " or `administrators`, each with a list of rights."
        ),
    ] = msgspec.field(default_factory=lambda: {"everyone": "send"})
    # Choice: no machine quota; the disk reserve of the store bounds it (docs/store.md).
    machine_quota: Annotated[
        int,
        size(
            0,
            QUOTA_MAX_KIB * KIB,
            "Largest size of all messages together. 0: limited only by the disk reserve.",
        ),
    ] = 0
    journal_quota: Annotated[
        int, size(0, QUOTA_MAX_KIB * KIB, "Largest size of all journals together. 0: no limit.")
    ] = 0
    time_to_reach_queue_s: Annotated[
        int, within(1, YEAR_S, "Longest time that a message may take to reach its queue.")
    ] = TIME_TO_REACH_QUEUE_MAX
    hardened: Annotated[bool, meaning("Accepts messages of other computers over HTTPS only.")] = (
        False
    )
    routing_server: Annotated[
        bool, meaning("Forwards messages that are addressed to other computers.")
    ] = False
    send_insecure_nacks: Annotated[
        bool, meaning("Sends negative acknowledgments for messages without a signature.")
    ] = False
    # Decision 9
    allowed_targets: Annotated[
        Names,
        meaning(
            "Hosts and networks that acknowledgments and reports may be sent to when a "
            "message of another computer asks for it, in addition to the sender and the "
            "computers of the directory."
        ),
    ] = ()
    targets_per_peer: Annotated[
        int,
        within(
            1,
            COUNT_MAX,
            "Largest number of such targets that one computer may name within an hour; of queues "
            "it may name ten times as many. A message that a routing server of the directory "
            "forwards counts for the computer that wrote it; addresses of one IPv6 network of 64 "
            "bits are one computer.",
        ),
    ] = 100
    oldest_age_s: Annotated[
        int,
        within(
            0,
            YEAR_S,
            "Age of the oldest message of a queue from which `posthouse status` names the queue, "
            "because nothing reads it, or not fast enough. Journals and dead letters do not "
            "count. 0: never.",
        ),
    ] = DAY_S
    unconfirmed_age_s: Annotated[
        int,
        within(
            0,
            YEAR_S,
            "Age from which `posthouse status` names an outgoing queue whose first transactional "
            "message was sent and not confirmed: the other machine refuses it, or does not "
            "accept the sequence. 0: never.",
        ),
    ] = 300
    # Of UTC against the monotonic clock.
    clock_step_s: Annotated[
        int, within(1, DAY_S, "Smallest jump of the system clock that is logged.")
    ] = 5

    def faults(self) -> Iterator[Fault]:
        """Names and addresses that are none, and unknown rights."""
        for key, names in (("name", [self.name]), ("aliases", self.aliases)):
            for name in filter(None, names):
                if fault := name_fault(name):
                    yield key, fault
        yield from _access_faults(self.default_access)
        if not is_address(self.listen):
            yield "listen", f"{excerpt(self.listen)} is not an address; allowed: an IP address"


def _access_faults(rights: dict[str, str]) -> Iterator[Fault]:
    for who, words in rights.items():
        if who.lower() not in PRINCIPALS:
            near = nearest(who, list(PRINCIPALS))
            yield "default_access", f"{excerpt(who)} is not a user or group; the nearest is {near}"
            continue
        try:
            default_access({who: words})
        except QueueError as error:
            yield "default_access", f"{error.cause}. {error.remedy}"


def name_fault(name: str) -> str:
    """Why a text cannot be a computer name; empty if it can."""
    try:
        check_computer(name)
    except NameFault as fault:
        return str(fault)
    return ""


class TransactionSettings(Section, frozen=True):
    """Transactions of clients."""

    idle_s: Annotated[
        int, within(1, DAY_S, "Time after which an unused transaction is aborted.")
    ] = 60
    buffer: Annotated[
        int,
        size(
            64 * KIB,
            GIB,
            "Size above which the operations of a transaction are written to the log before "
            "it ends.",
        ),
    ] = 8 * MIB
    prepare_s: Annotated[int, within(1, DAY_S, "Time that other queue managers have to vote.")] = 30
    in_doubt_s: Annotated[
        int,
        within(
            1,
            DAY_S,
            "Time after which a prepared transaction asks its coordinator for the outcome.",
        ),
    ] = 10
    peer_retry_s: Annotated[
        int, within(1, DAY_S, "First pause before a peer is asked again. It doubles each time.")
    ] = 1
    peer_retry_max_s: Annotated[int, within(1, DAY_S, "Longest such pause.")] = 300
    enlistment_s: Annotated[
        int, within(1, DAY_S, "Time for which a transaction token is valid.")
    ] = 120
    url: Annotated[
        str,
        text(
            512,
            "URL at which peers call this queue manager, as in their `peer create`. Empty: "
            "the address of the admin endpoint.",
        ),
    ] = ""
    peer_authorities: Annotated[
        FileName,
        meaning(
            "PEM file of authorities that certificates of peers are checked against, in "
            "addition to those of the system. Relative to the home."
        ),
    ] = ""

    def faults(self) -> Iterator[Fault]:
        """Limits that are the wrong way round."""
        yield from self.in_order(("peer_retry_s", "peer_retry_max_s"))


class EngineLimits(Section, frozen=True):
    """What the engine reads of `[limits]`."""

    waiting_reads_max: Annotated[
        int, within(1, COUNT_MAX, "Largest number of reads that wait for a message.")
    ] = 1_000_000
    waiting_reads_per_user: Annotated[
        int,
        within(
            1,
            COUNT_MAX,
            "Largest number of them that one user has. A message that arrives serves all who peek "
            "in one turn, and a read that waits takes about 1 KiB beside `memory`.",
        ),
    ] = 65_536
    open_handles_max: Annotated[
        int,
        within(1, COUNT_MAX, "Largest number of open queues. One user alone has half of them."),
    ] = 1_000_000
    transactions_max: Annotated[
        int,
        within(
            1,
            COUNT_MAX,
            "Largest number of open transactions, prepared ones included. One user alone has half "
            "of them; others always find some.",
        ),
    ] = 100_000
    operations_max: Annotated[
        int, within(1, COUNT_MAX, "Largest number of sends and receives in one transaction.")
    ] = 1_000_000
    outgoing_queues_max: Annotated[
        int,
        within(
            1,
            COUNT_MAX,
            "Largest number of queues to other computers. Those that were made to answer other "
            "computers have half of them, and are removed for others, the oldest of the address "
            "with most first (`answers_given_up` in the log).",
        ),
    ] = 100_000
    # ConnectionHistory
    history_max: Annotated[
        int,
        within(1, 10_000, "Number of entries kept in the connection history of an outgoing queue."),
    ] = 50
    groups_max: Annotated[
        int, within(1, COUNT_MAX, "Largest number of named groups of readers, in all queues.")
    ] = 10_000
    groups_per_user: Annotated[
        int, within(1, COUNT_MAX, "Largest number of groups that one user may create.")
    ] = 2_500
    # At least 10: readers renew theirs every five seconds.
    group_lease_s: Annotated[
        int,
        within(
            10, DAY_S, "Time after which the lease of a consuming group ends if it is not renewed."
        ),
    ] = 15
    pulled_messages_max: Annotated[
        int,
        within(
            1,
            COUNT_MAX,
            "Largest number of pulled messages that are remembered, so that none is pulled twice.",
        ),
    ] = 10_000_000
    stages_max: Annotated[
        int, within(1, COUNT_MAX, "Largest number of stages, which are batches not yet published.")
    ] = 100_000
    stages_per_user: Annotated[
        int, within(1, COUNT_MAX, "Largest number of stages that one user may have.")
    ] = 25_000
    stage_expiry_s: Annotated[
        int, within(1, YEAR_S, "Time after which a stage that is not published is dropped.")
    ] = DAY_S
    query_expiry_s: Annotated[
        int,
        within(
            DAY_S,
            100 * YEAR_S,
            "Time after which the last published batch of an idle query is dropped.",
        ),
    ] = 400 * DAY_S


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Who this queue manager is, and the sections that its engine reads, by their names."""

    computer_name: str
    queue_manager: QueueManagerSettings = field(default_factory=QueueManagerSettings)
    directory: DirectorySettings = field(default_factory=DirectorySettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    limits: EngineLimits = field(default_factory=EngineLimits)
    binary: ArrivalSettings = field(default_factory=ArrivalSettings)
    srmp: StreamSettings = field(default_factory=StreamSettings)
    qms: QmsSettings = field(default_factory=QmsSettings)
    ports: frozenset[int] = frozenset({1801, 80, 443})
    interfaces: tuple[str, ...] = ()  # addresses that this machine has at the start
    host: str = ""  # what this computer and the place of the home are known by (identity.py)
    software_version: str = ""
    operating_system_version: str = ""
    # What purges and deletions may take of one turn, and expiry again; the rest follows.
    step_messages: int = 2_000
    step_bytes: int = 16 << 20

    # Made of the sections once, because each message asks for them.
    own_names: frozenset[str] = field(init=False)
    machine_quota_kib: int = field(init=False)
    journal_quota_kib: int = field(init=False)
    default_access: Access = field(init=False)

    def __post_init__(self) -> None:
        machine = self.queue_manager
        names = {self.computer_name, self.qualified_computer_name, "localhost", "."}
        names.update(machine.aliases, machine.addresses)
        for name, value in (
            ("own_names", frozenset(map(host_key, names))),
            ("machine_quota_kib", _quota_kib(machine.machine_quota)),
            ("journal_quota_kib", _quota_kib(machine.journal_quota)),
            ("default_access", default_access(machine.default_access)),
        ):
            object.__setattr__(self, name, value)

    @property
    def qualified_computer_name(self) -> str:
        """[MS-MQDMPR] 3.1.3: computer name, a dot, the DNS domain name."""
        if not self.queue_manager.dns_domain:
            return self.computer_name
        return f"{self.computer_name}.{self.queue_manager.dns_domain}"

    def with_machine_quota(self, kib: int) -> EngineSettings:
        """With the quota that the directory has, instead of the operator's."""
        made = replace(self)
        object.__setattr__(made, "machine_quota_kib", kib)
        return made


def _quota_kib(size: int) -> int:
    return -(-size // KIB) if size else UNLIMITED


def host_key(host: str) -> str:
    """The identity of a computer name or address; an IPv6 address has many spellings."""
    if ":" in host:
        try:
            address = IPv6Address(host)
        except AddressValueError:
            return host.casefold()
        return str(address.ipv4_mapped or address)
    return host.casefold()
