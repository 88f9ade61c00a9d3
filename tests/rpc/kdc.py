"""A key distribution center of the distribution, with a realm of its own in a temporary folder."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REQUIRE_PEERS

REALM = "POSTHOUSE.TEST"
ELSEWHERE = "ELSEWHERE.TEST"  # a realm that ours trusts
HOST = "localhost"  # which leads somewhere
PASSWORDS = {"alice": "Grüße 1!", "bob": "secret", "carol/admin": "secret"}
FOLDERS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

CLIENT = """
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
 {elsewhere} = {{
  kdc = 127.0.0.1:{port}
 }}
[capaths]
 {elsewhere} = {{
  {realm} = .
 }}
[domain_realm]
 {host} = {realm}
"""
SERVER = """
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
 }}
 {elsewhere} = {{
  database_name = {folder}/elsewhere
  key_stash_file = {folder}/stash.elsewhere
 }}
"""


class Kdc:
    """The realm, its users, and the key table of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keytab = folder / "keytab"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        values = {
            "realm": REALM,
            "elsewhere": ELSEWHERE,
            "host": HOST,
            "port": port,
            "folder": folder,
        }
        (folder / "krb5.conf").write_text(CLIENT.format(**values))
        (folder / "kdc.conf").write_text(SERVER.format(**values))
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'tickets'}",
            "KRB5RCACHENAME": f"dfl:{folder}",
            "KRB5RCACHEDIR": str(folder),
        }
        for realm in (REALM, ELSEWHERE):
            self._run("kdb5_util", "create", "-s", "-r", realm, "-P", "master")
            self._add(realm, f"krbtgt/{REALM}@{ELSEWHERE}", "-pw", "trust")
            for user, password in PASSWORDS.items():
                self._add(realm, user, "-pw", password)
        self._add(REALM, f"host/{HOST}", "-randkey")
        self._run("kadmin.local", "ktadd", "-k", str(self.keytab), f"host/{HOST}")
        # Returns when it listens.
        self._run("krb5kdc", "-r", REALM, "-r", ELSEWHERE, "-P", str(folder / "pid"))

    def _add(self, realm: str, principal: str, *key: str) -> None:
        self._run("kadmin.local", "-r", realm, "addprinc", *key, principal)

    def _run(self, *command: str, given: str | None = None) -> None:
        environment = {**os.environ, **self.environment, "PATH": FOLDERS}
        subprocess.run(
            command, env=environment, input=given, text=True, check=True, capture_output=True
        )

    def keytab_of(self, principal: str) -> Path:
        """A new principal, and the table with its key."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._add(REALM, principal, "-randkey")
        self._run("kadmin.local", "ktadd", "-k", str(path), principal)
        return path

    def log_in(self, user: str) -> None:
        """Gets a ticket into the cache, as a person does."""
        self._run("kinit", f"{user}@{REALM}", given=PASSWORDS[user] + "\n")

    def ticket_for_server(self) -> Path:
        """Gets one for the server, too; returns the cache that both are in."""
        self._run("kvno", f"host/{HOST}")
        return self.folder / "tickets"

    def stop(self) -> None:
        """Ends the server that was started here."""
        os.kill(int((self.folder / "pid").read_text()), signal.SIGTERM)


def need_gssapi() -> None:
    """A test that comes here is skipped without the extra, and fails where peers are required."""
    if importlib.util.find_spec("gssapi") is None:
        why = "gssapi is not installed (make kerberos, behind make peers)"
        if REQUIRE_PEERS:
            pytest.fail(why)
        pytest.skip(why)
