"""The sections of `posthouse.toml` for remote read: `[rpc]` and `[epm]`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.model.settings_kinds import DAY_MS, SIZE, Port, Section
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.rpc.security import Level
from posthouse.rpc.settings import RpcSettings
from posthouse.store.settings import GIB, KIB

_read = RemoteReadSettings()
_rpc = RpcSettings()
_LEVELS = {
    "privacy": Level.PRIVACY,
    "integrity": Level.INTEGRITY,
    "connect": Level.CONNECT,
    "none": Level.NONE,
}


class RpcSection(Section, frozen=True):
    """Remote read: queues of this machine for readers on others: the endpoint `rpc`."""

    enabled: Annotated[
        bool, Meta(description="Without it MSMQ clients on other machines cannot read here.")
    ] = True
    port: Annotated[
        Port | None,
        Meta(
            description="Its port; left out: the one of the port set, 2103, or 11 more than that "
            "as often as it is taken."
        ),
    ] = None
    minimum_authentication: Annotated[
        Literal["privacy", "integrity", "connect", "none"],
        Meta(
            description="What a call needs at least. With `none` everybody may call, and read "
            "where a queue grants it to `anonymous`."
        ),
    ] = "privacy"
    keytab: Annotated[
        str,
        Meta(
            max_length=4096,
            description="Key table of this machine, relative to the home; with it users of its "
            "Kerberos realm log in, too. Needs the extra `kerberos`.",
        ),
    ] = ""
    cleanup_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_MS,
            description="A message that was received and not ended goes back after it.",
        ),
    ] = _read.cleanup_ms
    call_timeout_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time for opening a queue or joining a transaction.")
    ] = _read.call_timeout_ms
    pending_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Messages received and not ended that a reader may have of a queue.",
        ),
    ] = _read.pending_max
    read_ahead: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What is read from the store for a client that has not taken it yet.",
        ),
    ] = _read.read_ahead
    calls_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Calls of one connection that wait for their answers, reads that wait for "
            "a message too.",
        ),
    ] = _rpc.calls_max
    all_calls_max: Annotated[
        int,
        Meta(ge=1, le=10_000_000, description="The same for all connections together."),
    ] = _rpc.all_calls_max
    handles_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Queues that one client may have open.")
    ] = _rpc.handles_max
    request_max: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="The largest call that is read; a token of a transaction needs 128 KiB.",
        ),
    ] = _rpc.request_max
    unsent_max: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="Answers that a client does not read, before its connection is closed.",
        ),
    ] = _rpc.unsent_max
    bind_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time that a connection has to bind.")
    ] = _rpc.bind_ms
    login_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time that a login may take, once it has begun.")
    ] = _rpc.login_ms
    unfinished_ms: Annotated[
        int, Meta(ge=1, le=DAY_MS, description="Time that a call has to become whole.")
    ] = _rpc.unfinished_ms
    idle_ms: Annotated[
        int,
        Meta(ge=1, le=DAY_MS, description="A connection without calls and handles ends after it."),
    ] = _rpc.idle_ms

    def remote_read(self) -> RemoteReadSettings:
        """What the protocol gets of it."""
        return RemoteReadSettings(
            minimum_level=_LEVELS[self.minimum_authentication],
            cleanup_ms=self.cleanup_ms,
            call_timeout_ms=self.call_timeout_ms,
            pending_max=self.pending_max,
            read_ahead=self.read_ahead,
        )

    def runtime(self) -> RpcSettings:
        """What the RPC runtime gets of it."""
        return RpcSettings(
            request_max=self.request_max,
            calls_max=self.calls_max,
            all_calls_max=self.all_calls_max,
            unsent_max=self.unsent_max,
            handles_max=self.handles_max,
            bind_ms=self.bind_ms,
            login_ms=self.login_ms,
            unfinished_ms=self.unfinished_ms,
            idle_ms=self.idle_ms,
        )


class EpmSection(Section, frozen=True):
    """The DCE/RPC endpoint mapper, where Windows clients ask for the port of remote read: `epm`."""

    enabled: Annotated[
        bool | None,
        Meta(
            description="`true`: a start without it fails; left out: it is there where its port "
            "is free and allowed, else the log says so."
        ),
    ] = None
    port: Annotated[
        Port | None,
        Meta(
            description="Its port; left out: the one of the port set, 135, which needs privilege."
        ),
    ] = None
