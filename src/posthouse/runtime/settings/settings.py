"""Every setting of `posthouse.toml`, declared once: type, limits, default, meaning.

docs/configuration.md is made from these declarations. What a later part adds is a field, or a
section, here. Settings that do not exist are errors, because a setting that is ignored looks like
one that works.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from posthouse.engine.settings import EngineSettings
from posthouse.model.settings_kinds import (
    COUNT_MAX,
    DAY_S,
    SIZE,
    SIZE_MAX,
    YEAR_S,
    Name,
    Names,
    Port,
    Section,
)
from posthouse.net.connections import CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX
from posthouse.protocols.handlers.scan_limits import SCANS_PER_USER
from posthouse.protocols.memory import MEMORY_LIMIT, UNSYNCED_MAX
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.protocols.pacing import SHARE
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.runtime.ports import PortSet, own_ports
from posthouse.runtime.settings_directory import DirectorySection, directory_source
from posthouse.runtime.settings_log import LogSection as LogSection
from posthouse.runtime.settings_protocols import BinarySection, PingSection, SecuritySection
from posthouse.runtime.settings_qms import QmsSection
from posthouse.runtime.settings_rpc import EpmSection, RpcSection
from posthouse.runtime.settings_srmp import HttpSection, HttpsSection, SrmpSection
from posthouse.security.access import Access
from posthouse.security.rights import parse_rights
from posthouse.security.sids import PRINCIPALS
from posthouse.store.settings import GIB, KIB, MIB, StoreSettings

QUOTA_MAX_KIB = 0xFFFF_FFFE

_engine = EngineSettings("default")
_store = StoreSettings()


class QueueManagerSection(Section, frozen=True):
    """Who this queue manager is."""

    name: Annotated[
        Name,
        Meta(
            description="The computer name it answers to, kept in the home from the first start on;"
            " empty: the kept one, in a new home the host name. `posthouse rename` changes it."
        ),
    ] = ""
    dns_domain: Annotated[
        Name, Meta(description="The domain behind the computer name, where there is one.")
    ] = ""
    aliases: Annotated[
        Names, Meta(description="Other computer names that mean this queue manager.")
    ] = ()
    addresses: Annotated[
        Names,
        Meta(
            description="Addresses that mean this queue manager in a direct name, beside those of "
            "this machine."
        ),
    ] = field(default_factory=lambda: _engine.addresses)
    listen: Annotated[
        Name, Meta(description="Address of the listeners; `--listen` goes before it.")
    ] = "127.0.0.1"
    ports: Annotated[
        Literal["standard", "user", "ephemeral"],
        Meta(
            description="Ports as the documents have them, the privileged ones moved up by 10,000, "
            "or chosen by the system; `--ports` goes before it."
        ),
    ] = "user"
    default_access: Annotated[
        dict[str, str],
        Meta(
            description="What others than its owner may do with a new queue: `everyone`, `users`, "
            "`anonymous` or `administrators` with a list of rights."
        ),
    ] = field(default_factory=lambda: {"everyone": "send"})
    machine_quota: Annotated[
        int,
        Meta(
            ge=0,
            le=QUOTA_MAX_KIB * KIB,
            extra={"unit": SIZE},
            description="What all messages together may take; 0: no limit but the disk reserve.",
        ),
    ] = 0
    journal_quota: Annotated[
        int,
        Meta(
            ge=0,
            le=QUOTA_MAX_KIB * KIB,
            extra={"unit": SIZE},
            description="What all journals together may take; 0: no limit.",
        ),
    ] = 0
    time_to_reach_queue_s: Annotated[
        int,
        Meta(ge=1, le=YEAR_S, description="The longest time a message may take to its queue."),
    ] = _engine.default_time_to_reach_queue_s
    hardened: Annotated[
        bool, Meta(description="Takes messages of other computers over HTTPS only.")
    ] = _engine.hardened
    routing_server: Annotated[
        bool, Meta(description="Passes on messages that are meant for other computers.")
    ] = _engine.routing_server
    send_insecure_nacks: Annotated[
        bool, Meta(description="Sends negative acknowledgments of messages nobody signed.")
    ] = _engine.send_insecure_nacks
    allowed_targets: Annotated[
        Names,
        Meta(
            description="Hosts and networks that names in messages of other computers may lead to, "
            "for acknowledgments and reports, beside the sender itself and computers of the "
            "directory."
        ),
    ] = ()
    targets_per_peer: Annotated[
        int,
        Meta(
            ge=1,
            le=COUNT_MAX,
            description=(
                "How many such names one computer may bring within an hour. What a routing server"
                " of the directory passes on counts for the computer that wrote it."
            ),
        ),
    ] = _engine.targets_per_peer
    clock_step_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="A jump of the system's clock worth a log line.")
    ] = _engine.clock_step_s


class TransactionsSection(Section, frozen=True):
    """Transactions of clients."""

    idle_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="A transaction left alone for so long is aborted.")
    ] = _engine.transaction_idle_s
    buffer: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="A transaction larger than this is written to the log as it comes.",
        ),
    ] = _engine.transaction_buffer
    prepare_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="Time other queue managers have to vote.")
    ] = _engine.prepare_s
    in_doubt_s: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_S,
            description="A prepared transaction asks its coordinator after this time.",
        ),
    ] = _engine.in_doubt_s
    peer_retry_s: Annotated[
        int,
        Meta(ge=1, le=DAY_S, description="First pause before a peer is asked again; it doubles."),
    ] = _engine.peer_retry_s
    peer_retry_max_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="The longest such pause.")
    ] = _engine.peer_retry_max_s
    enlistment_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="How long a transaction token is good for.")
    ] = _engine.enlistment_s
    url: Annotated[
        str,
        Meta(
            max_length=512,
            description="Where peers call this queue manager, as their `peer create` says it; "
            "empty: the address of the admin endpoint.",
        ),
    ] = ""
    peer_authorities: Annotated[
        str,
        Meta(
            max_length=4096,
            description="PEM file of certificates that those of peers are checked against, beside "
            "the system's; relative to the home.",
        ),
    ] = ""


class StoreSection(Section, frozen=True):
    """The log on disk."""

    damage: Annotated[
        Literal["set-aside", "refuse"],
        Meta(description="What a start does with a damaged record of a message; see deploy.md."),
    ] = "set-aside"
    segment_size: Annotated[
        int,
        Meta(
            ge=MIB,
            le=GIB,
            extra={"unit": SIZE},
            description="A segment of this length is sealed. A disk holds at least 64 segments: "
            "on one smaller than 4 GiB they are shorter.",
        ),
    ] = _store.segment_size
    express_memory: Annotated[
        int,
        Meta(
            ge=0,
            le=SIZE_MAX,
            extra={"unit": SIZE},
            description="Express messages above this go to files, which are never synced.",
        ),
    ] = _store.express_memory
    disk_reserve: Annotated[
        int,
        Meta(
            ge=0,
            le=SIZE_MAX,
            extra={"unit": SIZE},
            description="New messages are refused while the disk has less free; the smaller of "
            "this and `disk_reserve_percent` counts, and at least what compaction needs: the "
            "length of a segment and 5 MiB. 0: 5 MiB, so that the log itself can go on.",
        ),
    ] = _store.disk_reserve
    disk_reserve_percent: Annotated[
        int, Meta(ge=0, le=50, description="The same in percent of the whole disk.")
    ] = _store.disk_reserve_percent
    dead_ratio: Annotated[
        float,
        Meta(ge=0.25, le=1.0, description="A segment of which this part is dead may be compacted."),
    ] = _store.dead_ratio
    garbage_segments: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Dead bytes that are left alone, in segments; an eighth of the log if that "
            "is more.",
        ),
    ] = _store.garbage_segments
    spare_segments: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="So many files of dead segments are kept, to be written over.",
        ),
    ] = _store.spare_segments
    small_segments: Annotated[
        int, Meta(ge=2, le=1000, description="So many small segments are merged.")
    ] = _store.small_segments
    step_bytes: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            le=64 * MIB,
            extra={"unit": SIZE},
            description="About how much one step of compaction copies.",
        ),
    ] = _store.step_bytes
    checkpoint_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="A checkpoint is written when the log behind the last one is so many times "
            "its size.",
        ),
    ] = _store.checkpoint_ratio
    checkpoint_inline: Annotated[
        int,
        Meta(
            ge=0,
            le=GIB,
            extra={"unit": SIZE},
            description="A larger checkpoint is written by a thread of its own.",
        ),
    ] = _store.checkpoint_inline
    open_files: Annotated[
        int, Meta(ge=16, le=100_000, description="Segments kept open for reading.")
    ] = _store.open_files


class LimitsSection(Section, frozen=True):
    """What clients together, or one of them, may take."""

    memory: Annotated[
        int,
        Meta(
            ge=16 * MIB,
            le=SIZE_MAX,
            extra={"unit": SIZE},
            description="All buffers of all connections, with what peers have announced and not "
            "brought yet; one address has at most a quarter. Neither the index of messages nor "
            "`express_memory` counts.",
        ),
    ] = MEMORY_LIMIT
    unsynced: Annotated[
        int,
        Meta(
            ge=MIB,
            le=16 * GIB,
            extra={"unit": SIZE},
            description="What may wait for a sync; above it senders wait for the disk.",
        ),
    ] = UNSYNCED_MAX
    connections_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Connections of one listener.")
    ] = CONNECTIONS_MAX
    connections_per_address_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Connections of one listener from one address.")
    ] = CONNECTIONS_PER_ADDRESS_MAX
    waiting_reads_max: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Reads that wait for a message.")
    ] = _engine.waiting_reads_max
    open_handles_max: Annotated[int, Meta(ge=1, le=COUNT_MAX, description="Open queues.")] = (
        _engine.open_handles_max
    )
    transactions_max: Annotated[int, Meta(ge=1, le=COUNT_MAX, description="Open transactions.")] = (
        _engine.transactions_max
    )
    operations_max: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Sends and receives of one transaction.")
    ] = _engine.operations_max
    outgoing_queues_max: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Queues that lead to other computers.")
    ] = _engine.outgoing_queues_max
    history_max: Annotated[
        int,
        Meta(ge=1, le=10_000, description="Entries in the connection history of outgoing queues."),
    ] = _engine.history_max
    groups_max: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Named groups of readers, of all queues.")
    ] = _engine.groups_max
    groups_per_user: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Of these, that one user makes.")
    ] = _engine.groups_per_user
    group_lease_s: Annotated[
        int,
        Meta(
            ge=10,  # readers renew theirs every five seconds
            le=DAY_S,
            description="The lease of a consuming group lapses when it is not renewed for so long.",
        ),
    ] = _engine.group_lease_s
    stages_max: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Stages of batches that are not published.")
    ] = _engine.stages_max
    stages_per_user: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Of these, that one user writes.")
    ] = _engine.stages_per_user
    stage_expiry_s: Annotated[
        int,
        Meta(ge=1, le=YEAR_S, description="A stage is dropped that is not published for so long."),
    ] = _engine.stage_expiry_s
    bulk_read_share_percent: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="The part of the time that bulk reads, such as Spark's, and searches have "
            "while others keep the queue manager busy, at least; 100: they wait for nobody.",
        ),
    ] = round(100 * SHARE)
    scans_per_user: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Searches through queues, by a filter or an identifier, that one user has "
            "at a time; more are refused.",
        ),
    ] = SCANS_PER_USER
    query_expiry_s: Annotated[
        int,
        Meta(
            ge=DAY_S,
            le=100 * YEAR_S,
            description="The last batch of a query is forgotten that publishes none for so long.",
        ),
    ] = _engine.query_expiry_s
    stop_s: Annotated[
        int, Meta(ge=1, le=600, description="How long a stop waits for calls that have begun.")
    ] = 5


class AdminSection(Section, frozen=True):
    """The JSON API, client sessions, metrics: the endpoint `admin`."""

    enabled: Annotated[
        bool, Meta(description="Without it there is the control socket in the home only.")
    ] = True
    listen: Annotated[
        Name,
        Meta(
            description="Address of the listener; off the loopback it needs a certificate or "
            "`insecure`."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Port | None, Meta(description="Its port; left out: the one of the port set, 8816.")
    ] = None
    hosts: Annotated[
        Names,
        Meta(
            description="Names this endpoint is called by, beside its address and the computer "
            "name; requests for any other Host are refused."
        ),
    ] = ()
    certificate: Annotated[
        str,
        Meta(max_length=4096, description="PEM file of its certificates, relative to the home."),
    ] = ""
    private_key: Annotated[
        str, Meta(max_length=4096, description="PEM file of the key, relative to the home.")
    ] = ""
    insecure: Annotated[
        bool, Meta(description="Allows it off the loopback without a certificate.")
    ] = False
    body_size_max: Annotated[
        int,
        Meta(
            ge=MIB,
            le=GIB,
            extra={"unit": SIZE},
            description="Body of a request, or frame of a client session.",
        ),
    ] = 64 * MIB
    header_timeout_s: Annotated[
        int, Meta(ge=1, le=600, description="Time for the header of a request to arrive.")
    ] = 10
    body_timeout_s: Annotated[
        int, Meta(ge=1, le=3600, description="Time for the body of a request to arrive.")
    ] = 60
    idle_timeout_s: Annotated[
        int,
        Meta(ge=1, le=DAY_S, description="A connection without requests is closed after it."),
    ] = 75


class Settings(Struct, frozen=True):
    """All of `posthouse.toml`."""

    queue_manager: QueueManagerSection = QueueManagerSection()
    directory: DirectorySection = DirectorySection()
    transactions: TransactionsSection = TransactionsSection()
    store: StoreSection = StoreSection()
    limits: LimitsSection = LimitsSection()
    admin: AdminSection = AdminSection()
    binary: BinarySection = BinarySection()
    ping: PingSection = PingSection()
    rpc: RpcSection = RpcSection()
    epm: EpmSection = EpmSection()
    http: HttpSection = HttpSection()
    https: HttpsSection = HttpsSection()
    srmp: SrmpSection = SrmpSection()
    pgm: PgmSettings = PgmSettings()
    ncp: NcpSettings = NcpSettings()
    qms: QmsSection = QmsSection()
    security: SecuritySection = SecuritySection()
    log: LogSection = LogSection()


def default_access(rights: dict[str, str]) -> Access:
    """The setting as the engine has it; KeyError or QueueError for words that mean nothing."""
    return tuple((PRINCIPALS[who.lower()], parse_rights(words)) for who, words in rights.items())


def _quota_kib(size: int) -> int:
    return -(-size // KIB) if size else _engine.machine_quota_kib


def engine_settings(settings: Settings, name: str, ports: PortSet) -> EngineSettings:
    """What the engine gets of it."""
    machine, directory, limits = settings.queue_manager, settings.directory, settings.limits
    return EngineSettings(
        computer_name=name,
        dns_domain=machine.dns_domain,
        aliases=tuple(machine.aliases),
        addresses=tuple(machine.addresses),
        ports=own_ports(ports),
        machine_quota_kib=_quota_kib(machine.machine_quota),
        journal_quota_kib=_quota_kib(machine.journal_quota),
        default_time_to_reach_queue_s=machine.time_to_reach_queue_s,
        transaction_idle_s=settings.transactions.idle_s,
        transaction_buffer=settings.transactions.buffer,
        prepare_s=settings.transactions.prepare_s,
        in_doubt_s=settings.transactions.in_doubt_s,
        peer_retry_s=settings.transactions.peer_retry_s,
        peer_retry_max_s=settings.transactions.peer_retry_max_s,
        enlistment_s=settings.transactions.enlistment_s,
        hardened=machine.hardened,
        routing_server=machine.routing_server,
        send_insecure_nacks=machine.send_insecure_nacks,
        directory_integrated=directory.integrated,
        directory_source=directory_source(directory),
        listening_at=tuple(directory.addresses),
        directory_site=directory.site,
        notices_sent=directory.notify,
        notices_first_s=directory.notify_s,
        notices_interval_s=directory.notify_interval_s,
        directory_sites_update_s=directory.sites_update_s,
        directory_site_gates_update_s=directory.site_gates_update_s,
        directory_online_s=directory.online_s,
        clock_step_s=machine.clock_step_s,
        allowed_targets=tuple(machine.allowed_targets),
        targets_per_peer=machine.targets_per_peer,
        message_history_max=settings.binary.message_history_max,
        message_history_s=settings.binary.message_history_s,
        sequence_ahead_s=settings.binary.sequence_ahead_s,
        absent_senders_max=settings.binary.absent_senders_max,
        srmp_receipt_ms=settings.srmp.receipt_ms,
        srmp_receipt_max_ms=settings.srmp.receipt_max_ms,
        srmp_forwarding=settings.srmp.forwarding,
        srmp_redirect=settings.srmp.redirections(),
        srmp_receipts_elsewhere=tuple(settings.srmp.receipts_elsewhere.items()),
        default_access=default_access(machine.default_access),
        waiting_reads_max=limits.waiting_reads_max,
        open_handles_max=limits.open_handles_max,
        transactions_max=limits.transactions_max,
        operations_max=limits.operations_max,
        history_max=limits.history_max,
        outgoing_queues_max=limits.outgoing_queues_max,
        groups_max=limits.groups_max,
        groups_per_user=limits.groups_per_user,
        group_lease_s=limits.group_lease_s,
        stages_max=limits.stages_max,
        stages_per_user=limits.stages_per_user,
        stage_expiry_s=limits.stage_expiry_s,
        query_expiry_s=limits.query_expiry_s,
        qms=settings.qms.settings(),
    )


def store_settings(settings: Settings, store_id: bytes = bytes(16)) -> StoreSettings:
    """What the store gets of it; the id is for a new store, an old one keeps its own."""
    store = settings.store
    return StoreSettings(
        store_id=store_id,
        damage=store.damage,
        segment_size=store.segment_size,
        express_memory=store.express_memory,
        disk_reserve=store.disk_reserve,
        disk_reserve_percent=store.disk_reserve_percent,
        dead_ratio=store.dead_ratio,
        garbage_segments=store.garbage_segments,
        spare_segments=store.spare_segments,
        small_segments=store.small_segments,
        step_bytes=store.step_bytes,
        checkpoint_ratio=store.checkpoint_ratio,
        checkpoint_inline=store.checkpoint_inline,
        open_files=store.open_files,
    )
