"""The quick way of reading an envelope says what the long one says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.wire.srmp.envelope import read_tree
from posthouse.wire.srmp.fast_reader import SIZE_MAX, read_plain
from posthouse.wire.srmp.message import SrmpMessage, Stream
from posthouse.wire.srmp.writer import write_envelope
from tests.wire.srmp import (
    ADMIN,
    EXAMPLES,
    GUID,
    GUID_TEXT,
    LATER_S,
    SENT_S,
    SEQUENCE_ID,
    STREAM_ID,
    URL,
    example,
)

FULL = SrmpMessage(
    action="MSMQ:a label",
    to=URL,
    id=f"uuid:7@{GUID_TEXT}",
    via=ADMIN,
    expires_at=LATER_S,
    sent_at=SENT_S,
    durable=True,
    stream=Stream(STREAM_ID, GUID, SEQUENCE_ID, 9, 4, ADMIN),
    has_msmq=True,
    priority=5,
    journal=True,
    dead_letter=True,
    correlation=bytes(range(20)),
    trace=True,
    application_tag=36,
    body_type=8,
    hash_algorithm=32772,
    first=True,
    last=True,
    source_guid=GUID,
    ordinal=7,
    reach_by=LATER_S,
)
SMALL = SrmpMessage(
    action="MSMQ:",
    to=URL,
    id=f"uuid:7@{GUID_TEXT}",
    sent_at=SENT_S,
    has_msmq=True,
    source_guid=GUID,
    ordinal=7,
    reach_by=LATER_S,
)
TOKENS = st.sampled_from(
    [
        *(
            "<",
            ">",
            "&",
            "&amp;",
            "&lt;",
            "'",
            '"',
            " ",
            "\n",
            "\t",
            "]]>",
            "é",
            "\x0b",
            "<!-- -->",
        ),
        *("0", "1", "-", "@", "\\", "4294967296", "99999999999", "http://", "MSMQ:MULTICAST=", "/"),
        *("<durable/>", "<Journal/>", "<First/>", "<previous>3</previous>", "<App>0</App>"),
        *(
            '<x xmlns="u"/>',
            '<services se:mustUnderstand="1"><durable/></services>',
            "<Class>0</Class>",
        ),
    ]
)


def outcome(read: Callable[[bytes], SrmpMessage | None], xml: bytes) -> SrmpMessage | str | None:
    try:
        return read(xml)
    except MalformedPacket:
        return "malformed"


@pytest.mark.parametrize("message", [FULL, SMALL])
def test_what_we_write_goes_the_quick_way(message: SrmpMessage) -> None:
    xml = write_envelope(message)
    assert read_plain(xml) == read_tree(xml) == message


@pytest.mark.parametrize("name", ["1.3.12-example", "4.2-msmq-element"])
def test_messages_of_windows_go_the_quick_way(name: str) -> None:
    xml = example(name).parts.envelope.replace(b"\n", b"")
    assert read_plain(xml) == read_tree(xml)


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_other_form_goes_the_long_way(name: str) -> None:
    xml = example(name).parts.envelope
    assert outcome(read_plain, xml) in (None, outcome(read_tree, xml))
    assert read_plain(b"") is None
    assert read_plain(write_envelope(SMALL) + b" " * SIZE_MAX) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<Priority>5<", "<Priority>8<"),
        ("<Class>0<", "<Class>65536<"),
        ("<App>36<", "<App>4294967296<"),
        ("<current>9<", "<current>0<"),
        ("<current>9<", "<current>4294967296<"),
        ("<previous>4<", "<previous>4294967296<"),
        ('<services se:mustUnderstand="1"><durable/></services>', ""),
        ("<sentAt>2026", "<sentAt>2O26"),
        (f"<sendReceiptsTo>{ADMIN}", "<sendReceiptsTo>alpha"),
        (f"<to>{URL}", "<to>alpha"),
        (f"<to>{URL}", f"<to> {URL} "),
        ("<action>MSMQ:a", "<action> MSMQ:a"),
        (f"uuid:7@{GUID_TEXT}", "uuid:7"),
        ("AAECAw", "AAEC"),
        ("<TTrq>", "<TTrq> "),
    ],
)
def test_unusual_values_mean_the_same_both_ways(old: str, new: str) -> None:
    xml = write_envelope(FULL).decode()
    assert old in xml
    changed = xml.replace(old, new, 1).encode()
    assert outcome(read_plain, changed) in (None, outcome(read_tree, changed))


@given(
    st.sampled_from([FULL, SMALL]), st.lists(st.tuples(st.integers(0, 2000), TOKENS), max_size=3)
)
def test_damage_means_the_same_both_ways(
    message: SrmpMessage, damage: list[tuple[int, str]]
) -> None:
    text = write_envelope(message).decode()
    for at, token in damage:
        at %= len(text)
        text = text[:at] + token + text[at + len(token) % 3 :]
    xml = text.encode()
    quick = outcome(read_plain, xml)
    assert quick is None or quick == outcome(read_tree, xml)
