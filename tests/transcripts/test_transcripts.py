"""The transcripts are what the protocols say today: three conversations for each of them.

`POSTHOUSE_WRITE_TRANSCRIPTS=1 python -m pytest tests/transcripts` writes them again; read what
changed before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transcripts import binary, http_api, ncp, pgm, remote_read, sessions, srmp

FOLDER = Path(__file__).parent
PROTOCOLS: dict[str, dict[str, Callable[[], str]]] = {
    "binary": binary.CONVERSATIONS,
    "http-api": http_api.CONVERSATIONS,
    "ncp": ncp.CONVERSATIONS,
    "pgm": pgm.CONVERSATIONS,
    "remote-read": remote_read.CONVERSATIONS,
    "sessions": sessions.CONVERSATIONS,
    "srmp": srmp.CONVERSATIONS,
}
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
