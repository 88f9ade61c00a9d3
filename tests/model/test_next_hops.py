"""Next-hop address strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import format_guid
from posthouse.model.next_hops import NextHop, NextHopKind
from tests.model.strategies import attempt, guids, ipv4, ipv6


@given(
    ipv4.map(NextHop.of_ip)
    | ipv6.map(NextHop.of_ip)
    | guids.map(lambda guid: NextHop(NextHopKind.FOREIGN, format_guid(guid)))
)
def test_a_printed_hop_is_read_back(hop: NextHop) -> None:
    assert NextHop.parse(str(hop)) == hop


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("ip=10.0.0.1", NextHop(NextHopKind.IP, "10.0.0.1")),
        ("IPV6=0:0:0:0:0:0:0:1", NextHop(NextHopKind.IPV6, "::1")),
        (
            "FOREIGN=557358D1-9150-9595-4997-B6E611EA26C6",
            NextHop(NextHopKind.FOREIGN, "557358d1-9150-9595-4997-b6e611ea26c6"),
        ),
    ],
)
def test_hops_are_read_in_any_spelling(text: str, hop: NextHop) -> None:
    assert NextHop.parse(text) == hop


@pytest.mark.parametrize("zone", ["a b", "a\nb", "a=b", "\u00e4", "["])
def test_an_interface_is_a_plain_word(zone: str) -> None:
    assert str(NextHop.parse("IPv6=fe80::1%eth0.7")) == "IPv6=fe80::1%eth0.7"
    with pytest.raises(IllegalPropertyValue, match="interface"):
        NextHop.parse(f"IPv6=fe80::1%{zone}")


@given(
    st.text()
    | st.builds("{}={}".format, st.sampled_from(["IP", "IPv6", "FOREIGN", "MAC"]), st.text())
)
def test_any_text_is_a_hop_or_refused(text: str) -> None:
    hop = attempt(NextHop.parse, text, IllegalPropertyValue)
    assert isinstance(hop, IllegalPropertyValue) or NextHop.parse(str(hop)) == hop
