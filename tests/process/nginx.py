"""nginx in front of a server: as a reverse proxy and as the end of its TLS."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from contextlib import ExitStack
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from benchmarks.peers.server import is_open
from tests.process.offices import free_port, wait_until
from tools import peers

HOST = "127.0.0.1"
# Towards the server: HTTP/1.0 with a connection for each request, as nginx does by itself, and
# HTTP/1.1 with connections that are kept.
CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 8m;
    upstream house {{ server {host}:{target}; keepalive 4; }}
    server {{
        listen {host}:{plain};
        location /msmq/ {{ proxy_pass http://{host}:{target}; }}
    }}
    server {{
        listen {host}:{tls} ssl;
        ssl_certificate {folder}/certificate.pem;
        ssl_certificate_key {folder}/key.pem;
        location /msmq/ {{
            proxy_pass http://house;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


class Nginx:
    """Runs until the end of the test; passes on what comes for `/msmq/`."""

    def __init__(self, folder: Path, target: int, running: ExitStack) -> None:
        folder.mkdir()
        self.plain, self.tls = free_port(), free_port()
        self.certificate = folder / "certificate.pem"
        self._folder = folder
        make_certificate(self.certificate, folder / "key.pem")
        file = folder / "nginx.conf"
        file.write_text(
            CONFIGURATION.format(
                folder=folder, host=HOST, plain=self.plain, tls=self.tls, target=target
            )
        )
        program = peers.PEERS["nginx"].program
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-c", str(file), "-e", str(folder / "error.log")], cwd=folder
        )
        running.callback(self._process.wait)
        running.callback(self._process.terminate)
        wait_until(lambda: is_open(self.plain) and is_open(self.tls), self.errors)

    def errors(self) -> str:
        return (self._folder / "error.log").read_text()

    def requests(self) -> list[str]:
        """What it passed on so far, one line each."""
        return (self._folder / "access.log").read_text().splitlines()


def make_certificate(
    certificate: Path, key: Path, given: ed25519.Ed25519PrivateKey | None = None
) -> None:
    """One for localhost that vouches for itself."""
    private = given or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, None if given else hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
