"""[rpc] and [epm]: what the protocol and the runtime get of them."""

from __future__ import annotations

from dataclasses import fields

import msgspec
import pytest

from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.rpc.security import Level
from posthouse.rpc.settings import RpcSettings
from posthouse.runtime.settings_rpc import RpcSection


def changed(kind: type[RemoteReadSettings] | type[RpcSettings]) -> dict[str, int]:
    """Other values than the defaults for what the section has of these settings."""
    section, defaults = RpcSection(), kind()
    names = [field.name for field in fields(kind) if hasattr(section, field.name)]
    return {name: getattr(defaults, name) + 8 for name in names}


@pytest.mark.spec("MS-MQRR 3.1.2.1/1", "MS-MQRR 3.1.2.2/3")
def test_every_setting_reaches_its_place() -> None:
    for kind, made in ((RemoteReadSettings, "remote_read"), (RpcSettings, "runtime")):
        values = changed(kind)
        assert len(values) >= 4
        section = msgspec.structs.replace(RpcSection(), **values)
        given = getattr(section, made)()
        assert {name: getattr(given, name) for name in values} == values


def test_the_defaults_are_those_of_the_parts() -> None:
    assert RpcSection().remote_read() == RemoteReadSettings()
    assert RpcSection().runtime() == RpcSettings()


@pytest.mark.spec("RPC/28")
@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("privacy", Level.PRIVACY),
        ("integrity", Level.INTEGRITY),
        ("connect", Level.CONNECT),
        ("none", Level.NONE),
    ],
)
def test_the_least_authentication_is_a_word(word: str, level: Level) -> None:
    section = msgspec.convert({"minimum_authentication": word}, RpcSection)
    assert section.remote_read().minimum_level is level


@pytest.mark.spec("MS-MQRR 3.1.2.1/3", "MS-MQRR 3.1.2.2/3")
@pytest.mark.parametrize("name", ["cleanup_ms", "call_timeout_ms"])
def test_no_timer_can_be_switched_off(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({name: 0}, RpcSection)
    section = msgspec.convert({name: 7 * 60_000}, RpcSection)
    assert getattr(section.remote_read(), name) == 7 * 60_000
