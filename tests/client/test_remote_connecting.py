"""How a reader reaches another computer; the rest is tried in test_remote_reader.py."""

from __future__ import annotations

from posthouse.client.remote.login import RemoteLogin
from posthouse.rpc.security import Level


def test_a_login_does_not_show_its_password() -> None:
    shown = repr(RemoteLogin("alice", "Geheim!", Level.INTEGRITY, "ntlm"))
    assert shown == "Login('alice', INTEGRITY, 'ntlm')"
