"""The transcripts are what the protocols say today: three conversations for each of them.

`POSTHOUSE_WRITE_TRANSCRIPTS=1 python -m pytest tests/transcripts` writes them again; read what
changed before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from posthouse import protocols
from tests.transcripts import binary, http_api, management, ncp, pgm, remote_read, sessions, srmp

FOLDER = Path(__file__).parent
PROTOCOLS: dict[str, dict[str, Callable[[], str]]] = {
    "binary": binary.CONVERSATIONS,
    "http-api": http_api.CONVERSATIONS,
    "management": management.CONVERSATIONS,
    "ncp": ncp.CONVERSATIONS,
    "pgm": pgm.CONVERSATIONS,
    "remote-read": remote_read.CONVERSATIONS,
    "sessions": sessions.CONVERSATIONS,
    "srmp": srmp.CONVERSATIONS,
}
# Packages of protocols under another name there, and the parts of the HTTP API.
FOLDERS = {"remote_read": "remote-read", "http": "http-api"}
IN_HTTP = {"arrow", "handlers", "metrics"}
ALL = [(protocol, name) for protocol, known in PROTOCOLS.items() for name in known]


@pytest.mark.parametrize(("protocol", "name"), ALL)
def test_a_conversation_is_as_its_transcript_has_it(protocol: str, name: str) -> None:
    text = PROTOCOLS[protocol][name]()
    file = FOLDER / protocol / f"{name}.txt"
    if os.environ.get("POSTHOUSE_WRITE_TRANSCRIPTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), f"{file.name} differs: see the docstring of this module"


def test_every_protocol_has_three_conversations_and_no_other_file_is_there() -> None:
    assert {len(known) for known in PROTOCOLS.values()} == {3}
    found = {(file.parent.name, file.stem) for file in FOLDER.glob("*/*.txt")}
    assert found == set(ALL)


def test_each_package_of_a_protocol_has_its_conversations() -> None:
    packages = {path.parent.name for path in Path(protocols.__file__).parent.glob("*/__init__.py")}
    assert {FOLDERS.get(name, name) for name in packages - IN_HTTP} == PROTOCOLS.keys()
