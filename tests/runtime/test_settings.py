"""The declarations: every setting is read by what it is for, and documented."""

from __future__ import annotations

import re
from inspect import get_annotations
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from posthouse.model.settings_kinds import Section
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.runtime.home import engine_settings
from posthouse.runtime.ports import PortSet
from posthouse.runtime.settings.file import SettingsError, fields_of, is_section, parse_settings
from posthouse.runtime.settings.page import configuration_page
from posthouse.runtime.settings.settings import Settings
from posthouse.security.access import DEFAULT_ACCESS
from posthouse.security.settings import MessageSecuritySettings
from tests.engine.rig import Rig

SOURCE = Path(__file__).parents[2] / "src" / "posthouse"
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_documented_settings_are_the_settings() -> None:
    """Made by: python -m posthouse.runtime.settings.page > docs/configuration.md"""
    assert PAGE.read_text(encoding="utf-8") == configuration_page()


def test_the_example_on_the_page_is_accepted() -> None:
    example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    assert parse_settings(example.encode()).queue_manager.name == "ALPHA"


@pytest.mark.spec("MS-MQQB 3.1.3.1/4", "MS-MQQB 3.1.3.1/5", "MS-MQQB 3.1.3.1/7")
def test_defaults_are_those_of_message_security() -> None:
    made = parse_settings(b"").security
    assert made == Settings().security == MessageSecuritySettings()
    assert (made.certificate_cache_size, made.certificate_lifetime_s) == (53, 1200)
    assert (made.receive_key_cache_size, made.send_key_cache_size) == (127, 53)
    assert (made.advanced_algorithm, made.enhanced_algorithm) == ("aes256", "rc4")
    certificates = Rig().manager.accounts.certificates
    certificates.configure(made)
    caches = certificates.security.caches
    assert [cache.size for cache in (caches.receive, caches.send, caches.send_base)] == [
        127,
        53,
        53,
    ]
    assert caches.certificates.size == 53


@pytest.mark.spec("MS-MQQB 3.1.1.3/1", "MS-MQQB 3.1.3.1/3")
def test_caches_begin_empty_and_grow_to_the_sizes_of_the_settings() -> None:
    sizes = {"receive_key": 3, "send_key": 4, "certificate": 5}
    lines = [f"{word}_cache_size = {size}" for word, size in sizes.items()]
    text = "\n".join(["[security]", *lines]).encode()
    certificates = Rig().manager.certificates
    certificates.configure(parse_settings(text).security)
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
    seconds = [ms // 1000 for ms in BinarySettings().resend_ms]
    assert seconds == [30] * 3 + [300] * 3 + [1800] * 3 + [21600]
    times = {"short": 1, "medium": 2, "long": 3, "final": 4}
    lines = [f"resend_{word}_ms = {value}" for word, value in times.items()]
    changed = parse_settings("\n".join(["[binary]", *lines]).encode())
    assert changed.binary.resend_ms == (1, 1, 1, 2, 2, 2, 3, 3, 3, 4)


def sections(section: type[msgspec.Struct], name: str = "") -> list[tuple[str, type[Section]]]:
    """Each section with its name, those in sections too."""
    found = []
    for key, kind in fields_of(section).items():
        if is_section(kind):
            path = f"{name}.{key}" if name else key
            found += [(path, kind), *sections(kind, path)]
    return found


def attributes_read() -> set[str]:
    """The names of the attributes that are read somewhere in the source."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    return {
        name for text in texts for name in re.findall(r"(?<=[\w)\]])\.([a-z]\w*)\b(?! = )", text)
    }


def test_every_setting_is_read_by_something() -> None:
    read = attributes_read()
    idle = [
        f"[{name}] {key}"
        for name, section in sections(Settings)
        for key, kind in fields_of(section).items()
        if not is_section(kind) and key not in read
    ]
    assert idle == []


def test_a_section_declares_no_setting_of_its_base_again() -> None:
    again = [
        f"[{name}] {key}"
        for name, section in sections(Settings)
        for base in section.__mro__[1:]
        for key in sorted(get_annotations(section).keys() & get_annotations(base).keys())
    ]
    assert again == []


def test_every_section_is_declared_outside_of_the_runtime_but_its_logs_and_traces() -> None:
    """The struct stands in the package that uses it; the runtime assembles them."""
    homes = {name: section.__module__.split(".")[1] for name, section in sections(Settings)}
    own = {name for name, package in homes.items() if package == "runtime"}
    assert own == {"audit", "log", "telemetry"}


def test_the_engine_reads_the_sections_themselves() -> None:
    settings = parse_settings(b"[transactions]\nidle_s = 7\n[srmp]\nreceipt_ms = 8")
    engine = engine_settings(settings, "ALPHA", PortSet.STANDARD)
    for name in ("queue_manager", "directory", "transactions", "limits", "binary", "srmp", "qms"):
        assert getattr(engine, name) is getattr(settings, name)


def test_what_has_no_meaning_cannot_be_set() -> None:
    for text in (
        "[store]\nstore_id = 'x'",
        "[rpc]\nheld_max = 1",
        "[srmp]\nsend_batch_messages = 1",
    ):
        with pytest.raises(SettingsError, match="there is no such setting"):
            parse_settings(text.encode())


@pytest.mark.parametrize(("size", "kib"), [(0, 0xFFFFFFFF), (1, 1), (1024, 1), (1025, 2)])
def test_quotas_are_counted_in_kilobytes_and_none_means_no_limit(size: int, kib: int) -> None:
    settings = parse_settings(f"[queue_manager]\nmachine_quota = {size}".encode())
    assert engine_settings(settings, "ALPHA", PortSet.USER).machine_quota_kib == kib


def test_privileged_ports_mean_us_where_they_were_moved_to() -> None:
    assert engine_settings(Settings(), "A", PortSet.USER).ports == {1801, 10080, 10443}
    assert engine_settings(Settings(), "A", PortSet.STANDARD).ports == {1801, 80, 443}


def test_principals_of_new_queues_are_words_in_any_case() -> None:
    settings = parse_settings(b"[queue_manager]\ndefault_access = { Everyone = 'send' }")
    assert engine_settings(settings, "A", PortSet.USER).default_access == DEFAULT_ACCESS
