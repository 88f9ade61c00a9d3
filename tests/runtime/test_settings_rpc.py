"""[rpc]: what a word means, and what cannot be switched off."""

from __future__ import annotations

import msgspec
import pytest

from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.rpc.security import Level


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
    section = msgspec.convert({"minimum_authentication": word}, RemoteReadSettings)
    assert section.minimum_level is level


@pytest.mark.spec("MS-MQRR 3.1.2.1/1", "MS-MQRR 3.1.2.1/3", "MS-MQRR 3.1.2.2/3")
@pytest.mark.parametrize("name", ["cleanup_ms", "call_timeout_ms"])
def test_no_timer_can_be_switched_off(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({name: 0}, RemoteReadSettings)
    section = msgspec.convert({name: 7 * 60_000}, RemoteReadSettings)
    assert getattr(section, name) == 7 * 60_000
