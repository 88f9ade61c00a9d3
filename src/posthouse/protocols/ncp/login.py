"""Logins and passwords, keyed or, where a setting wants it, in clear text (decision 13)."""

from __future__ import annotations

from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.model.completion_codes import UNENCRYPTED_REFUSED, UNSUPPORTED
from posthouse.model.errors import QmsError
from posthouse.protocols.ncp.session import ServiceConnection, table
from posthouse.wire.ncp.bindery_calls import (
    CHANGE_PASSWORD,
    KEYED_LOGIN,
    KEYED_VERIFY,
    LOGIN,
    LOGIN_KEY,
    VERIFY_PASSWORD,
    ChangePassword,
    KeyedObject,
    LoginKey,
    ObjectPassword,
)
from posthouse.wire.ncp.calls import NOTHING, Empty
from posthouse.wire.ncp.forms import NAME_ENCODING


def login_key(connection: ServiceConnection, manager: QueueManager, asked: Empty) -> LoginKey:
    """Get Login Key (0x17): fresh bytes for each request."""
    _require_keyed(connection)
    return LoginKey(manager.bindery.login_key(connection.of_station))


def keyed_login(connection: ServiceConnection, manager: QueueManager, asked: KeyedObject) -> Empty:
    """Keyed Object Login (0x18)."""
    _require_keyed(connection)
    manager.bindery.login_keyed(connection.of_station, asked.object_type, asked.name, asked.answer)
    return NOTHING


def keyed_verify(connection: ServiceConnection, manager: QueueManager, asked: KeyedObject) -> Empty:
    """Keyed Verify Password (0x4A)."""
    _require_keyed(connection)
    manager.bindery.verify_keyed(connection.of_station, asked.object_type, asked.name, asked.answer)
    return NOTHING


def login(connection: ServiceConnection, manager: QueueManager, asked: ObjectPassword) -> Empty:
    """Login Object (0x14), in clear text."""
    _require_clear_text(connection)
    manager.bindery.login(
        connection.of_station, asked.object_type, asked.name, _text(asked.password)
    )
    return NOTHING


def verify_password(
    connection: ServiceConnection, manager: QueueManager, asked: ObjectPassword
) -> Empty:
    """Verify Bindery Object Password (0x3F), in clear text."""
    _require_clear_text(connection)
    manager.bindery.verify_password(
        connection.of_station, asked.object_type, asked.name, _text(asked.password)
    )
    return NOTHING


def change_password(
    connection: ServiceConnection, manager: QueueManager, asked: ChangePassword
) -> Empty:
    """Change Bindery Object Password (0x40), in clear text."""
    _require_clear_text(connection)
    old, new = _text(asked.old), _text(asked.new)
    manager.bindery.change_object_password(
        connection.of_station, asked.object_type, asked.name, old, new
    )
    return NOTHING


def _require_keyed(connection: ServiceConnection) -> None:
    if not connection.settings.keyed_logins:
        raise QmsError(UNSUPPORTED, "keyed logins are switched off")


def _require_clear_text(connection: ServiceConnection) -> None:
    if not connection.settings.clear_text_logins:
        raise QmsError(UNENCRYPTED_REFUSED, "passwords in clear text are not taken")


def _text(password: bytes) -> str:
    return password.decode(NAME_ENCODING)


LOGIN_HANDLERS: Final = table(
    (LOGIN_KEY, login_key),
    (KEYED_LOGIN, keyed_login),
    (KEYED_VERIFY, keyed_verify),
    (LOGIN, login),
    (VERIFY_PASSWORD, verify_password),
    (CHANGE_PASSWORD, change_password),
)
