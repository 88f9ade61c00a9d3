"""The login at a directory server with a Kerberos ticket: SASL GSSAPI (RFC 4752).

Needs the extra `kerberos`. The library for LDAP has such a login too; it stumbles over servers
that offer no sealing of their own because TLS does that, and takes a refusal for a token.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any, Final

import ldap3
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from ldap3.protocol.sasl.sasl import send_sasl_negotiation

from posthouse.directory.authority import AuthorityAway
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.model.extras import install

_IN_PROGRESS: Final = 14
_SUCCESS: Final = 0
_NO_LAYER: Final = 1
_ROUNDS_MAX: Final = 10
_WEAK: Final = ("md5", "sha1")


class KerberosConnection(ldap3.Connection):  # type: ignore[misc]
    """A connection that logs in with the ticket of this account, or with a key table."""

    def __init__(self, server: ldap3.Server, settings: LdapSettings, **options: Any) -> None:
        super().__init__(server, **options)
        self._settings = settings

    def do_sasl_bind(self, controls: Any) -> dict[str, Any]:
        """The whole negotiation; gives the last answer of the server."""
        gssapi = _library()
        try:
            return self._negotiated(gssapi, controls)
        except gssapi.exceptions.GSSError as error:
            raise AuthorityAway(f"Kerberos: {error}") from None

    def _negotiated(self, gssapi: Any, controls: Any) -> dict[str, Any]:
        context = gssapi.SecurityContext(
            name=gssapi.Name(f"ldap@{self.server.host}", gssapi.NameType.hostbased_service),
            mech=gssapi.MechType.kerberos,
            creds=credentials(gssapi, self._settings),
            flags=[
                gssapi.RequirementFlag.mutual_authentication,
                gssapi.RequirementFlag.integrity,
            ],
            channel_bindings=_bindings(gssapi, self.socket),
        )
        token: bytes | None = None
        for _ in range(_ROUNDS_MAX):
            answer = send_sasl_negotiation(self, controls, context.step(token) or b"")
            if answer["result"] != _IN_PROGRESS:
                return _refused(answer)
            token = answer["saslCreds"] or b""
            if context.complete:
                break
        offered = context.unwrap(token).message
        if len(offered) != 4 or not offered[0] & _NO_LAYER:
            raise AuthorityAway(
                "the server insists on sealing by Kerberos, which we leave to TLS: use ldaps://, "
                "or start_tls"
            )
        chosen = context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message
        last: dict[str, Any] = send_sasl_negotiation(self, controls, chosen)
        return last


def _refused(answer: dict[str, Any]) -> dict[str, Any]:
    """A server that is content before it has proved who it is, is not the one we mean."""
    if answer["result"] == _SUCCESS:
        raise AuthorityAway("the server has not proved by Kerberos who it is")
    return answer


def _library() -> Any:
    try:
        return import_module("gssapi")
    except ImportError as error:
        raise AuthorityAway(f"gssapi needs an extra: {install('kerberos')}: {error}") from None


def credentials(gssapi: Any, settings: LdapSettings) -> Any:
    """Those of the account that runs us; of a key table where one is named, renewed from it."""
    name = gssapi.Name(settings.user) if settings.user else None
    if not settings.keytab:
        return gssapi.Credentials(name=name, usage="initiate") if name else None
    own = hashlib.sha256(f"{settings.keytab}\0{settings.user}".encode()).hexdigest()[:16]
    store = {"client_keytab": f"FILE:{settings.keytab}", "ccache": f"MEMORY:posthouse-{own}"}
    return gssapi.Credentials(name=name, usage="initiate", store=store)


def _bindings(gssapi: Any, socket: Any) -> Any:
    """Ties the login to the TLS connection it is made over (RFC 5929 4.1); domains may ask so."""
    peer = getattr(socket, "getpeercert", None)
    if peer is None:
        return None
    return gssapi.raw.ChannelBindings(application_data=end_point(peer(True)))


def end_point(certificate: bytes) -> bytes:
    """What stands for a TLS connection: a digest of the server's certificate."""
    algorithm = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    if algorithm is None or algorithm.name in _WEAK:
        algorithm = hashes.SHA256()
    digest = hashes.Hash(algorithm)
    digest.update(certificate)
    return b"tls-server-end-point:" + digest.finalize()
