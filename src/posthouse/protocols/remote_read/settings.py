"""`[rpc]` and `[epm]`: every setting of remote read ([MS-MQRR] 3.1.2)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from posthouse.model.settings_kinds import (
    DAY_MS,
    GIB,
    KIB,
    MIB,
    MINUTE_MS,
    FileName,
    Port,
    Section,
    meaning,
    size,
    within,
)
from posthouse.rpc.security import Level
from posthouse.rpc.settings import RpcSettings

MinimumAuthentication = Literal["privacy", "integrity", "connect", "none"]
LEVELS: Final[dict[MinimumAuthentication, Level]] = {
    "privacy": Level.PRIVACY,
    "integrity": Level.INTEGRITY,
    "connect": Level.CONNECT,
    "none": Level.NONE,
}


class RemoteReadSettings(RpcSettings, frozen=True):
    """Remote read: queues of this machine for readers on others: the endpoint `rpc`."""

    enabled: Annotated[
        bool, meaning("Without it MSMQ clients on other machines cannot read here.")
    ] = True
    port: Annotated[
        Port | None,
        meaning(
            "Its port; left out: the one of the port set, 2103, or 11 more than that as often"
            " as it is taken."
        ),
    ] = None
    # Decision 7
    minimum_authentication: Annotated[
        MinimumAuthentication,
        meaning(
            "What a call needs at least. With `none` everybody may call, and read where a "
            "queue grants it to `anonymous`."
        ),
    ] = "privacy"
    keytab: Annotated[
        FileName,
        meaning(
            "Key table of this machine, relative to the home; with it users of its Kerberos "
            "realm log in, too. Needs the extra `kerberos`."
        ),
    ] = ""
    # 3.1.2.2, note 11
    cleanup_ms: Annotated[
        int, within(1, DAY_MS, "A message that was received and not ended goes back after it.")
    ] = 5 * MINUTE_MS
    # 3.1.2.1, note 10
    call_timeout_ms: Annotated[
        int, within(1, DAY_MS, "Time for opening a queue or joining a transaction.")
    ] = 5 * MINUTE_MS
    pending_max: Annotated[
        int,
        within(1, 1_000_000, "Messages received and not ended that a reader may have of a queue."),
    ] = 65_536
    read_ahead: Annotated[
        int,
        size(4 * KIB, GIB, "What is read from the store for a client that has not taken it yet."),
    ] = 4 * MIB

    @property
    def minimum_level(self) -> Level:
        """What a call needs at least."""
        return LEVELS[self.minimum_authentication]


class EpmSettings(Section, frozen=True):
    """The DCE/RPC endpoint mapper, where Windows clients ask for the port of remote read: `epm`."""

    enabled: Annotated[
        bool | None,
        meaning(
            "`true`: a start without it fails; left out: it is there where its port is free "
            "and allowed, else the log says so."
        ),
    ] = None
    port: Annotated[
        Port | None,
        meaning("Its port; left out: the one of the port set, 135, which needs privilege."),
    ] = None
