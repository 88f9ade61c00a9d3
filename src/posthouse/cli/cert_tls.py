"""`posthouse cert create --tls`: a certificate for HTTPS, as files in the home."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from posthouse.cli.connection import Remote
from posthouse.cli.output import print_json, say
from posthouse.net.control_socket import default_home
from posthouse.security.tls_certificates import make_tls_files

FOLDER: Final = "keys"
CERTIFICATE: Final = "tls.pem"
PRIVATE_KEY: Final = "tls.key"
DAYS_MAX: Final = 825  # more is refused by some clients


def make_tls(remote: Remote, hosts: list[str], days: int, *, replace: bool) -> None:
    """Writes certificate and key, and states which settings use them."""
    if remote.url is not None:
        raise typer.BadParameter(
            "--tls writes files into a home on this machine; give --home, not --url"
        )
    folder = (remote.home or default_home()) / FOLDER
    certificate, key = folder / CERTIFICATE, folder / PRIVATE_KEY
    for file in (certificate, key):
        if file.exists() and not replace:
            raise typer.BadParameter(f"{file} is there already; --replace makes it again")
    made = make_tls_files(hosts, int(datetime.now(UTC).timestamp()), min(days, DAYS_MAX))
    for path in (folder.parent, folder):  # a new home is private from its first moment on
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(certificate, made.certificate)
    _write(key, made.private_key)
    shown = {"certificate": f"{FOLDER}/{CERTIFICATE}", "private_key": f"{FOLDER}/{PRIVATE_KEY}"}
    if remote.json:
        print_json({"hosts": hosts, "file": str(certificate)} | shown)
        return
    say(f"{certificate} is a certificate for {', '.join(hosts)}. Put into posthouse.toml:")
    for line in ("", "[https]", *(f'{name} = "{value}"' for name, value in shown.items()), ""):
        say(line)
    say("Senders trust it by [srmp] authorities with a copy of that file, which holds no secret.")


def _write(path: Path, data: bytes) -> None:
    """No other user can read it, not even for a moment."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)
