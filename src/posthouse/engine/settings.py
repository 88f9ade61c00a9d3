"""The engine's settings, with the documents' defaults. Read from configuration at the edge."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv6Address

from posthouse.security.access import DEFAULT_ACCESS, Access

UNLIMITED = 0xFFFFFFFF  # of quotas, in kilobytes
TIME_TO_REACH_QUEUE_MAX = 0x54600  # four days: [MS-MQDMPR] 3.1.1.12, note 12


@dataclass(frozen=True, slots=True)
class QmsSettings:
    """Limits of job queues and of the bindery (qms-facts 2.3; decision 98)."""

    jobs_max: int = 250  # of one queue; numbers end at 999 up to it, and at 65,535 above
    servers_max: int = 25  # attached to one queue
    queues_max: int = 10_000
    objects_max: int = 100_000
    properties_max: int = 256  # of one object
    members_max: int = 100_000  # of one set
    stations_max: int = 1_000  # connections at a time, whatever door they came through
    file_max: int = 1 << 30  # bytes of one job file
    history_max: int = 10_000  # jobs that have ended and are remembered
    empty_passwords: bool = False
    names_before_login: bool = False  # of job queues and users, to clients of any address
    bridge_retry_s: int = 5  # a job queue that takes no jobs is tried again after it
    local_clock: bool = True  # of entry and execution times; the runtime knows the time zone


Pairs = tuple[tuple[str, str], ...]  # From, To


@dataclass(frozen=True, slots=True)
class RedirectSettings:
    """The collections of [MC-MQSRM] 3.1.1.1.8-10, empty until an administrator fills them."""

    outbound: Pairs = ()  # OutboundRedirectionCollection
    outbound_exceptions: tuple[str, ...] = ()  # OutboundRedirectionExceptionCollection
    inbound: Pairs = ()  # InboundRedirectionCollection
    receipt_urls: Pairs = ()  # StreamReceiptURLReplacementCollection
    default_receipt_url: str = ""  # DefaultStreamReceiptURLReplacement


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Who this queue manager is and how it behaves. Every timer of the document is here."""

    computer_name: str
    dns_domain: str = ""
    aliases: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    ports: frozenset[int] = frozenset({1801, 80, 443})
    # Choice: no machine quota; the disk reserve of the store bounds it (design, section 4).
    machine_quota_kib: int = UNLIMITED
    journal_quota_kib: int = UNLIMITED
    default_time_to_reach_queue_s: int = TIME_TO_REACH_QUEUE_MAX
    transaction_idle_s: int = 60
    transaction_buffer: int = 8 << 20  # larger ones are appended as they come
    prepare_s: int = 30  # other queue managers have so long to vote
    in_doubt_s: int = 10  # then a prepared transaction asks its coordinator
    peer_retry_s: int = 1  # the first pause before a peer is asked again; it doubles
    peer_retry_max_s: int = 300
    enlistment_s: int = 120  # how long a transaction token is good for
    hardened: bool = False
    routing_server: bool = False
    send_insecure_nacks: bool = False
    directory_integrated: bool = True  # by the embedded directory; False: a workgroup
    directory_source: str = ""  # the authority that the directory mirrors; empty: it is its own
    listening_at: tuple[str, ...] = ()  # where others reach us, host or host:port
    directory_site: str = ""  # of a new own object in the directory: name or GUID
    software_version: str = ""
    operating_system_version: str = ""
    # [MS-MQCN]: change notifications to the owners of objects that were changed from here, and
    # how long those of others are collected.
    notices_sent: bool = True
    notices_first_s: int = 60
    notices_interval_s: int = 15 * 60
    directory_sites_update_s: int = 12 * 3600
    directory_site_gates_update_s: int = 3600
    directory_online_s: int = 60
    clock_step_s: int = 5  # a jump of UTC against the monotonic clock worth a log line
    default_access: Access = DEFAULT_ACCESS  # what others than the owner get on a new queue
    waiting_reads_max: int = 1_000_000
    open_handles_max: int = 1_000_000
    transactions_max: int = 100_000
    operations_max: int = 1_000_000  # of one transaction
    history_max: int = 50  # ConnectionHistory entries kept per outgoing queue
    outgoing_queues_max: int = 100_000
    # [MC-MQSRM] 3.1.2.3, 3.1.1.3.2: a stream receipt waits so long for more to acknowledge.
    srmp_receipt_ms: int = 500
    srmp_receipt_max_ms: int = 10_000
    srmp_forwarding: bool = False  # TransparentStoreAndForward; needs routing_server (decision 15)
    srmp_redirect: RedirectSettings = RedirectSettings()
    srmp_receipts_elsewhere: Pairs = ()  # sender's address, host[:port] of its receipt address
    message_history_max: int = 10_000  # [MS-MQQB] 3.1.1.3: identifiers of received messages kept
    message_history_s: int = 30 * 60  # [MS-MQQB] 3.1.2.8, note 47
    sequence_ahead_s: int = 24 * 3600  # the clock of a sender may be ahead of ours by so much
    absent_senders_max: int = 5_000  # outside the directory, that final answers are kept for
    # Decision 9: hosts and networks that names from other machines may make us connect to.
    allowed_targets: tuple[str, ...] = ()
    targets_per_peer: int = 100  # and how many different ones, within an hour
    group_lease_s: int = 15  # a reader that does not renew it by then has lost it
    groups_max: int = 10_000
    groups_per_user: int = 2_500  # of these, whoever makes them
    stage_expiry_s: int = 24 * 3600  # of messages that wait for their batch to be published
    query_expiry_s: int = 400 * 24 * 3600  # the last batch of a query that publishes no more
    stages_max: int = 100_000
    stages_per_user: int = 25_000
    # What purges and deletions may take of one turn, and expiry again; the rest follows.
    step_messages: int = 2_000
    step_bytes: int = 16 << 20
    qms: QmsSettings = QmsSettings()

    own_names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = {self.computer_name, self.qualified_computer_name, "localhost", "."}
        names.update(self.aliases, self.addresses)
        object.__setattr__(self, "own_names", frozenset(map(host_key, names)))

    @property
    def qualified_computer_name(self) -> str:
        """[MS-MQDMPR] 3.1.3: computer name, a dot, the DNS domain name."""
        if not self.dns_domain:
            return self.computer_name
        return f"{self.computer_name}.{self.dns_domain}"


def host_key(host: str) -> str:
    """The identity of a computer name or address; an IPv6 address has many spellings."""
    if ":" in host:
        try:
            address = IPv6Address(host)
        except AddressValueError:
            return host.casefold()
        return str(address.ipv4_mapped or address)
    return host.casefold()
