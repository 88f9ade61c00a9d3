"""Security providers: NTLM, Kerberos and SPNEGO for servers and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from posthouse.rpc import spnego_tokens
from posthouse.rpc.domain_logins import Answered, DomainLogins, DomainNames, DomainQuestion
from posthouse.rpc.kerberos import KerberosInitiator, KerberosService
from posthouse.rpc.ntlm.authentication import (
    Account,
    NtlmAcceptor,
    NtlmInitiator,
    ServerNames,
    split_user,
)
from posthouse.rpc.ntlm.keys import CHALLENGE_SIZE, KEY_SIZE
from posthouse.rpc.pac import DomainUser
from posthouse.rpc.security import KERBEROS, NTLM, SPNEGO, Identity, SecurityContext
from posthouse.rpc.spnego import Make, SpnegoAcceptor, SpnegoInitiator
from posthouse.security.nt_hash import nt_hash

RandomBytes = Callable[[int], bytes]
WRONG: Final = "wrong name or password"
NO_ACCOUNT: Final = (
    "there is no such account here, and users of a domain log in by Kerberos ([rpc] keytab) or "
    "through winbind ([rpc] winbind): domain_users"
)
MECHANISMS: Final = {"ntlm": NTLM, "negotiate": SPNEGO, "kerberos": KERBEROS}
"""What a client can ask for, with its number on the wire ([MS-RPCE] 2.2.1.1.7)."""


def auth_type_of(mechanism: str) -> int:
    """The number of a mechanism; ValueError for others than `MECHANISMS`."""
    try:
        return MECHANISMS[mechanism]
    except KeyError:
        raise ValueError(f"{mechanism} is none of {', '.join(MECHANISMS)}") from None


class Proof(Protocol):
    """An account that was proved."""

    @property
    def name(self) -> str:
        """As it is spelled here."""
        ...

    @property
    def sid(self) -> bytes:
        """What it is known by."""
        ...


class Logins(Protocol):
    """The accounts that a server checks logins against; implemented by
    posthouse.engine.accounts.logins.
    """

    def nt_hash(self, user: str, address: str) -> bytes | None:
        """What to compare a proof with; None where no proof would do."""
        ...

    def accepted(self, user: str, address: str) -> Proof:
        """The proof was right."""
        ...

    def refused(self, user: str, address: str, cause: str) -> None:
        """The proof was wrong."""
        ...

    @property
    def takes_domain_users(self) -> bool:
        """Whether users of the domain may come in without an account here."""
        ...

    def knows(self, user: str) -> bool:
        """Whether there is an account of that name, which may be closed."""
        ...

    def vouched(self, user: str) -> Proof | None:
        """Somebody whom a domain has vouched for; None where they may not come in."""
        ...


class Attempt:
    """One client's login: a `posthouse.rpc.ntlm.authentication.Login` at one address."""

    def __init__(self, logins: Logins, names: ServerNames, address: str) -> None:
        self._logins = logins
        self._names = names
        self._address = address

    def nt_hash(self, user: str) -> bytes | None:
        """What to compare a proof with."""
        return self._logins.nt_hash(user, self._address)

    def accepted(self, user: str, mechanism: str) -> Identity:
        """Who that is, in the words of the accounts: however they spelled themselves."""
        return self._identity(self._logins.accepted(user, self._address), mechanism)

    def vouched(
        self, user: str, domain: DomainUser | None, mechanism: str = "kerberos"
    ) -> Identity | None:
        """Who that is whom a domain has vouched for, with the SIDs that it has signed."""
        sids = () if domain is None else (domain.sid, *domain.groups)
        proof = self._logins.vouched(user)
        if proof is not None:
            return self._identity(proof, mechanism)._replace(groups=sids)
        if domain is not None and self._takes(user, domain):
            name, names = f"{domain.domain}\\{domain.name}", (user, domain.name)
            return Identity(name, domain.domain, mechanism, domain.sid, sids, False, names)
        what = "Kerberos" if mechanism == "kerberos" else "the domain"
        self._logins.refused(user, self._address, f"no account for this user of {what}")
        return None

    def _takes(self, user: str, domain: DomainUser) -> bool:
        """A user of a domain has several names; an account under any of them decides."""
        logins = self._logins
        return logins.takes_domain_users and not (logins.knows(user) or logins.knows(domain.name))

    def _identity(self, proof: Proof, mechanism: str) -> Identity:
        return Identity(proof.name, self._names.netbios, mechanism, proof.sid)

    def refused(self, user: str) -> None:
        """Counts, and makes the next one wait."""
        cause = WRONG if self._logins.knows(user) else NO_ACCOUNT
        self._logins.refused(user, self._address, cause)


class DomainAttempt:
    """One client's login as a user of a domain: a `DomainDesk` of `rpc.ntlm.authentication`."""

    def __init__(
        self, attempt: Attempt, logins: Logins, service: DomainLogins, address: str
    ) -> None:
        self._attempt = attempt
        self._logins = logins
        self._service = service
        self._address = address

    def takes(self, user: str, domain: str) -> bool:
        """Not for users of this machine: those have their accounts here."""
        names = self._service.names
        return names is None or domain.casefold() != names.computer.casefold()

    def ask(self, question: DomainQuestion, answered: Answered) -> None:
        """Asks winbind."""
        self._service.ask(question, self._address, answered)

    def vouched(self, user: str, domain: DomainUser) -> Identity | None:
        """An account under the name that the domain has for the user goes first."""
        if "@" not in user and user.casefold() != domain.name.casefold():
            self.refused(user, f"the domain calls this user {domain.name}")
            return None
        identity = self._attempt.vouched(domain.name, domain, "ntlm")
        if identity is None or identity.has_account:
            return identity
        if self._logins.knows(user):
            self.refused(user, "an account here has that name")
            return None
        return identity._replace(names=(user, domain.name))

    def refused(self, user: str, cause: str) -> None:
        """The log has what the domain, or winbind, gave as the reason."""
        self._logins.refused(user, self._address, cause)


class Acceptors:
    """The `Authenticator` of a server: NTLM and Kerberos, by themselves and within SPNEGO."""

    def __init__(
        self,
        logins: Logins,
        names: ServerNames,
        random_bytes: RandomBytes,
        filetime: Callable[[], int],
        kerberos: KerberosService | None = None,
        domain: DomainLogins | None = None,
    ) -> None:
        self._logins = logins
        self.domain = domain
        self._kerberos = kerberos
        self._names = names
        self._random_bytes = random_bytes
        self._filetime = filetime

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        """A new context for a client at that address; None: no such security provider here."""
        attempt = Attempt(self._logins, self._names, address)
        if auth_type == NTLM:
            return self._ntlm(attempt, address)
        if auth_type == SPNEGO:
            return SpnegoAcceptor(self._makes(attempt, address))
        if auth_type == KERBEROS and self._kerberos is not None:
            return self._kerberos.acceptor(attempt.vouched)
        return None

    def _makes(self, attempt: Attempt, address: str) -> dict[bytes, Make]:
        makes: dict[bytes, Make] = {spnego_tokens.NTLM_OID: lambda: self._ntlm(attempt, address)}
        service = self._kerberos
        if service is not None:
            for name in (spnego_tokens.KERBEROS_OID, spnego_tokens.KERBEROS_OID_OF_WINDOWS):
                makes[name] = lambda: service.acceptor(attempt.vouched)
        return makes

    def _ntlm(self, attempt: Attempt, address: str) -> NtlmAcceptor:
        challenge, service = self._random_bytes(CHALLENGE_SIZE), self.domain
        if service is None:
            return NtlmAcceptor(attempt, self._names, challenge, self._filetime())
        desk = DomainAttempt(attempt, self._logins, service, address)
        names = self._names_in(service.names)
        return NtlmAcceptor(attempt, names, challenge, self._filetime(), desk)

    def _names_in(self, domain: DomainNames | None) -> ServerNames:
        """A domain controller takes responses to this machine's own challenge only, by its name."""
        if domain is None:
            return self._names
        dns = f"{domain.computer}.{domain.dns_domain}".lower()
        return ServerNames(domain.computer, dns, domain.domain)


def initiator(
    mechanism: str,
    user: str,
    password: str,
    host: str,
    *,
    random_bytes: RandomBytes,
    filetime: int,
) -> SecurityContext:
    r"""What proves to a server who we are; `user` may be `DOMAIN\user`.

    Kerberos takes `user@REALM` as well, and without a password the tickets that `kinit` has left.
    Inside `negotiate` it is Kerberos without a password, and NTLM with one.
    """

    def ntlm() -> NtlmInitiator:
        account = Account(*split_user(user), nt_hash(password))
        challenge, key = random_bytes(CHALLENGE_SIZE), random_bytes(KEY_SIZE)
        return NtlmInitiator(account, host, challenge, key, filetime)

    def kerberos() -> KerberosInitiator:
        name, domain = split_user(user)
        principal = f"{name}@{domain.upper()}" if domain else name
        return KerberosInitiator(principal, password, host)

    auth_type_of(mechanism)
    if mechanism == "ntlm":
        return ntlm()
    if mechanism == "kerberos":
        return kerberos()
    makes: dict[bytes, Make] = {spnego_tokens.NTLM_OID: ntlm}
    if not password:
        makes = {spnego_tokens.KERBEROS_OID: kerberos}
    return SpnegoInitiator(makes)
