"""What a start asks of files, addresses and libraries that the settings name.

`serve` calls these as it starts; `config check` calls all of them by `start_faults`, so that an
operator learns before a restart what would keep it from succeeding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posthouse.model.errors import QueueError
from posthouse.net.sockets import bound_sockets
from posthouse.protocols.handlers.content_view import parse_masks
from posthouse.protocols.http.settings import AdminSettings
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.rpc.kerberos import KerberosMissing, KerberosService
from posthouse.runtime.directory.authority import open_authority
from posthouse.runtime.listen_errors import NotStarted, cannot_listen
from posthouse.runtime.peer_questions import parse_peers
from posthouse.runtime.settings.settings import Settings
from posthouse.runtime.tls_contexts import has_http, tls_uses
from posthouse.runtime.winbind import WinbindMissing, load_library
from posthouse.security.peers import check_url

if TYPE_CHECKING:
    from posthouse.runtime.telemetry.span_queue import Exporter


def check_admin(section: AdminSettings) -> None:
    """Refuse masks and peers that cannot be understood."""
    try:
        parse_masks(section.masks)
        parse_peers(section.explain_peers)
    except QueueError as error:
        raise NotStarted(f"[admin]: {error.cause}. {error.remedy}") from None


def open_keytab(section: RemoteReadSettings, home: Path) -> KerberosService | None:
    """Return Kerberos with the key table of the settings; its path is relative to the home."""
    if not section.keytab:
        return None
    try:
        return KerberosService(str(home / section.keytab))
    except KerberosMissing as error:
        raise NotStarted(f"[rpc] keytab cannot be used: {error}") from None


def winbind_library(section: RemoteReadSettings) -> Any:
    """Return winbind's library, where the settings want it. Winbind itself may come later."""
    try:
        return load_library() if section.winbind else None
    except WinbindMissing as error:
        raise NotStarted(str(error)) from None


def span_exporter(settings: Settings, home: Path, name: str, version: str) -> Exporter | None:
    """Return what sends spans, where the settings name a collector."""
    if not settings.telemetry.endpoint:
        return None
    from posthouse.runtime.telemetry.tracing import TracingRefused, open_exporter

    try:
        return open_exporter(settings.telemetry, home, name, version)
    except (TracingRefused, OSError) as error:
        raise NotStarted(str(error)) from None


def peer_url(url: str) -> str:
    """Return the URL that peers are given as it is compared; empty where there is none."""
    try:
        return check_url(url) if url else ""
    except QueueError as error:
        raise NotStarted(f"[transactions] url: {error}") from None


def start_faults(settings: Settings, home: Path) -> list[str]:
    """Return everything that would keep a start from succeeding, apart from ports in use."""
    faults = []
    for check in _checks(settings, home):
        try:
            check()
        except NotStarted as error:
            faults.append(str(error))
        except QueueError as error:
            faults.append(f"{error.cause}. {error.remedy}")
    return faults


def _checks(settings: Settings, home: Path) -> Iterator[Callable[[], object]]:
    yield from (use.make for use in tls_uses(settings, home) if use.make is not None)
    yield lambda: check_admin(settings.admin)
    yield lambda: peer_url(settings.transactions.url)
    if settings.rpc.enabled and not settings.queue_manager.hardened:
        yield lambda: open_keytab(settings.rpc, home)
        yield lambda: winbind_library(settings.rpc)
    yield lambda: span_exporter(settings, home, "", "")
    yield lambda: open_authority(settings.directory, home)
    yield lambda: _check_log(settings.log.file, home)
    for endpoint, host in _addresses(settings):
        yield partial(_check_address, endpoint, host)


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    machine = settings.queue_manager
    if settings.admin.enabled:
        yield "admin", settings.admin.listen
    doors = {
        "binary": settings.binary.enabled and not machine.hardened,
        "http": has_http(settings),
        "https": bool(settings.https.certificate),
        "rpc": settings.rpc.enabled and not machine.hardened,
    }
    if door := next((name for name, opens in doors.items() if opens), None):
        yield door, machine.listen
    if settings.ncp.enabled and not machine.hardened:
        yield "ncp", settings.ncp.listen


def _check_address(endpoint: str, host: str) -> None:
    """Refuse an address of another machine. Ports may be those of the one that runs now."""
    try:
        for one in bound_sockets(host, 0):
            one.close()
    except OSError as error:
        raise NotStarted(cannot_listen(endpoint, host, 0, error)) from None


def _check_log(file: str, home: Path) -> None:
    """Refuse a log that could not be written, without making it."""
    if not file:
        return
    path = home / file
    with suppress(OSError):
        while not path.exists():
            path = path.parent
    if path == home / file:
        usable = path.is_file() and os.access(path, os.W_OK)
    else:
        usable = path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    if not usable:
        raise NotStarted(f"[log] file: {home / file} cannot be written")
