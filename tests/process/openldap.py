"""An OpenLDAP server of our own in a temporary folder, with the schema of message queues."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import posthouse.directory
from benchmarks.peers.server import is_open
from posthouse.directory.ldap.names import Dn
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.runtime.ldap.connection import LdapConnection
from tests.process.nginx import make_certificate
from tests.process.offices import free_port, wait_until

HOST = "127.0.0.1"
ROOT = "DC=posthouse"
ADMIN = f"CN=admin,{ROOT}"
PASSWORD = "no secret"
SCHEMAS = ("core", "cosine", "inetorgperson", "nis", "msuser")
OUR_SCHEMA = Path(posthouse.directory.__file__).parent / "schema" / "posthouse.schema"
CONFIGURATION = """
{includes}
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
TLSCertificateFile {folder}/certificate.pem
TLSCertificateKeyFile {folder}/key.pem
TLSCACertificateFile {folder}/certificate.pem
TLSVerifyClient try
sasl-host localhost
sasl-secprops noanonymous
password-hash {{CLEARTEXT}}
authz-regexp "gidNumber=.*uidNumber=.*,cn=peercred,cn=external,cn=auth" "{admin}"
authz-regexp "cn=localhost" "{admin}"
authz-regexp "uid=([^,/]*).*,cn=auth" "cn=$1,{root}"
sizelimit {size_limit}
database mdb
maxsize 1073741824
suffix "{root}"
rootdn "{admin}"
rootpw "{password}"
directory {folder}/data
dbnosync
index objectClass eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=manager,{root}" write by * read
"""


class OpenLdap:
    """Stands where it was put until it is stopped; what it holds stays."""

    def __init__(self, folder: Path, size_limit: str = "unlimited") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir()
        self.folder = folder
        self.port, self.tls_port = free_port(), free_port()
        self.url = f"ldap://localhost:{self.port}"
        self.tls_url = f"ldaps://localhost:{self.tls_port}"
        self.socket_url = f"ldapi://{quote(str(folder / 'socket'), safe='')}"
        self.certificate = folder / "certificate.pem"
        self.key = folder / "key.pem"
        self.password_file = folder / "password"
        make_certificate(self.certificate, self.key)
        self.password_file.write_text(PASSWORD + "\n")
        self.password_file.chmod(0o600)
        self._process: subprocess.Popen[bytes] | None = None
        paths = [f"/etc/ldap/schema/{name}.schema" for name in SCHEMAS]
        (folder / "slapd.conf").write_text(
            CONFIGURATION.format(
                includes="\n".join(f"include {path}" for path in [*paths, OUR_SCHEMA]),
                folder=folder,
                root=ROOT,
                admin=ADMIN,
                password=PASSWORD,
                size_limit=size_limit,
            )
        )

    def start(self) -> None:
        """Begins to listen."""
        program = shutil.which("slapd", path=os.environ["PATH"] + ":/usr/sbin")
        assert program is not None
        urls = f"ldap://{HOST}:{self.port} ldaps://{HOST}:{self.tls_port} {self.socket_url}"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-d", "0", "-f", str(self.folder / "slapd.conf"), "-h", urls],
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: is_open(self.port) and is_open(self.tls_port), self.log)
        with self.connected() as connection:
            if connection.get(ROOT, ["objectClass"]) is None:
                connection.add(Dn.parse(ROOT), ["domain"], {"dc": [b"posthouse"]})

    def stop(self) -> None:
        """Is gone, as after a fault."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Listens, and says nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Does what it was asked meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def settings(self, **changes: Any) -> LdapSettings:
        """How a queue manager reaches it, as its administrator unless told otherwise."""
        usual: dict[str, Any] = {
            "url": self.url,
            "ca_file": str(self.certificate),
            "authentication": "simple",
            "user": ADMIN,
            "password_file": str(self.password_file),
        }
        return LdapSettings(**(usual | changes))

    @contextmanager
    def connected(self, **changes: Any) -> Iterator[LdapConnection]:
        """A connection for looking behind the scenes."""
        connection = LdapConnection(self.settings(**changes))
        try:
            yield connection
        finally:
            connection.close()

    def places(self) -> list[Dn]:
        """Every entry below the root, leaves first."""
        with self.connected(url=self.socket_url) as connection:
            return places_in(connection)

    def wipe(self, connection: LdapConnection) -> None:
        """Empty again."""
        for dn in places_in(connection):
            connection.delete(dn)


def places_in(connection: LdapConnection) -> list[Dn]:
    """Every entry below the root, leaves first."""
    found = [one.dn for one in connection.search(ROOT, "(!(objectClass=domain))", ["1.1"])]
    return sorted(found, key=lambda dn: -len(dn.parts))


@contextmanager
def openldap(folder: Path, size_limit: str = "unlimited") -> Iterator[OpenLdap]:
    """A server that runs for a while."""
    server = OpenLdap(folder, size_limit)
    server.start()
    try:
        yield server
    finally:
        server.stop()
