"""`posthouse.connect`: opens a session of the blocking client."""

from __future__ import annotations

import os
import ssl
from typing import Final

from posthouse.client.address import resolve
from posthouse.client.blocking import Channel
from posthouse.client.manager import QueueManagerClient
from posthouse.client.session_socket import SocketLink
from posthouse.model.durations import Seconds, finite_seconds

CONNECT_TIMEOUT_S: Final = 10.0
RECONNECT_S: Final = 30.0


def connect(
    home: str | os.PathLike[str] | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    timeout: Seconds = CONNECT_TIMEOUT_S,
    reconnect: Seconds = RECONNECT_S,
    name: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> QueueManagerClient:
    """A session with the queue manager of a home on this machine, or of an admin endpoint.

    Without arguments it is the home in `$POSTHOUSE_HOME`, else the usual one. A token comes from
    `token`, `token_file` or `$POSTHOUSE_TOKEN_FILE`; without one, `user` and `password` log in, or
    `$POSTHOUSE_USER` with the first line of `$POSTHOUSE_PASSWORD_FILE`. `timeout` bounds the first
    attempt. When a connection breaks later, a new one is tried for `reconnect` seconds, and what
    was asked is asked again there. `name` is shown to the operator.
    """
    address = resolve(home, url, token, token_file, user=user, password=password)
    link = SocketLink(address, tls)
    waits = finite_seconds(timeout), finite_seconds(reconnect, "reconnect")
    return QueueManagerClient(Channel(link, os.urandom(16), name or "", *waits))
