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
    """Remote read, for readers on other machines: the endpoint `rpc`."""

    enabled: Annotated[
        bool,
        meaning(
            "Opens this endpoint. Without it, MSMQ clients on other machines cannot read here."
        ),
    ] = True
    port: Annotated[
        Port | None,
        meaning(
            "Port of the listener. Default: that of the port set, 2103; if it is in use, the "
            "port 11 higher, and so on."
        ),
    ] = None
    management: Annotated[
        bool,
        meaning(
            "Answers management calls on this endpoint, too: administrators of other machines "
            "can list, count, pause and resume queues."
        ),
    ] = True
    # Decision 7
    minimum_authentication: Annotated[
        MinimumAuthentication,
        meaning(
            "Authentication level that a call needs. With `none` anyone may call, and may "
            "read where a queue grants it to `anonymous`."
        ),
    ] = "privacy"
    keytab: Annotated[
        FileName,
        meaning(
            "Kerberos key table of this machine, relative to the home. With it, users of its "
            "realm can log in too. Needs the extra `kerberos`."
        ),
    ] = ""
    domain_users: Annotated[
        bool,
        meaning(
            "Lets users of the domain (of `keytab`, or through `winbind`) log in without an "
            "account here. Their rights are those that queues grant to their SIDs, as the domain "
            "states them: of the user and of groups. Users with an account have those rights as "
            "well, with or without this setting."
        ),
    ] = False
    winbind: Annotated[
        bool,
        meaning(
            "Lets users of the domain log in by NTLM, too: winbind of this machine, which is "
            "joined to the domain with samba, has a domain controller verify them. Needs "
            "`libwbclient`, and that the service user is in the group `winbindd_priv`."
        ),
    ] = False
    winbind_ms: Annotated[
        int, within(100, MINUTE_MS, "Time that winbind has to verify a login.")
    ] = 10_000
    # 3.1.2.2, note 11
    cleanup_ms: Annotated[
        int,
        within(
            1, DAY_MS, "Time after which a received message that is not ended returns to its queue."
        ),
    ] = 5 * MINUTE_MS
    # 3.1.2.1, note 10
    call_timeout_ms: Annotated[
        int, within(1, DAY_MS, "Time allowed to open a queue or to join a transaction.")
    ] = 5 * MINUTE_MS
    pending_max: Annotated[
        int,
        within(
            1,
            1_000_000,
            "Largest number of messages of a queue that a reader has received and not ended.",
        ),
    ] = 65_536
    read_ahead: Annotated[
        int,
        size(
            4 * KIB,
            GIB,
            "Size of the messages read from the store for a client before it has taken them.",
        ),
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
            "`true`: a start without it fails. Default: it is opened if its port is free and "
            "allowed; otherwise the log has a warning."
        ),
    ] = None
    port: Annotated[
        Port | None,
        meaning("Port of the listener. Default: that of the port set, 135, which needs privilege."),
    ] = None
