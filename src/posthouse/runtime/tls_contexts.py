"""TLS from the certificate files of the settings: for listeners, and for calls to others.

`serve` makes each context at its start and again when its files change; `config check` makes them
to find out what would keep a start from succeeding. Nothing here keeps a context.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from posthouse.protocols.srmp.settings import HttpsSettings, SrmpSettings
from posthouse.runtime.listen_errors import NotStarted
from posthouse.runtime.settings.settings import Settings

_VERIFICATION = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class TlsUse(NamedTuple):
    """One place where the settings name certificate files; `use` is its word in metrics.

    `make` raises NotStarted where the files cannot be used. It is None where each new connection
    reads them by itself. `certificate` is the own one, whose end is watched.
    """

    use: str
    setting: str
    certificate: Path | None
    files: tuple[Path, ...]
    make: Callable[[], ssl.SSLContext] | None


def tls_uses(settings: Settings, home: Path) -> Iterator[TlsUse]:
    """Yield each place where the settings name certificate files; paths start at the home."""
    admin, https, srmp = settings.admin, settings.https, settings.srmp
    if admin.enabled and admin.certificate:
        pair = home / admin.certificate, home / admin.private_key
        make = partial(_server_context, "[admin] certificate", *pair)
        yield TlsUse("admin", "[admin] certificate", pair[0], pair, make)
    if https.certificate:
        names = https.certificate, https.private_key, https.client_authorities
        files = tuple(home / name for name in names if name)
        make = partial(_https_context, https, home)
        yield TlsUse("https", "[https] certificate", files[0], files, make)
    if has_srmp(settings):
        names = srmp.client_certificate, srmp.client_key, srmp.authorities
        files = tuple(home / name for name in names if name)
        own = files[0] if srmp.client_certificate else None
        make = partial(_trust_context, srmp, home)
        yield TlsUse("srmp", "[srmp] client_certificate", own, files, make)
    named = settings.transactions.peer_authorities
    files = (home / named,) if named else ()
    make = partial(_peer_context, files)
    yield TlsUse("transactions", "[transactions] peer_authorities", None, files, make)
    if client := settings.directory.ldap.certificate_file:
        setting = "[directory.ldap] certificate_file"
        yield TlsUse("directory", setting, Path(client), (Path(client),), None)


def has_http(settings: Settings) -> bool:
    """Return whether the endpoint `http` opens: on a hardened machine (3.1.1.1) it does not."""
    return settings.http.enabled and not settings.queue_manager.hardened


def has_srmp(settings: Settings) -> bool:
    """Return whether messages travel over HTTP: without a listener no receipt would come back."""
    return has_http(settings) or bool(settings.https.certificate)


def _server_context(setting: str, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(setting, context, certificate, key)
    return context


def _https_context(section: HttpsSettings, home: Path) -> ssl.SSLContext:
    pair = home / section.certificate, home / section.private_key
    context = _server_context("[https] certificate", *pair)
    if section.client_authorities:
        _trust("[https] client_authorities", context, home / section.client_authorities)
    context.verify_mode = _VERIFICATION[section.client_verification]
    return context


def _trust_context(section: SrmpSettings, home: Path) -> ssl.SSLContext:
    """TLS of connections to others; by default their certificates are checked."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if section.authorities:
        _trust("[srmp] authorities", context, home / section.authorities)
    if section.client_certificate:
        files = home / section.client_certificate, home / section.client_key
        _load("[srmp] client_certificate", context, *files)
    if not section.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _peer_context(authorities: tuple[Path, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for file in authorities:
        _trust("[transactions] peer_authorities", context, file)
    return context


def _load(setting: str, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _readable(setting, certificate, key)
    try:
        # Without a password an encrypted key would be asked for at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise NotStarted(
            f"{setting} cannot be used: {certificate} with the key {key}: {_fault(error)}"
        ) from None


def _trust(setting: str, context: ssl.SSLContext, authorities: Path) -> None:
    _readable(setting, authorities)
    try:
        context.load_verify_locations(authorities)
    except OSError as error:
        raise NotStarted(f"{setting} cannot be used: {authorities}: {_fault(error)}") from None


def _readable(setting: str, *files: Path) -> None:
    """Refuse a file that cannot be read by its name, which OpenSSL leaves out of its errors."""
    for file in files:
        try:
            file.open("rb").close()
        except OSError as error:
            raise NotStarted(
                f"{setting} cannot be used: {file}: {error.strerror or error}"
            ) from None


def _fault(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if isinstance(error, ssl.SSLError) and reason in (None, "NO_CERTIFICATE_OR_CRL_FOUND"):
        return "it is not in PEM form, or its key is encrypted"
    return str(error)
