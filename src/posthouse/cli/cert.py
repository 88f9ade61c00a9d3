"""`posthouse cert`: certificates of users, keys of queue managers."""

from __future__ import annotations

import getpass
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, cast

import msgspec
import typer

from posthouse.api.certificates import (
    DAYS_MAX,
    FILE_SIZE_MAX,
    CertificateImportBody,
    CertificateJson,
    CertificateListJson,
    CertificateMakeBody,
    CertificateTrustBody,
    MachineKeysJson,
    UserKeysJson,
)
from posthouse.api.types import Done
from posthouse.cli.command import DryRun, Yes, confirm, group, guid, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.model.errors import StatusNotFound
from posthouse.net.control_socket import default_home
from posthouse.security.tls_certificates import make_tls_files

# Of `--tls`.
TLS_FOLDER: Final = "keys"
CERTIFICATE: Final = "tls.pem"
PRIVATE_KEY: Final = "tls.key"
_TLS_SECTIONS: Final = {
    "admin": '# Management from other machines; listen = "0.0.0.0" lets them in',
    "https": "# Messages over HTTPS",
}
TLS_DAYS_MAX: Final = 825  # more is refused by some clients

KEY_BITS: Final = (1024, 2048, 3072, 4096)
PASSWORD_LENGTH_MAX: Final = 1024

FileName = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="File in PEM, DER or PKCS #12; - reads standard input."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Certificates and keys: create, import, list, export, trust, delete."
    inner = group(app, "cert", "Users", summary)
    inner.command("create")(make)
    inner.command("import")(import_certificate)
    inner.command("list")(list_certificates)
    inner.command("export")(export)
    inner.command("trust")(trust)
    inner.command("delete")(remove)


@talking
def make(
    remote: Remote,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="NAME",
            help="User to make the certificate for (default: this machine).",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            "--days", min=1, max=DAYS_MAX, help="Days for which the certificate is valid."
        ),
    ] = 3650,
    bits: Annotated[
        int | None, typer.Option("--bits", help="Size of the RSA keys in bits, 1024 to 4096.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace existing keys. Messages encrypted for the old keys can no longer be "
            "read.",
        ),
    ] = False,
    tls: Annotated[
        list[str] | None,
        typer.Option(
            "--tls",
            metavar="HOST",
            help="Make a certificate for HTTPS with this name or address; repeat it for several.",
        ),
    ] = None,
) -> None:
    """Make a certificate with which a user signs messages, or the keys of this queue manager.

    Private keys stay in the home, encrypted with its key file keys/seal.key. Without --user, the
    command makes the keys that others use to encrypt messages to this queue manager; `cert export`
    prints the public ones. With --tls, it writes keys/tls.pem and keys/tls.key into the home and
    prints the sections admin and https that use them; the queue manager need not run.

    Example: posthouse cert create --user alice
    """
    if tls:
        if user is not None or bits is not None:
            raise typer.BadParameter("--tls cannot be combined with --user or --bits")
        make_tls(remote, tls, days, replace=replace)
        return
    if bits is not None and bits not in KEY_BITS:
        raise typer.BadParameter(f"keys have {', '.join(map(str, KEY_BITS))} bits")
    chosen = cast("Literal[1024, 2048, 3072, 4096] | None", bits)
    body = CertificateMakeBody(user=user, days=days, bits=chosen, replace=replace)
    _tell(remote, remote.ask(CertificateJson, "POST", path_of("certificates"), body=body))


@talking
def import_certificate(
    remote: Remote,
    file: FileName,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="User who owns the certificate.")
    ],
    password: Annotated[
        bool, typer.Option("--password", help="Ask for the password of the file.")
    ] = False,
) -> None:
    """Register a certificate of a user; with its private key, messages can be signed here.

    The password of an encrypted file is read from standard input; on a terminal it is asked for.

    Example: posthouse cert import alice.p12 --user alice --password < password.txt
    """
    if password and str(file) == "-":
        raise typer.BadParameter(
            "the password is read from standard input, so the certificate cannot be; give FILE"
        )
    body = CertificateImportBody(file=_read(file), password=_read_password() if password else None)
    path = path_of("users", user, "certificates")
    _tell(remote, remote.ask(CertificateJson, "POST", path, body=body))


def _read(file: Path) -> bytes:
    if str(file) == "-":
        data = sys.stdin.buffer.read(FILE_SIZE_MAX + 1)
    else:
        with file.open("rb") as opened:
            data = opened.read(FILE_SIZE_MAX + 1)
    if not data or len(data) > FILE_SIZE_MAX:
        raise typer.BadParameter(f"the file has to have 1 to {FILE_SIZE_MAX:,} bytes")
    return data


def _read_password() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("Password of the file: ")
    line = sys.stdin.readline(PASSWORD_LENGTH_MAX + 2).rstrip("\r\n")
    if not line or len(line) > PASSWORD_LENGTH_MAX:
        raise typer.BadParameter("standard input holds no password")
    return line


def _tell(remote: Remote, made: CertificateJson) -> None:
    if remote.json:
        print_json(made)
    else:
        say(f"{made.owner}  {made.id}  {_described(made)}")


def _described(one: CertificateJson) -> str:
    words = [] if one.key_bits is None else [f"RSA {one.key_bits}"]
    words += [] if one.not_after is None else [f"until {one.not_after[:10]}"]
    words += ["internal"] if one.internal else []
    words += ["private key here"] if one.private_key else []
    words += [f"{len(one.providers)} public keys"] if one.providers else []
    return ", ".join(words)


@talking
def list_certificates(remote: Remote) -> None:
    """List the certificates of users and the keys of queue managers.

    Example: posthouse cert list
    """
    found = _certificates(remote)
    if remote.json:
        for one in found:
            print_json(one)
        return
    rows = ((one.kind, one.owner, one.id, one.subject or "", _described(one)) for one in found)
    print_table("", ("kind", "owner", "id", "subject", "has"), rows)


def _certificates(remote: Remote) -> list[CertificateJson]:
    return remote.ask(CertificateListJson, "GET", path_of("certificates")).certificates


@talking
def export(
    remote: Remote,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="File to write (default: standard output)."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="NAME", help="Export the certificate that this user signs with."
        ),
    ] = None,
) -> None:
    """Write certificate and public keys of this queue manager, for `cert trust` on another one.

    With --user it writes the certificate of a user, which the other queue manager needs to verify
    signatures. The file is not secret, but it must arrive unchanged.

    Example: posthouse cert export alpha.json
    """
    keys: MachineKeysJson | UserKeysJson
    if user is None:
        keys = remote.ask(MachineKeysJson, "GET", path_of("machine-keys"))
        who = {"name": keys.name, "guid": keys.guid}
    else:
        keys = _keys_of(remote, user)
        who = {"name": keys.name, "sid": keys.sid}
    if file is None:
        print_json(keys)
        return
    file.write_bytes(msgspec.json.encode(keys) + b"\n")
    if remote.json:
        print_json({"file": str(file)} | who)
    else:
        say(f"The public keys of {keys.name} are in {file}.")


def _keys_of(remote: Remote, user: str) -> UserKeysJson:
    """The newest certificate of a user; one that they can sign with here goes first."""
    found = [one for one in _certificates(remote) if one.sid and one.owner.lower() == user.lower()]
    if not found:
        raise StatusNotFound(
            f"{user} has no certificate here", "Create one: posthouse cert create --user NAME."
        )
    best = max(found, key=lambda one: (one.private_key, one.created_time))
    assert best.sid is not None
    return UserKeysJson(name=best.owner, sid=best.sid, certificate=best.certificate)


@talking
def trust(
    remote: Remote,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Output of `cert export`, a certificate, or MQDSPUBLICKEYS; - reads standard "
            "input.",
        ),
    ],
    sid: Annotated[
        str | None,
        typer.Option(
            "--sid",
            metavar="SID",
            help="SID of the user, on another system, who owns the certificate.",
        ),
    ] = None,
    identifier: Annotated[
        str | None,
        typer.Option(
            "--guid", metavar="GUID", help="GUID of the queue manager that owns the keys."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Computer name of that queue manager."),
    ] = None,
) -> None:
    """Trust the keys of another queue manager, or a certificate of one of its users.

    Example: posthouse cert trust beta.json
    """
    data = _read(file)
    if sid is not None:
        body = CertificateTrustBody(sid=sid, certificate=data)
    elif identifier is not None or name is not None:
        body = _of_machine(data, identifier, name)
    else:
        body = _of_export(data)
    path = path_of("trust")
    _tell(remote, remote.ask(CertificateJson, "POST", path, body=body))


def _of_machine(data: bytes, identifier: str | None, name: str | None) -> CertificateTrustBody:
    """A file of Windows: MQDSPUBLICKEYS begins with its own size."""
    if identifier is None or name is None:
        raise typer.BadParameter("--guid and --name go together")
    keys = int.from_bytes(data[:4], "little") == len(data)
    return CertificateTrustBody(
        guid=guid(identifier),
        name=name,
        certificate=None if keys else data,
        public_keys=data if keys else None,
    )


def _of_export(data: bytes) -> CertificateTrustBody:
    kinds: tuple[type[MachineKeysJson | UserKeysJson], ...] = (MachineKeysJson, UserKeysJson)
    for kind in kinds:
        try:
            keys = msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        return _body_of(keys)
    raise typer.BadParameter(
        "the file is not one of `cert export`; name its owner with --sid, or with --guid and --name"
    )


def _body_of(keys: MachineKeysJson | UserKeysJson) -> CertificateTrustBody:
    if isinstance(keys, UserKeysJson):
        return CertificateTrustBody(sid=keys.sid, certificate=keys.certificate)
    return CertificateTrustBody(
        guid=guid(keys.guid),
        name=keys.name,
        certificate=keys.certificate or None,
        public_keys=keys.public_keys or None,
    )


@talking
def remove(
    remote: Remote,
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="Digest or GUID, as `cert list` shows it.")
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a certificate, or the keys of a queue manager. They are no longer trusted.

    Example: posthouse cert delete 0123456789abcdef0123456789abcdef --yes
    """
    wanted = identifier.strip("{}").lower()
    found = [one for one in _certificates(remote) if one.id == wanted]
    if not found:
        raise StatusNotFound(
            "there is no such certificate", "`posthouse cert list` shows the certificates."
        )
    if dry_run:
        _tell(remote, found[0])
        return
    confirm(lambda: f"Stop trusting this certificate of {found[0].owner}?", yes)
    done = remote.ask(Done, "DELETE", path_of("certificates", wanted))
    if remote.json:
        print_json(done)
    else:
        say(f"{wanted} of {found[0].owner} is no longer trusted.")


def make_tls(remote: Remote, hosts: list[str], days: int, *, replace: bool) -> None:
    """Writes certificate and key, and states which settings use them."""
    if remote.url is not None:
        raise typer.BadParameter(
            "--tls writes files into a home on this machine; give --home, not --url"
        )
    folder = (remote.home or default_home()) / TLS_FOLDER
    certificate, key = folder / CERTIFICATE, folder / PRIVATE_KEY
    for file in (certificate, key):
        if file.exists() and not replace:
            raise typer.BadParameter(f"{file} already exists; --replace makes it again")
    made = make_tls_files(hosts, int(datetime.now(UTC).timestamp()), min(days, TLS_DAYS_MAX))
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # a new home is private at once
    if not folder.exists():
        folder.mkdir(mode=0o700)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        _give(opened, folder.parent)
        os.close(opened)
    _write(certificate, made.certificate)
    _write(key, made.private_key)
    shown = {
        "certificate": f"{TLS_FOLDER}/{CERTIFICATE}",
        "private_key": f"{TLS_FOLDER}/{PRIVATE_KEY}",
    }
    if remote.json:
        print_json({"hosts": hosts, "file": str(certificate)} | shown)
        return
    say(f"{certificate} is a certificate for {', '.join(hosts)}. Put into posthouse.toml:")
    for section, purpose in _TLS_SECTIONS.items():
        for line in ("", purpose, f"[{section}]", *(f'{name} = "{shown[name]}"' for name in shown)):
            say(line)
    say("")
    say("To trust it, senders name a copy of that file in [srmp] authorities, and commands with ")
    say("--ca-file. It holds no secret. A queue manager that uses it already reads it again.")


def _write(path: Path, data: bytes) -> None:
    """No other user can read it, not even for a moment."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        _give(file.fileno(), path.parent)
        file.write(data)
    temporary.replace(path)


def _give(made: int, folder: Path) -> None:
    """Let the service use what root makes in its home: a file or folder, by its descriptor."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(made, owner.st_uid, owner.st_gid)
