"""A domain controller of our own in a temporary folder: samba's, with the schema of the real one.

It has a network of its own, where it listens at the usual ports; we reach it by its socket.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from posthouse.directory.ldap.names import Dn
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.runtime.ldap.connection import LdapConnection
from tests.process.offices import wait_until

ROOT: Final = "DC=posthouse,DC=test"
USERS: Final = f"CN=Users,{ROOT}"
ADMIN: Final = f"CN=Administrator,{USERS}"
PASSWORD: Final = "Not-1-Secret"
FOLDERS = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin"
START: Final = 'ip link set lo up && exec "$0" "$@"'


class ActiveDirectory:
    """A domain with one site, an administrator, and whatever is entered."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.password_file = folder / "password"
        self.password_file.write_text(PASSWORD + "\n")
        self.password_file.chmod(0o600)
        self._socket = folder / "dc" / "private" / "ldapi"
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            *("samba-tool", "domain", "provision", f"--targetdir={folder / 'dc'}"),
            *("--realm=POSTHOUSE.TEST", "--domain=POSTHOUSE", "--server-role=dc"),
            *("--dns-backend=NONE", f"--adminpass={PASSWORD}", "--host-name=dc1"),
            *("--host-ip=127.0.0.1", "--option=interfaces=lo"),
            *("--option=bind interfaces only=yes", "--option=server services=ldap"),
        )

    def _run(self, *command: str) -> None:
        environment = {**os.environ, "PATH": FOLDERS}
        with self.log.open("ab") as log:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Begins to listen."""
        program = shutil.which("samba", path=FOLDERS)
        assert program is not None
        settings = self.folder / "dc" / "etc" / "smb.conf"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--net", "sh", "-c", START, program),
                    *("--foreground", "--model=single", "--no-process-group"),
                    *("--debug-stdout", f"--configfile={settings}"),
                    f"--option=pid directory={self.folder}",
                    f"--option=ncalrpc dir={self.folder / 'ncalrpc'}",
                    f"--option=log file={self.folder / 'samba.log'}",
                    # Passwords in clear text are for the socket.
                    "--option=ldap server require strong auth=no",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._socket.is_socket, self.log.read_text)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def settings(self, **changes: Any) -> LdapSettings:
        """How a queue manager reaches it, as an administrator of the domain."""
        usual: dict[str, Any] = {
            "url": f"ldapi://{quote(str(self._socket), safe='')}",
            "authentication": "simple",
            "user": ADMIN,
            "password_file": str(self.password_file),
        }
        return LdapSettings(**(usual | changes))

    def join(self, connection: LdapConnection, *names: str) -> None:
        """Computers become members of the domain."""
        for name in names:
            account = {"sAMAccountName": [f"{name}$".encode()], "userAccountControl": [b"4096"]}
            connection.add(Dn.parse(f"CN={name},CN=Computers,{ROOT}"), ["computer"], account)


@contextmanager
def active_directory(folder: Path) -> Iterator[ActiveDirectory]:
    """A domain controller that runs for a while."""
    server = ActiveDirectory(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
