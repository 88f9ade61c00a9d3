"""Reading posthouse.toml: any text gives settings or one error that helps."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.settings_kinds import is_loopback
from posthouse.runtime.settings.file import (
    FILE_SIZE_MAX,
    SettingsError,
    parse_settings,
    read_settings,
    size_text,
)
from posthouse.runtime.settings.settings import Settings
from posthouse.security.rights import RIGHTS

SECTIONS = get_type_hints(Settings)
KEYS = [
    (name, field.name)
    for name, section in SECTIONS.items()
    for field in msgspec.structs.fields(section)
]


def problems(text: str) -> list[str]:
    with pytest.raises(SettingsError) as error:
        parse_settings(text.encode(), "p.toml")
    return str(error.value).splitlines()


def test_an_empty_file_gives_the_defaults() -> None:
    assert parse_settings(b"") == Settings()


def test_no_file_gives_the_defaults_unless_it_was_asked_for(tmp_path: Path) -> None:
    missing = tmp_path / "posthouse.toml"
    assert read_settings(missing, must_exist=False) == Settings()
    with pytest.raises(SettingsError, match="no such file"):
        read_settings(missing)


def test_what_is_no_file_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="directory"):
        read_settings(tmp_path)
    (tmp_path / "big").write_bytes(b"#" * (FILE_SIZE_MAX + 1))
    with pytest.raises(SettingsError, match="larger"):
        read_settings(tmp_path / "big")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[stoer]", "[stoer]: there is no such section; the nearest is [store]"),
        (
            "[store]\nsegmnt_size = 1",
            "[store] segmnt_size: there is no such setting; the nearest is segment_size in [store]",
        ),
        (
            "[store]\nmemory = 1",
            "[store] memory: there is no such setting here; it belongs to [limits]",
        ),
        ("store = 1", "store: this is a section; write [store] and its settings below"),
        (
            "[store]\nopen_files = true",
            "[store] open_files: expected int, got bool; allowed: whole number, 16 to 100,000",
        ),
        (
            "[store]\nopen_files = 1",
            "[store] open_files: expected int >= 16; allowed: whole number, 16 to 100,000",
        ),
        (
            "[log]\nlevel = 'loud'",
            "[log] level: invalid enum value 'loud'; "
            'allowed: "debug", "info", "warning", "error"',
        ),
        (
            "[store]\nsegment_size = '64XB'",
            "[store] segment_size: '64XB' is not a size; "
            'allowed: a whole number of bytes or a text such as "64MiB"',
        ),
        (
            "[store]\ndead_ratio = nan",
            "[store] dead_ratio: expected float >= 0.25; allowed: number, 0.25 to 1.0",
        ),
        (
            "[queue_manager]\nname = 'a b'",
            "[queue_manager] name: the computer 'a b' must not contain a space",
        ),
        (
            "[queue_manager]\ndefault_access = {everyon = 'send'}",
            "[queue_manager] default_access: 'everyon' is not a user or group; the nearest is "
            "everyone",
        ),
        (
            "[queue_manager]\ndefault_access = {users = 'sned'}",
            "[queue_manager] default_access: 'sned' is not a queue right. Did you mean send? "
            f"There are {', '.join(RIGHTS)}.",
        ),
        (
            "[queue_manager]\nlisten = 'example.org'",
            "[queue_manager] listen: 'example.org' is not an address; allowed: an IP address",
        ),
        (
            "[admin]\nlisten = '0.0.0.0'",
            "[admin] listen: off the loopback this needs certificate and private_key, or "
            "insecure = true",
        ),
        (
            "[admin]\ncertificate = 'x.pem'",
            "[admin] certificate: certificate and private_key go together",
        ),
        (
            "[transactions]\npeer_retry_s = 301",
            "[transactions] peer_retry_s: this is more than peer_retry_max_s",
        ),
        (
            "[binary]\nretry_connect_ms = 300_001",
            "[binary] retry_connect_ms: this is more than retry_connect_max_ms",
        ),
        (
            "[binary]\nack_from = ['beta']",
            "[binary] ack_from: 'beta' is not an address; allowed: IP addresses",
        ),
        (
            "[limits]\nmemory = '32MiB'",
            "[limits] unsynced: this is more than memory allows",
        ),
    ],
)
def test_a_problem_names_file_setting_and_what_is_allowed(text: str, problem: str) -> None:
    assert problems(text) == [f"p.toml: {problem}"]


def test_all_problems_are_told_at_once() -> None:
    assert len(problems("[store]\nfoo = 1\nopen_files = 1\n[bar]\n[log]\nlevel = 3")) == 4


@pytest.mark.parametrize(
    ("text", "size"),
    [("1048576", 1 << 20), ("'64MiB'", 64 << 20), ("'1 gib'", 1 << 30), ("'2097152'", 2 << 20)],
)
def test_sizes_are_numbers_or_texts(text: str, size: int) -> None:
    assert parse_settings(f"[store]\nsegment_size = {text}".encode()).store.segment_size == size


def test_off_the_loopback_a_certificate_or_a_word_is_needed() -> None:
    text = "[admin]\nlisten = '0.0.0.0'\n"
    assert parse_settings(f"{text}insecure = true".encode()).admin.insecure
    assert parse_settings(f"{text}certificate = 'c'\nprivate_key = 'k'".encode()).admin.certificate
    assert is_loopback("127.8.0.1")
    assert is_loopback("::1")
    assert not is_loopback("::")


@given(st.binary(max_size=200))
def test_any_bytes_give_settings_or_the_one_error(data: bytes) -> None:
    with_error(data)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_names_give_the_one_error_on_one_line_each(section: str, key: str) -> None:
    quoted = [msgspec.json.encode(name).decode() for name in (section, key)]
    shown = with_error("[{}]\n{} = 1".format(*quoted).encode())
    assert all(line.startswith("posthouse.toml: ") and line.isprintable() for line in shown)


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(st.characters(codec="utf-8"), max_size=20),
    ),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


def toml(value: object) -> str:
    if isinstance(value, float):
        return {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}.get(str(value), repr(value))
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return msgspec.json.encode(value).decode() if not isinstance(value, int) else str(value).lower()


@given(st.sampled_from(KEYS), VALUES)
def test_any_value_of_any_setting_is_taken_or_refused_by_its_name(
    key: tuple[str, str], value: object
) -> None:
    for line in with_error(f"[{key[0]}]\n{key[1]} = {toml(value)}".encode()):
        named = f"[{key[0]}]", f"[{key[0]}.{key[1]}]", "not TOML"
        assert any(one in line for one in named)


@given(st.integers(0, 1 << 60))
def test_a_size_can_be_read_back_as_it_is_shown(size: int) -> None:
    text = f"[store]\nexpress_memory = '{size_text(size)}'"
    if size <= 1 << 50:
        assert parse_settings(text.encode()).store.express_memory == size
    else:
        assert "allowed" in problems(text)[0]


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "9" * 5000, "a.b" + ".c" * 3000])
def test_bombs_are_no_settings(text: str) -> None:
    assert problems(text)


def with_error(data: bytes) -> list[str]:
    try:
        assert isinstance(parse_settings(data), Settings)
    except SettingsError as error:
        return str(error).splitlines()
    return []


def test_limits_may_be_equal() -> None:
    made = parse_settings(b"[binary]\norder_ack_ms = 10000")
    assert made.binary.order_ack_ms == made.binary.order_ack_max_ms
