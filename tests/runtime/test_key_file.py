"""The key file of a home."""

import stat
from pathlib import Path

import pytest

from posthouse.model.errors import CorruptedSecurityData
from posthouse.runtime.key_file import KEYS, SEAL, KeyFile


def test_key_is_made_when_first_needed_and_is_the_same_ever_after(tmp_path: Path) -> None:
    sealing_key = KeyFile(tmp_path)
    assert not (tmp_path / KEYS).exists()
    key = sealing_key()
    assert len(key) == 32
    assert sealing_key() == key == KeyFile(tmp_path)()
    assert KeyFile(tmp_path / "..")() != key or (tmp_path / "..").samefile(tmp_path)


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    KeyFile(tmp_path)()
    path = tmp_path / KEYS / SEAL
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    KeyFile(tmp_path)()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_damaged_key_file_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / KEYS / SEAL
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(CorruptedSecurityData, match="damaged"):
        KeyFile(tmp_path)()
    assert path.read_bytes() == content


def test_half_made_key_file_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / KEYS).mkdir()
    (tmp_path / KEYS / "seal.new").write_bytes(b"half")
    assert len(KeyFile(tmp_path)()) == 32


def test_home_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / KEYS).write_bytes(b"a file where the folder should be")
    with pytest.raises(CorruptedSecurityData, match="cannot be"):
        KeyFile(tmp_path)()
