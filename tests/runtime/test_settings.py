"""The declarations: every setting does something, and every knob of engine and store has one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import get_type_hints

import msgspec
import pytest

from posthouse.engine.settings import EngineSettings
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.runtime.ports import PortSet
from posthouse.runtime.settings.file import SettingsError, parse_settings
from posthouse.runtime.settings.page import configuration_page
from posthouse.runtime.settings.settings import Settings, engine_settings, store_settings
from posthouse.runtime.settings_protocols import binary_settings
from posthouse.security.settings import MessageSecuritySettings
from posthouse.store.settings import StoreSettings
from tests.engine.rig import Rig

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
# How much of a purge one turn takes is ours to choose; the rest follows from other settings.
ENGINE_ONLY = {
    "software_version",
    "operating_system_version",
    "directory_source",
    "own_names",
    "ports",
    "computer_name",
    "step_messages",
    "step_bytes",
}
STORE_ONLY = {"store_id"}


def test_the_documented_settings_are_the_settings() -> None:
    """Made by: python -m posthouse.runtime.settings.page > docs/configuration.md"""
    assert PAGE.read_text(encoding="utf-8") == configuration_page()


def test_the_example_on_the_page_is_accepted() -> None:
    example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    assert parse_settings(example.encode()).queue_manager.name == "ALPHA"


def test_defaults_are_those_of_engine_and_store() -> None:
    made = engine_settings(Settings(), "ALPHA", PortSet.STANDARD)
    assert made == EngineSettings("ALPHA")
    assert store_settings(Settings()) == StoreSettings()


def test_defaults_are_those_of_the_binary_protocol() -> None:
    assert binary_settings(Settings().binary, Settings().ping) == BinarySettings()


@pytest.mark.spec("MS-MQQB 3.1.3.1/4", "MS-MQQB 3.1.3.1/5", "MS-MQQB 3.1.3.1/7")
def test_defaults_are_those_of_message_security() -> None:
    made = Settings().security.message_security()
    assert made == MessageSecuritySettings()
    assert (made.certificate_cache_size, made.certificate_lifetime_s) == (53, 1200)
    assert (made.receive_key_cache_size, made.send_key_cache_size) == (127, 53)
    assert (made.advanced_algorithm, made.enhanced_algorithm) == ("aes256", "rc4")


@pytest.mark.spec("MS-MQQB 3.1.1.3/1", "MS-MQQB 3.1.3.1/3")
def test_caches_begin_empty_and_grow_to_the_sizes_of_the_settings() -> None:
    sizes = {"receive_key": 3, "send_key": 4, "certificate": 5}
    lines = [f"{word}_cache_size = {size}" for word, size in sizes.items()]
    text = "\n".join(["[security]", *lines]).encode()
    certificates = Rig().manager.accounts.certificates
    certificates.configure(parse_settings(text).security.message_security())
    caches = certificates.security.caches
    all_of_them = (caches.receive, caches.send, caches.send_base, caches.certificates)
    assert [len(cache) for cache in all_of_them] == [0, 0, 0, 0]
    for cache in all_of_them:
        for number in range(20):
            cache.add(number, SimpleNamespace(cached_ms=number))
            assert 0 < len(cache) <= cache.size
    assert [cache.size for cache in all_of_them] == [3, 4, 4, 5]


@pytest.mark.spec("MS-MQQB 3.1.1.3/2")
def test_which_ciphers_may_be_preferred() -> None:
    def refused(key: str, value: str) -> bool:
        try:
            parse_settings(f"[security]\n{key} = '{value}'".encode())
        except SettingsError:
            return True
        return False

    words = ["aes128", "aes192", "aes256", "rc2", "rc4", "des"]
    assert [w for w in words if not refused("advanced_algorithm", w)] == words[:3]
    assert [w for w in words if not refused("enhanced_algorithm", w)] == words[3:5]


@pytest.mark.spec("MS-MQQB 3.1.1.3/4", "MS-MQQB 3.1.1.3/13", "MS-MQQB 3.1.3.1/1")
def test_the_resend_table_has_three_short_three_medium_three_long_and_a_final_time() -> None:
    made = binary_settings(Settings().binary, Settings().ping)
    seconds = [ms // 1000 for ms in made.resend_ms]
    assert seconds == [30] * 3 + [300] * 3 + [1800] * 3 + [21600]
    times = {"short": 1, "medium": 2, "long": 3, "final": 4}
    lines = [f"resend_{word}_ms = {value}" for word, value in times.items()]
    changed = parse_settings("\n".join(["[binary]", *lines]).encode())
    table = binary_settings(changed.binary, changed.ping).resend_ms
    assert table == (1, 1, 1, 2, 2, 2, 3, 3, 3, 4)


def test_every_knob_of_the_binary_protocol_can_be_turned() -> None:
    sections = {name: section() for name, section in get_type_hints(Settings).items()}
    for name, key, value in every_other_value():
        sections[name] = msgspec.structs.replace(sections[name], **{key: value})
    turned = binary_settings(Settings(**sections).binary, Settings(**sections).ping)
    unturned = [
        field.name
        for field in fields(BinarySettings)
        if getattr(turned, field.name) == getattr(BinarySettings(), field.name)
    ]
    assert unturned == []


def every_other_value() -> list[tuple[str, str, object]]:
    """Each setting with a value that is allowed and not its default."""
    found: list[tuple[str, str, object]] = []
    for name, section in get_type_hints(Settings).items():
        for field in msgspec.structs.fields(section):
            default = getattr(section(), field.name)
            found.append((name, field.name, other(default)))
    return found


def other(default: object) -> object:
    if isinstance(default, msgspec.Struct):
        values = {field: other(getattr(default, field)) for field in default.__struct_fields__}
        return msgspec.structs.replace(default, **values)
    if isinstance(default, bool):
        return not default
    if isinstance(default, float):
        return 0.75
    if isinstance(default, int):
        return default + 1024 if default > 1_000_000 or default == 0 else default + 1
    if isinstance(default, list | tuple):
        return ("other",)
    return {"users": "peek"} if isinstance(default, dict) else "other"


def test_every_knob_of_engine_and_store_can_be_turned() -> None:
    sections = {name: section() for name, section in get_type_hints(Settings).items()}
    for name, key, value in every_other_value():
        sections[name] = msgspec.structs.replace(sections[name], **{key: value})
    turned = Settings(**sections)
    engine = engine_settings(turned, "OTHER", PortSet.USER)
    unturned = [
        field.name
        for field in fields(EngineSettings)
        if field.name not in ENGINE_ONLY
        and getattr(engine, field.name) == getattr(EngineSettings("ALPHA"), field.name)
    ]
    store = store_settings(turned)
    unturned += [
        field.name
        for field in fields(StoreSettings)
        if field.name not in STORE_ONLY
        and getattr(store, field.name) == getattr(StoreSettings(), field.name)
    ]
    assert unturned == []


@pytest.mark.parametrize(("size", "kib"), [(0, 0xFFFFFFFF), (1, 1), (1024, 1), (1025, 2)])
def test_quotas_are_counted_in_kilobytes_and_none_means_no_limit(size: int, kib: int) -> None:
    settings = parse_settings(f"[queue_manager]\nmachine_quota = {size}".encode())
    assert engine_settings(settings, "ALPHA", PortSet.USER).machine_quota_kib == kib


def test_privileged_ports_mean_us_where_they_were_moved_to() -> None:
    assert engine_settings(Settings(), "A", PortSet.USER).ports == {1801, 10080, 10443}
    assert engine_settings(Settings(), "A", PortSet.STANDARD).ports == {1801, 80, 443}
