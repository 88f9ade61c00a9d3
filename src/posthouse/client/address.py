"""The address and credentials of a queue manager, from arguments and environment."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from posthouse.model.text import excerpt
from posthouse.net import control_socket as control
from posthouse.net.control_socket import default_home

ADMIN_PORT: Final = 8816
TOKEN_FILE: Final = "POSTHOUSE_TOKEN_FILE"
USER: Final = "POSTHOUSE_USER"
PASSWORD_FILE: Final = "POSTHOUSE_PASSWORD_FILE"


class Address(NamedTuple):
    """A control socket by its path, or an admin endpoint by host and port."""

    shown: str
    home: Path | None = None
    host: str = ""
    port: int = 0
    tls: bool = False
    token: str = ""
    user: str = ""
    password: str = ""

    @property
    def authorization(self) -> str:
        """The header of HTTP that proves who asks; empty: none is sent."""
        if self.token:
            return f"Bearer {self.token}"
        if not self.user:
            return ""
        return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")

    @property
    def socket_path(self) -> Path:
        """The control socket; looked for each time, as a server may have moved it."""
        assert self.home is not None
        return control.find(self.home)

    @property
    def host_header(self) -> str:
        """How the host is named in HTTP."""
        if self.home is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def resolve(
    home: str | os.PathLike[str] | None,
    url: str | None,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str] = os.environ,
    *,
    user: str | None = None,
    password: str | None = None,
) -> Address:
    """The address that these arguments mean; ValueError where they mean none."""
    if url is None:
        if token is not None or token_file is not None or user is not None:
            raise ValueError("a token or a user goes with url=; the control socket needs none")
        path = Path(home) if home is not None else default_home(environment)
        return Address(str(path), home=path)
    if home is not None:
        raise ValueError("give home= or url=, not both")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{excerpt(url)} is not an address; write http://host:{ADMIN_PORT}")
    if parts.username or parts.password:
        raise ValueError("an address carries no password; use token_file=, or user= and password=")
    if (user is None) != (password is None):
        raise ValueError("user= and password= go together")
    if user is not None and (token is not None or token_file is not None):
        raise ValueError("give a token, or user= and password=, not both")
    found = "" if user is not None else _token(token, token_file, environment)
    if user is None and not found:
        user, password = _login(environment)
    if ":" in (user or ""):
        raise ValueError("a user name has no colon")
    return Address(
        f"{parts.scheme}://{parts.netloc}",
        host=parts.hostname,
        port=parts.port or ADMIN_PORT,
        tls=parts.scheme == "https",
        token=found,
        user=user or "",
        password=password or "",
    )


def _login(environment: Mapping[str, str]) -> tuple[str, str]:
    """User and password of the environment; a password itself is never there."""
    user, file = environment.get(USER, ""), environment.get(PASSWORD_FILE, "")
    if not user:
        return "", ""
    if not file:
        raise ValueError(f"${USER} needs ${PASSWORD_FILE}, a file whose first line is the password")
    with Path(file).open(encoding="utf-8") as lines:
        return user, lines.readline().rstrip("\r\n")


def _token(
    token: str | None, token_file: str | os.PathLike[str] | None, environment: Mapping[str, str]
) -> str:
    if token is not None and token_file is not None:
        raise ValueError("give token= or token_file=, not both")
    file = token_file or (None if token is not None else environment.get(TOKEN_FILE) or None)
    found = token if file is None else Path(file).read_text(encoding="utf-8").strip()
    if found and not (found.isascii() and found.isprintable() and " " not in found):
        raise ValueError("the token contains characters that a token cannot have")
    return found or ""
