"""The certificates of the settings while a queue manager runs: read again when their files change.

Listeners and calls to others get their TLS here, and get it again when a file was replaced, within
`LOOK_S` or at SIGHUP. Files that cannot be used change nothing: what was read before stays in use,
and the log and the list of problems name the fault. An operator learns of a certificate that ends
before its clients do.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from posthouse.model.text import counted
from posthouse.runtime.listen_errors import NotStarted
from posthouse.runtime.logs import Log
from posthouse.runtime.settings.settings import Settings
from posthouse.runtime.tls_contexts import TlsUse, tls_uses

LOOK_S: Final = 10.0
WARNED_S: Final = 30 * 86_400
REPLACED: Final = "It is read again by itself when it is replaced"

Stamp = tuple[int, int, int] | None
Take = Callable[[ssl.SSLContext], None]


class _Held:
    """The files of one use, as they were read."""

    def __init__(self, use: TlsUse) -> None:
        self.use = use
        self.stamps = _stamps(use.files)
        self.context = None if use.make is None else use.make()
        self.valid = _validity(use.certificate)
        self.fault = ""
        self.warned = ""
        self.takes: list[Take] = []

    def renew(self) -> None:
        """Read the files again; raises NotStarted where they cannot be used."""
        if self.use.make is not None:
            self.context = self.use.make()
            for take in self.takes:
                take(self.context)
        self.valid = _validity(self.use.certificate)

    def warning(self, utc_s: float) -> str:
        """Return the words about the end of the certificate; empty while it is far away."""
        if self.valid is None:
            return ""
        begin_s, end_s = self.valid
        left_s = end_s - utc_s
        # A short certificate is renewed late by design: a third of its life is a warning, too.
        if left_s > min(WARNED_S, (end_s - begin_s) / 3):
            return ""
        end = datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if left_s <= 0:
            return f"{self.use.setting}: {self.use.certificate} has expired on {end}"
        days = counted(int(left_s // 86_400), "day")
        return f"{self.use.setting}: {self.use.certificate} expires in {days}, on {end}"


class CertificateWatch:
    """The TLS of each use. Raises NotStarted where files cannot be used at the start."""

    def __init__(
        self, settings: Settings, home: Path, log: Log, utc_s: Callable[[], float] = time.time
    ) -> None:
        self._log = log
        self._utc_s = utc_s
        self._held = {use.use: _Held(use) for use in tls_uses(settings, home)}
        self.look()

    def context(self, use: str) -> ssl.SSLContext | None:
        """Return the TLS of a use; None where the settings name no files for it."""
        held = self._held.get(use)
        return None if held is None else held.context

    def give(self, use: str, take: Take) -> None:
        """Hand over the TLS of a use, now and whenever its files were replaced."""
        held = self._held.get(use)
        if held is not None and held.context is not None:
            held.takes.append(take)
            take(held.context)

    def watch(self, later: Callable[[float, Callable[[], None]], Any]) -> None:
        """Look at the files every `LOOK_S`."""

        def look() -> None:
            self.look()
            later(LOOK_S, look)

        later(LOOK_S, look)

    def look(self) -> None:
        """Read files again that have changed, and log what is new about each certificate."""
        for held in self._held.values():
            stamps = _stamps(held.use.files)
            # Rights may be corrected without a new stamp.
            if held.fault or stamps != held.stamps:
                held.stamps = stamps
                self._renew(held)
            warning = held.warning(self._utc_s())
            if warning != held.warned:
                held.warned = warning
                if warning:
                    self._log.warning("certificate_expires", use=held.use.use, cause=warning)

    def _renew(self, held: _Held) -> None:
        try:
            held.renew()
        except NotStarted as error:
            if held.fault != str(error):
                held.fault = str(error)
                self._log.warning("certificate_refused", use=held.use.use, cause=error)
        else:
            held.fault = ""
            self._log.info("certificate_renewed", use=held.use.use, files=len(held.use.files))

    def left_s(self) -> Iterator[tuple[str, float]]:
        """Yield each use that has a certificate, with the seconds until it expires."""
        for name, held in self._held.items():
            if held.valid is not None:
                yield name, held.valid[1] - self._utc_s()

    def problems(self) -> list[str]:
        """Return a line for each certificate that ends soon, and for files that are refused."""
        lines = []
        for held in self._held.values():
            if held.fault:
                lines.append(
                    f"{held.fault}. The files that were read before are still in use. Correct "
                    "them: they are read again by themselves"
                )
            if warning := held.warning(self._utc_s()):
                lines.append(f"{warning}. {REPLACED}")
        return lines


def _stamps(files: tuple[Path, ...]) -> list[Stamp]:
    """Return what changes when files are replaced; links are followed."""
    found: list[Stamp] = []
    for file in files:
        try:
            one = os.stat(file)  # noqa: PTH116 - faster, every few seconds
        except OSError:
            found.append(None)
        else:
            found.append((one.st_ino, one.st_size, one.st_mtime_ns))
    return found


def _validity(certificate: Path | None) -> tuple[float, float] | None:
    """Return begin and end of the first certificate in a file, in seconds of UTC."""
    if certificate is None:
        return None
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return None
    return found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
