"""Kerberos, both ends, through `gssapi` and the library of the system ([MS-RPCE] 3.3.1.5.2.2).

The extra `kerberos` builds it against the system's Kerberos. The exchange is
the one of RPC, with three tokens instead of two (RFC 4757 calls it DCE style). Tickets are asked
for where an initiator begins, and the replay cache is written where an acceptor is asked: both are
the library's own business, and may take their time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.extras import install
from posthouse.rpc.pac import ATTRIBUTE, DomainUser, read_logon_info
from posthouse.rpc.security import BadProtection, Identity, Level, LoginRefused

OID: Final = "1.2.840.113554.1.2.2"
SERVICE: Final = "host"  # whose key every machine of a realm has
_FLAGS: Final = (
    "mutual_authentication",
    "replay_detection",
    "out_of_sequence_detection",
    "confidentiality",
    "integrity",
    "dce_style",
)
_FRAME: Final = bytes.fromhex("06092a864886f712010202 0100")  # whose token, and that it is a ticket
Vouch = Callable[[str, DomainUser | None], Identity | None]
"""The account of a user of our realm, who may be in a domain; None: they may not log in."""


class KerberosMissing(Exception):
    """The extra is not installed, or the library of the system does not work."""


def _library() -> Any:
    try:
        return import_module("gssapi")
    except (ImportError, OSError) as error:
        raise KerberosMissing(
            f"Kerberos needs the extra kerberos, which is not usable here: {error}. Install it "
            f"with: {install('kerberos')}"
        ) from None


class KerberosContext:
    """What both ends have in common: a context of the library."""

    mechanism = "kerberos"
    has_mic = True  # who speaks RPC signs the list of mechanisms with Kerberos, too

    def __init__(self) -> None:
        self._gssapi = _library()
        self._errors = self._gssapi.exceptions.GSSError
        self._context: Any = None
        self._over = False
        self._broken = False
        self._sizes: dict[Level, int] = {}
        self.identity: Identity | None = None
        self.complete = False

    def signature_size_at(self, level: Level) -> int:
        """Depends on the ticket's cipher, and on whether the body is encrypted."""
        if level not in self._sizes:
            self._sizes[level] = self._size_of(level)
        return self._sizes[level]

    def _size_of(self, level: Level) -> int:
        raw = self._gssapi.raw
        kind = raw.IOVBufferType
        if level >= Level.PRIVACY:
            buffers = raw.IOV(kind.header, b"", std_layout=False)
            raw.wrap_iov_length(self._context, buffers, confidential=True)
            return len(buffers[0].value)
        buffers = raw.IOV(b"", kind.mic_token, std_layout=False)
        raw.get_mic_iov_length(self._context, buffers)
        return len(buffers[1].value)

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        """As in SecurityContext; below PACKET there is no signature."""
        raw = self._gssapi.raw
        if level < Level.PACKET:
            return body, b""
        if level < Level.PRIVACY:
            return body, raw.get_mic(self._context, before + body + after)
        buffers = self._buffers(before, body, after, None)
        raw.wrap_iov(self._context, buffers, confidential=True)
        return buffers[1].value or b"", buffers[3].value

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        """As in SecurityContext. After one failed check every later one fails."""
        if level < Level.PACKET:
            return body
        if not self.complete or self._broken or not signature:
            raise BadProtection("no signature of Kerberos")
        self._broken = True
        try:
            clear = self._opened(level, before, body, after, signature)
        except self._errors:
            raise BadProtection("the signature does not fit") from None
        self._broken = False
        return clear

    def _opened(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        raw = self._gssapi.raw
        if level < Level.PRIVACY:
            raw.verify_mic(self._context, before + body + after, signature)
            return body
        buffers = self._buffers(before, body, after, signature)
        if not raw.unwrap_iov(self._context, buffers).encrypted:
            raise BadProtection("the body was not encrypted")
        return buffers[1].value or b""

    def _buffers(self, before: bytes, body: bytes, after: bytes, signature: bytes | None) -> Any:
        raw = self._gssapi.raw
        kind = raw.IOVBufferType
        return raw.IOV(
            (kind.sign_only, False, before),
            (kind.data, False, body),
            (kind.sign_only, False, after),
            (kind.header, signature is None, signature),
            std_layout=False,
        )

    def sign(self, message: bytes) -> bytes:
        """The mechListMIC of SPNEGO."""
        signature: bytes = self._gssapi.raw.get_mic(self._context, message)
        return signature

    def verify(self, message: bytes, signature: bytes) -> None:
        """Checks the other end's mechListMIC; raises BadProtection."""
        self.unprotect(Level.INTEGRITY, b"", message, b"", signature)

    def _stepped(self, token: bytes | None) -> bytes | None:
        answer: bytes | None = self._context.step(token)
        self.complete = self._context.complete
        return answer


class KerberosService:
    """What a server accepts with: the keys of a key table."""

    def __init__(self, keytab: str) -> None:
        gssapi = _library()
        try:
            self.credentials = gssapi.Credentials(usage="accept", store={"keytab": keytab})
        except gssapi.exceptions.GSSError as error:
            raise KerberosMissing(f"the key table {keytab} cannot be used: {error}") from None

    def acceptor(self, vouch: Vouch) -> KerberosAcceptor:
        """A new exchange."""
        return KerberosAcceptor(self.credentials, vouch)


class KerberosAcceptor(KerberosContext):
    """The end that is shown a ticket."""

    def __init__(self, credentials: Any, vouch: Vouch) -> None:
        super().__init__()
        self._vouch = vouch
        self._context = self._gssapi.SecurityContext(creds=credentials, usage="accept")

    def step(self, token: bytes) -> bytes | None:
        """A ticket gives our proof; the initiator's answer to that ends it. One attempt."""
        if self._over or not token:
            raise LoginRefused("this exchange is over")
        self._over = True
        try:
            answer = self._stepped(_bare(token))
            if not self.complete:
                self._over = False
                return answer
            self.complete = False
            self.identity = self._identified()
            self._broken = not self._keeps_order()
        except self._errors as error:
            raise LoginRefused(f"Kerberos: {error}") from None
        self.complete = True
        return answer

    def _keeps_order(self) -> bool:
        """Whether changed and repeated messages are noticed, which is the initiator's choice.

        For the level CONNECT they may do without; then nothing is accepted at a higher one.
        """
        flags, wanted = self._context.actual_flags, self._gssapi.RequirementFlag
        return wanted.integrity in flags and wanted.out_of_sequence_detection in flags

    def _identified(self) -> Identity:
        """A user of our own realm who has an account; others may have the same name elsewhere."""
        user, _, realm = str(self._context.initiator_name).rpartition("@")
        own_realm = str(self._context.target_name).rpartition("@")[2]
        identity = self._vouch(user, self._domain_user()) if realm == own_realm else None
        if identity is None:
            raise LoginRefused("this user may not log in here")
        return identity

    def _domain_user(self) -> DomainUser | None:
        """The domain's facts about the user, if the ticket has it and its signature was verified.

        Libraries and realms without such information are usual: MIT's own realms have none.
        """
        try:
            found = self._gssapi.raw.get_name_attribute(self._context.initiator_name, ATTRIBUTE)
        except (AttributeError, NotImplementedError, self._errors):
            return None
        if not found.authenticated or len(found.values) != 1:
            return None
        try:
            return read_logon_info(found.values[0])
        except RemoteProtocolError as error:
            raise LoginRefused(f"Kerberos: {error}") from None


def _bare(token: bytes) -> bytes:
    """A ticket without the frame of RFC 4121 4.1 around it.

    In the exchange of RPC there is none, and the library minds; clients put one inside SPNEGO.
    """
    start = token[:20].find(_FRAME)
    return token[start + len(_FRAME) :] if token[:1] == b"\x60" and start > 0 else token


class KerberosInitiator(KerberosContext):
    """The end that has a ticket, or a password to get one with."""

    def __init__(self, user: str, password: str, host: str) -> None:
        super().__init__()
        self._user = user
        self._password = password
        self._host = host

    def step(self, token: bytes) -> bytes | None:
        """Nothing gives our ticket; the acceptor's proof is answered, and ends it."""
        if self._over:
            raise LoginRefused("this exchange is over")
        self._over = True
        try:
            if self._context is None:
                self._context = self._begun()
            answer = self._stepped(token or None)
        except self._errors as error:
            raise LoginRefused(f"Kerberos: {error}") from None
        self._over = self.complete
        return answer

    def _begun(self) -> Any:
        gssapi = self._gssapi
        mechanism = gssapi.OID.from_int_seq(OID)
        flags = [getattr(gssapi.RequirementFlag, name) for name in _FLAGS]
        server = _octets(f"{SERVICE}@{self._host}")
        return gssapi.SecurityContext(
            name=gssapi.Name(server, gssapi.NameType.hostbased_service),
            creds=self._credentials(mechanism),
            mech=mechanism,
            flags=flags,
            usage="initiate",
        )

    def _credentials(self, mechanism: Any) -> Any:
        """Those of the password; without one those that `kinit` has left."""
        if not self._password:
            return None
        gssapi = self._gssapi
        name = gssapi.Name(_octets(self._user), gssapi.NameType.user)
        found = gssapi.raw.acquire_cred_with_password(
            name, _octets(self._password), mechs=[mechanism], usage="initiate"
        )
        return found.creds


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
