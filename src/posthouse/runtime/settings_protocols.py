"""The sections of `posthouse.toml` for the protocols between queue managers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from posthouse.engine.settings import EngineSettings
from posthouse.model.settings_kinds import DAY_MS, DAY_S, SIZE, Names, Port, Section
from posthouse.protocols.binary.settings import BinarySettings, resend_table
from posthouse.security.settings import MessageSecuritySettings, RepeatsWord
from posthouse.store.settings import GIB, KIB

_engine = EngineSettings("default")
_binary = BinarySettings()
_security = MessageSecuritySettings()


class BinarySection(Section, frozen=True):
    """Messages to and from other queue managers, MSMQ's binary protocol: the endpoint `binary`."""

    enabled: Annotated[
        bool, Meta(description="Without it messages for other computers wait in their queues.")
    ] = True
    port: Annotated[
        Port | None, Meta(description="Its port; left out: the one of the port set, 1801.")
    ] = None
    sessions_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Sessions that others have opened; more are refused."),
    ] = _binary.sessions_max
    links_per_caller: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Connections at a time that answers to one address may cause, for machines"
            " outside the directory that have called from there and gone. Answers beyond them wait"
            " until their machine calls again.",
        ),
    ] = _binary.links_per_caller
    window: Annotated[
        int,
        Meta(ge=1, le=65_535, description="Messages that a peer may send unacknowledged."),
    ] = _binary.window
    send_batch: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What is read from the store for one session at once.",
        ),
    ] = _binary.send_batch_bytes
    receive_ahead: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What one session may bring before it is on disk.",
        ),
    ] = _binary.receive_ahead_bytes
    ack_from: Annotated[
        Names,
        Meta(
            description="Addresses whose order and final acknowledgments count for any queue, "
            "beside the address that its name leads to."
        ),
    ] = ()
    message_history_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Identifiers of received messages that are remembered, so that none is "
            "taken in twice.",
        ),
    ] = _engine.message_history_max
    message_history_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="How long they are remembered.")
    ] = _engine.message_history_s
    sequence_ahead_s: Annotated[
        int,
        Meta(
            ge=0,
            le=366 * DAY_S,
            description="Seconds that the clock of a sender may be ahead: a sequence of "
            "transactional messages that begins later than this is refused. Also over HTTP.",
        ),
    ] = _engine.sequence_ahead_s
    absent_senders_max: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Machines outside the directory that final acknowledgments are kept for "
            "while they are away, about 6 KB of memory each. Beyond it the address with the most "
            "such machines gives up acknowledgments (`answers_given_up` in the log).",
        ),
    ] = _engine.absent_senders_max
    round_trip_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_MS,
            description="For networks that are far away: added to `retry_connect_ms` and "
            "`ack_wait_ms`, and twice to `initialization_ms`.",
        ),
    ] = _binary.round_trip_ms
    initialization_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time a session has to open.")
    ] = _binary.initialization_ms
    refusal_linger_ms: Annotated[
        int,
        Meta(ge=0, le=DAY_MS, description="Time that a refused peer has to read the answer."),
    ] = _binary.refusal_linger_ms
    cleanup_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="A session without messages is closed after it.")
    ] = _binary.cleanup_ms
    cleanup_routing_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The same on a routing server.")
    ] = _binary.cleanup_routing_ms
    connect_timeout_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time for a connection to be answered.")
    ] = _binary.connect_timeout_ms
    retry_connect_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="First pause before a computer is tried again; it doubles.",
        ),
    ] = _binary.retry_connect_ms
    retry_connect_max_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The longest such pause.")
    ] = _binary.retry_connect_max_ms
    next_hop_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_MS,
            description="Pause before the next address of the same computer is tried.",
        ),
    ] = _binary.next_hop_ms
    direct_attempts: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="A machine of the own site that did not answer so many times in a row is "
            "tried through routing servers of the site too; 0: never.",
        ),
    ] = _binary.direct_attempts
    ack_wait_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="Time that a peer has for a session acknowledgment."),
    ] = _binary.ack_wait_ms
    ack_wait_direct_factor: Annotated[
        int, Meta(ge=1, le=100, description="So many times that for direct names.")
    ] = _binary.ack_wait_direct_factor
    ack_wait_min_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="The shortest such time that a peer may ask us for."),
    ] = _binary.ack_wait_min_ms
    ack_wait_max_ms: Annotated[int, Meta(ge=1, le=DAY_MS, description="The longest.")] = (
        _binary.ack_wait_max_ms
    )
    recoverable_ack_min_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="Shortest delay of acknowledgments of recoverable messages; eight round "
            "trips within these limits.",
        ),
    ] = _binary.recoverable_ack_min_ms
    recoverable_ack_max_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The longest such delay.")
    ] = _binary.recoverable_ack_max_ms
    resend_short_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="Time that a transactional message waits for its order acknowledgment "
            "before it is sent again: the first three times.",
        ),
    ] = _binary.resend_ms[0]
    resend_medium_ms: Annotated[int, Meta(ge=1, le=DAY_MS, description="The next three times.")] = (
        _binary.resend_ms[3]
    )
    resend_long_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The three times behind those.")
    ] = _binary.resend_ms[6]
    resend_final_ms: Annotated[
        int, Meta(ge=1, le=7 * DAY_MS, description="Every time from then on.")
    ] = _binary.resend_ms[9]
    order_ack_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="An order acknowledgment waits so long for further messages.",
        ),
    ] = _binary.order_ack_ms
    order_ack_max_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="The longest it waits, however many come.")
    ] = _binary.order_ack_max_ms
    final_ack_look_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="How often a session is opened for messages that only wait to hear what "
            "became of them.",
        ),
    ] = _binary.final_ack_look_ms
    ack_quiet_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_MS,
            description="When all that came is safe and nothing more has come for so long, the "
            "peer is told, before the document's timers say so; 0: only they do.",
        ),
    ] = _binary.ack_quiet_ms


class PingSection(Section, frozen=True):
    """Ping of the binary protocol, over UDP: the endpoint `ping`."""

    answer: Annotated[bool, Meta(description="Answers those who ask before they connect.")] = (
        _binary.answer_pings
    )
    port: Annotated[
        Port | None, Meta(description="Its port; left out: the one of the port set, 3527.")
    ] = None
    first: Annotated[
        bool,
        Meta(description="Asks before it connects; a computer that is silent is tried again."),
    ] = _binary.ping_first
    target_port: Annotated[
        int, Meta(ge=1, le=65_535, description="The port that others are asked on.")
    ] = _binary.ping_port
    response_ms: Annotated[int, Meta(ge=1, le=DAY_MS, description="Time for the answer.")] = (
        _binary.ping_response_ms
    )


class SecuritySection(Section, frozen=True):
    """Signed and encrypted messages."""

    weak_algorithms: Annotated[
        bool,
        Meta(
            description="Accepts MD2, MD4 and MD5 signatures, 40-bit keys and RSA keys below 1,024 "
            "bits of others; never sends them."
        ),
    ] = _security.weak_algorithms
    hash_algorithm: Annotated[
        Literal["sha1", "sha256", "sha512"],
        Meta(description="The hash of signatures where a message names none that may be used."),
    ] = _security.hash_algorithm
    advanced_algorithm: Annotated[
        Literal["aes128", "aes192", "aes256"],
        Meta(description="The cipher for receivers that have an AES key."),
    ] = _security.advanced_algorithm
    enhanced_algorithm: Annotated[
        Literal["rc2", "rc4"], Meta(description="The cipher for receivers that have no AES key.")
    ] = _security.enhanced_algorithm
    reject_40_bit_rc2: Annotated[
        bool,
        Meta(
            description="Refuses RC2 keys of the Enhanced provider of which only 40 bits are used."
        ),
    ] = _security.reject_40_bit_rc2
    key_bits: Annotated[
        int,
        Meta(
            ge=1024, le=4096, description="Size of the RSA keys that `posthouse cert create` makes."
        ),
    ] = _security.key_bits
    receive_key_cache_size: Annotated[
        int,
        Meta(ge=1, le=100_000, description="How many keys of received messages are remembered."),
    ] = _security.receive_key_cache_size
    send_key_cache_size: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="How many keys of sent messages are remembered and used again.",
        ),
    ] = _security.send_key_cache_size
    certificate_cache_size: Annotated[
        int, Meta(ge=1, le=100_000, description="How many verified certificates are remembered.")
    ] = _security.certificate_cache_size
    symmetric_key_lifetime_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="How long a key is remembered and used again.")
    ] = _security.symmetric_key_lifetime_s
    certificate_lifetime_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="How long a verified certificate is remembered.")
    ] = _security.certificate_lifetime_s
    signed_history_s: Annotated[
        int,
        Meta(
            ge=0,
            le=365 * DAY_S,
            description="How long what was signed is remembered of messages in authenticated "
            "queues. A copy under another identifier from another address is refused as a "
            "replay; 0 refuses none.",
        ),
    ] = _security.signed_history_s
    signed_history_max: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000_000,
            description="How many of those messages are remembered; the oldest leave first.",
        ),
    ] = _security.signed_history_max
    signed_repeats: Annotated[
        RepeatsWord,
        Meta(
            description="Whether a sender may send the same signed content again under another "
            "identifier: from the address that it came from before, or not at all. Content that "
            "names its message under the signature is never taken twice."
        ),
    ] = _security.signed_repeats

    def message_security(self) -> MessageSecuritySettings:
        """What the engine gets of it."""
        return MessageSecuritySettings(**msgspec.structs.asdict(self))


def binary_settings(binary: BinarySection, ping: PingSection) -> BinarySettings:
    """What the binary protocol gets of its two sections."""
    return BinarySettings(
        round_trip_ms=binary.round_trip_ms,
        initialization_ms=binary.initialization_ms,
        cleanup_ms=binary.cleanup_ms,
        cleanup_routing_ms=binary.cleanup_routing_ms,
        retry_connect_ms=binary.retry_connect_ms,
        retry_connect_max_ms=binary.retry_connect_max_ms,
        next_hop_ms=binary.next_hop_ms,
        direct_attempts=binary.direct_attempts,
        ack_wait_ms=binary.ack_wait_ms,
        ack_wait_direct_factor=binary.ack_wait_direct_factor,
        ack_wait_min_ms=binary.ack_wait_min_ms,
        ack_wait_max_ms=binary.ack_wait_max_ms,
        recoverable_ack_min_ms=binary.recoverable_ack_min_ms,
        recoverable_ack_max_ms=binary.recoverable_ack_max_ms,
        resend_ms=resend_table(
            binary.resend_short_ms,
            binary.resend_medium_ms,
            binary.resend_long_ms,
            binary.resend_final_ms,
        ),
        order_ack_ms=binary.order_ack_ms,
        order_ack_max_ms=binary.order_ack_max_ms,
        final_ack_look_ms=binary.final_ack_look_ms,
        ack_quiet_ms=binary.ack_quiet_ms,
        ping_response_ms=ping.response_ms,
        ping_first=ping.first,
        ping_port=ping.target_port,
        answer_pings=ping.answer,
        window=binary.window,
        connect_timeout_ms=binary.connect_timeout_ms,
        sessions_max=binary.sessions_max,
        links_per_caller=binary.links_per_caller,
        ack_from=tuple(binary.ack_from),
        refusal_linger_ms=binary.refusal_linger_ms,
        receive_ahead_bytes=binary.receive_ahead,
        send_batch_bytes=binary.send_batch,
    )
