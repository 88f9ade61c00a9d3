"""The access check, and the default security descriptors of new queues.

[MS-DTYP] 2.5.3.2 is the procedure; who counts as whom follows decisions 1, 2 and 4: `everyone` is
any sender, anonymous ones included, and an unsigned claim never counts for more than that.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Final, Self

from posthouse.model.errors import AccessDenied, IllegalUser, InvalidOwner
from posthouse.model.text import excerpt
from posthouse.security.acls import ALLOWED, Ace, Acl
from posthouse.security.descriptors import SecurityDescriptor, unpack_descriptor
from posthouse.security.patterns import is_masked, matches_pattern
from posthouse.security.rights import (
    ACCESS_SYSTEM_SECURITY,
    GET_QUEUE_PERMISSIONS,
    GET_QUEUE_PROPERTIES,
    MAXIMUM_ALLOWED,
    PEEK_MESSAGE,
    QUEUE,
    QUEUE_GENERIC_ALL,
    READ_CONTROL,
    WRITE_DACL,
    WRITE_MESSAGE,
    AccessMasks,
    missing_rights,
    parse_rights,
)
from posthouse.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    OWNER_RIGHTS,
    PRINCIPALS,
    format_sid,
    is_sid,
)

Scopes = tuple[tuple[str, int], ...]
"""Queue patterns with the rights left on them; what no pattern matches is out of reach."""
Access = tuple[tuple[bytes, int], ...]
"""SIDs with the rights they get."""

DEFAULT_ACCESS: Final[Access] = ((EVERYONE, WRITE_MESSAGE),)
"""What others than the owner may do with a new queue: everyone sends, no one reads."""

_NOBODY: frozenset[bytes] = frozenset()


class Origin:
    """One proof of identity. It can be remembered without being kept alive."""

    __slots__ = ("__weakref__",)


class Caller:
    """On whose behalf an operation runs.

    `groups` are the SIDs that count when rights are given, the own one included; `deny_only` those
    that count only when rights are denied. `scopes` narrow everything, for tokens; `limit` is what
    the role of a token or user leaves of the rights on any queue. `hidden` are rights that a role
    has only where the content of messages is left out or masked (`hiding_content`).
    """

    __slots__ = (
        "_hiding",
        "authenticated",
        "deny_only",
        "groups",
        "hidden",
        "is_administrator",
        "limit",
        "masked",
        "name",
        "origin",
        "scopes",
        "sid",
    )

    def __init__(
        self,
        sid: bytes,
        name: str,
        groups: frozenset[bytes],
        authenticated: bool,
        is_administrator: bool,
        deny_only: frozenset[bytes] = _NOBODY,
        scopes: Scopes | None = None,
        origin: Origin | None = None,
        limit: int = ~0,
        hidden: int = 0,
        masked: tuple[str, ...] = (),
    ) -> None:
        self.origin = origin or Origin()  # the proof of identity; narrowed callers share it
        self.sid = sid
        self.name = name
        self.groups = groups
        self.authenticated = authenticated
        self.is_administrator = is_administrator
        self.deny_only = deny_only
        self.scopes = scopes
        self.limit = limit
        self.hidden = hidden
        self.masked = masked  # patterns of queues whose messages are seen through masks only
        self._hiding: Self | None = None

    @classmethod
    def user(cls, sid: bytes, name: str, groups: Iterable[bytes] = ()) -> Self:
        """An account whose identity was proved; a member of Administrators is one of them."""
        token = frozenset((sid, EVERYONE, AUTHENTICATED_USERS, *groups))
        return cls(sid, name, token, True, ADMINISTRATORS in token)

    @classmethod
    def administrator(cls, sid: bytes = ADMINISTRATORS, name: str = "administrator") -> Self:
        """The administrator: the control socket, or an account with that role."""
        return cls.user(sid, name, (ADMINISTRATORS,))

    @classmethod
    def anonymous(cls) -> Self:
        """A sender without any claim, decision 1."""
        return cls(ANONYMOUS, "anonymous", frozenset((ANONYMOUS, EVERYONE)), False, False)

    @classmethod
    def unverified(cls, sid: bytes) -> Self:
        """A sender with an unsigned claim: everyone, never more, decision 2.

        What is denied to the claimed SID or to anonymous senders is denied to this one too, or a
        made-up claim would be the way around a denial. Bytes that are not an SID claim nothing.
        """
        if not is_sid(sid):
            return cls.anonymous()
        denied = frozenset((ANONYMOUS, sid))
        return cls(sid, format_sid(sid), frozenset((EVERYONE,)), False, False, denied)

    def proved_by(self, origin: Origin) -> Self:
        """This caller, whose proof of identity others share."""
        self.origin = origin
        return self

    def with_groups(self, groups: Iterable[bytes]) -> Self:
        """This caller as a member of these groups of a domain; none makes administrators."""
        more = frozenset(groups) - {ADMINISTRATORS} - self.groups
        return self._but(groups=self.groups | more) if more else self

    def _but(self, **changed: Any) -> Self:
        """This caller, with another value here and there."""
        made = copy(self)
        made._hiding = None
        for name, value in changed.items():
            setattr(made, name, value)
        return made

    def narrowed(self, scopes: Scopes | None, limit: int = ~0, hidden: int = 0) -> Self:
        """This caller with the queues and rights of a token or role only."""
        assert self.scopes is None
        return self._but(
            scopes=scopes,
            limit=limit & self.limit,
            hidden=(limit | hidden) & (self.limit | self.hidden) & ~(limit & self.limit),
        )

    def hiding_content(self) -> Self:
        """This caller for answers that leave out or mask the content of messages.

        Only the API may ask for it: its handlers show messages through `ContentView`.
        """
        if not self.hidden and not self.masked:
            return self
        if self._hiding is None:
            self._hiding = self._but(limit=self.limit | self.hidden, hidden=0, masked=())
        return self._hiding

    def scope(self, path: str) -> int:
        """The rights that the token leaves on a queue; all where there is no such limit."""
        if self.scopes is None:
            return self.limit
        mask = 0
        for pattern, rights in self.scopes:
            if matches_pattern(pattern, path):
                mask |= rights
        return mask & self.limit

    def seeing_masked(self, patterns: tuple[str, ...]) -> Self:
        """This caller, who reads no message of queues that match but through masks."""
        return self._but(masked=patterns) if patterns else self

    def check_masks(self, queue: str, desired: int) -> None:
        """Refuses to read a queue as it is of which this caller sees messages through masks."""
        if desired & PEEK_MESSAGE and any(is_masked(pattern, queue) for pattern in self.masked):
            raise AccessDenied(
                f"your role sees messages of {queue} with masks only",
                "Look at them with posthouse message show, or use a token without masks.",
            )

    def check_limit(self, desired: int) -> None:
        """Refuses rights that the role of a token does not have on any queue."""
        if desired & ~self.limit & PEEK_MESSAGE:
            raise AccessDenied(
                "your role does not show the content of messages",
                "Use a token of role read or operate, without masks.",
            )
        if desired & ~self.limit:
            raise AccessDenied("this token may only look", "Use one of role operate or administer.")

    def __repr__(self) -> str:
        return f"<Caller {self.name} {format_sid(self.sid)}>"


def effective_mask(
    descriptor: SecurityDescriptor,
    caller: Caller,
    *,
    ignore_everyone: bool = False,
    path: str = "",
    masks: AccessMasks = QUEUE,
) -> int:
    """All rights the caller has: each bit is decided by the first entry that names it.

    `ignore_everyone` is for queues that take authenticated messages only: what everyone is given
    does not count there. Choice: administrators have every right, as they could take it anyway.
    """
    limit = caller.scope(path) if masks is QUEUE else ~0
    if caller.is_administrator:
        return (masks.all | ACCESS_SYSTEM_SECURITY) & limit
    if descriptor.dacl is None:
        return 0 if ignore_everyone and not caller.authenticated else masks.all & limit
    owner = caller.authenticated and descriptor.owner in caller.groups
    given = caller.groups - {EVERYONE} if ignore_everyone else caller.groups
    taken = caller.groups | caller.deny_only
    if owner:
        given, taken = given | {OWNER_RIGHTS}, taken | {OWNER_RIGHTS}
    granted = _implicit(descriptor.dacl, owner)
    denied = 0
    for ace in descriptor.dacl.aces:
        if ace.denies and ace.sid in taken:
            denied |= masks.mapped(ace.mask) & ~granted
        elif ace.allows and ace.sid in given:
            granted |= masks.mapped(ace.mask) & ~denied
    return granted & masks.all & limit


def _implicit(dacl: Acl, owner: bool) -> int:
    """What an owner can always do: read and repair the list, unless the list speaks of owners.

    [MS-DTYP] has "entries of the owner". Windows means the SID OWNER RIGHTS, and so do we;
    otherwise a careless entry would lock owners out of their own queues.
    """
    if not owner or any(ace.sid == OWNER_RIGHTS and not ace.inherit_only for ace in dacl.aces):
        return 0
    return READ_CONTROL | WRITE_DACL


def granted(
    descriptor: SecurityDescriptor,
    caller: Caller,
    desired: int,
    *,
    ignore_everyone: bool = False,
    path: str = "",
    masks: AccessMasks = QUEUE,
) -> bool:
    """Whether the caller has all the rights asked for, [MS-DTYP] 2.5.3.2."""
    wanted = masks.mapped(desired) & ~MAXIMUM_ALLOWED
    have = effective_mask(
        descriptor, caller, ignore_everyone=ignore_everyone, path=path, masks=masks
    )
    return not wanted & ~have


class Guard:
    """The descriptor of one queue, ready to be asked on every operation, decision 5.

    It remembers what each caller may do; the engine makes a new one when the descriptor, the
    Authentication attribute or the name of the queue changes.
    """

    __slots__ = ("_masks", "descriptor", "ignore_everyone", "path")

    CALLERS_MAX: Final = 1024

    def __init__(self, security: bytes, path: str, *, authentication: bool = False) -> None:
        self.descriptor = unpack_descriptor(security)
        self.path = path
        self.ignore_everyone = authentication
        self._masks: dict[Caller, int] = {}

    def mask(self, caller: Caller) -> int:
        """All rights the caller has on the queue."""
        known = self._masks.get(caller)
        if known is None:
            if len(self._masks) >= self.CALLERS_MAX:
                self._masks.clear()
            known = self._masks[caller] = effective_mask(
                self.descriptor, caller, ignore_everyone=self.ignore_everyone, path=self.path
            )
        return known

    def allows(self, caller: Caller, desired: int) -> bool:
        """Whether the caller has all these specific rights."""
        return not desired & ~self.mask(caller)

    def require(self, caller: Caller, desired: int) -> None:
        """Refuses with MQ_ERROR_ACCESS_DENIED unless the caller has all these rights."""
        missing = desired & ~self.mask(caller)
        if missing:
            caller.check_limit(missing)
            raise AccessDenied(
                f"{caller.name} lacks the right {missing_rights(desired, missing)} on {self.path}"
            )


def check_owner(owner: bytes, caller: Caller) -> None:
    """Refuses an owner that the caller can neither be nor speak for."""
    if not is_sid(owner):
        raise InvalidOwner("the owner is not a security identifier")
    shared = owner in (EVERYONE, ANONYMOUS, AUTHENTICATED_USERS)
    if shared or not (caller.is_administrator or (caller.authenticated and owner in caller.groups)):
        raise InvalidOwner(f"{caller.name} cannot make {format_sid(owner)} the owner")


def default_access(table: Mapping[str, str]) -> Access:
    """The setting `default_access`, such as `{ everyone = "send", users = "peek" }`."""
    for word in table:
        if word.lower() not in PRINCIPALS:
            known = ", ".join(PRINCIPALS)
            raise IllegalUser(f"default_access names {excerpt(word)}", f"Use one of {known}.")
    return tuple((PRINCIPALS[word.lower()], parse_rights(rights)) for word, rights in table.items())


def default_queue_descriptor(
    owner_sid: bytes, access: Access = DEFAULT_ACCESS, machine_sid: bytes | None = None
) -> bytes:
    """Create Default Queue Security Descriptor, [MS-MQDMPR] 3.1.7.1.3.1, as decision 4 has it.

    The document gives everyone full control where the owner is not a domain user. Not here: the
    owner has full control, others what the setting grants, whatever the owner is.
    """
    return SecurityDescriptor(owner_sid).with_dacl(_dacl(owner_sid, access, machine_sid)).pack()


def _dacl(owner_sid: bytes, access: Access, machine_sid: bytes | None) -> Acl:
    given = [*access]
    if machine_sid is not None:
        given.append((machine_sid, GET_QUEUE_PROPERTIES | GET_QUEUE_PERMISSIONS))
    given.append((owner_sid, QUEUE_GENERIC_ALL))
    return Acl(tuple(Ace.of(ALLOWED, sid, mask) for sid, mask in given))


def complete_descriptor(
    supplied: bytes | None,
    owner_sid: bytes,
    access: Access = DEFAULT_ACCESS,
    machine_sid: bytes | None = None,
) -> bytes:
    """What a new queue stores: the supplied descriptor with its missing parts filled in.

    Owner, access list and audit list that were supplied stay; the caller becomes the owner and
    the default list applies only where there is none, [MS-MQDMPR] 3.1.7.1.3.1.
    """
    if not supplied:
        return default_queue_descriptor(owner_sid, access, machine_sid)
    descriptor = unpack_descriptor(supplied)
    descriptor.check_masks(QUEUE)
    descriptor = descriptor.with_generic_mapped(QUEUE)
    if not descriptor.owner:
        descriptor = descriptor.with_owner(owner_sid)
    if not descriptor.has_dacl:
        descriptor = descriptor.with_dacl(_dacl(descriptor.owner, access, machine_sid))
    return descriptor.pack()


def system_queue_descriptor() -> bytes:
    """System queues, journals and dead letters belong to the administrators, decision 4."""
    return default_queue_descriptor(ADMINISTRATORS, ())
