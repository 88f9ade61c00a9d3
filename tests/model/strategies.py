"""Generated names of queues, in every form the grammar has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from posthouse.model.errors import QueueError
from posthouse.model.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    PathKind,
    PathName,
    PrivateName,
    Protocol,
    PublicName,
    SingleName,
    Suffix,
)
from posthouse.model.text import utf16_length

Value = TypeVar("Value")

RESERVED = {"private$", "system$", "journal", "deadletter", "deadxact", "xactonly"}

letters = st.characters(
    min_codepoint=0x21,
    exclude_categories=("Cc", "Cf", "Cs", "Zs", "Zl", "Zp"),
    exclude_characters='"+,;\\',
)


def names(length_max: int) -> st.SearchStrategy[str]:
    return st.text(letters, min_size=1, max_size=length_max).filter(
        lambda text: (
            utf16_length(text) <= length_max
            and text.casefold() not in RESERVED
            and not text.casefold().startswith("private$/")
        )
    )


queue_names = names(124)
subqueue_names = names(32)
hosts = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"+,;=/\\:[]'),
    min_size=1,
    max_size=250,  # leaves room for a port
).filter(lambda text: text.lower() not in RESERVED)
url_hosts = st.text(
    st.sampled_from("abcxyzABCXYZ0189._~!$&'()*-"), min_size=1, max_size=250
).filter(lambda text: text.lower() not in RESERVED)
guids = st.binary(min_size=16, max_size=16)
ports = st.integers(1, 0xFFFF)
ipv4 = st.ip_addresses(v=4).map(str)
ipv6 = st.ip_addresses(v=6).map(str)
system_suffixes = st.sampled_from([Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT])
journal_or_none = st.sampled_from([Suffix.NONE, Suffix.JOURNAL])
maybe_port = st.none() | ports


def path_names() -> st.SearchStrategy[PathName]:
    kinds = st.sampled_from([PathKind.PUBLIC, PathKind.PRIVATE])
    return st.one_of(
        st.builds(PathName, hosts, queue_names, kinds, suffix=journal_or_none),
        st.builds(PathName, hosts, queue_names, kinds, subqueue_names),
        st.builds(
            PathName, hosts, st.just("system$"), st.just(PathKind.SYSTEM), suffix=system_suffixes
        ),
    )


def _direct(
    protocols: list[Protocol],
    addresses: st.SearchStrategy[str],
    port: st.SearchStrategy[int | None] = maybe_port,
) -> st.SearchStrategy[DirectName]:
    protocol = st.sampled_from(protocols)
    no = st.just(False)
    return st.one_of(
        st.builds(
            DirectName,
            protocol,
            addresses,
            port,
            queue_names,
            st.booleans(),
            no,
            suffix=journal_or_none,
        ),
        st.builds(
            DirectName, protocol, addresses, port, queue_names, st.booleans(), no, subqueue_names
        ),
        st.builds(
            DirectName,
            protocol,
            addresses,
            port,
            st.just("system$"),
            no,
            st.just(True),
            suffix=system_suffixes,
        ),
    )


def direct_names() -> st.SearchStrategy[DirectName]:
    return st.one_of(
        _direct([Protocol.TCP], ipv4 | ipv6),
        _direct([Protocol.OS], hosts | ipv4 | ipv6),
        _direct([Protocol.HTTP, Protocol.HTTPS], url_hosts | ipv4 | ipv6),
        _direct([Protocol.IPX], st.just("00000012:00a03e214fbc"), st.none()),
        _direct([Protocol.SPX], st.just("00000012.00a03e214fbc"), st.none()),
    )


def single_names() -> st.SearchStrategy[SingleName]:
    domains = st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), max_size=255
    )
    groups = st.ip_addresses(v=4, network="224.0.0.0/4").map(str)
    return st.one_of(
        direct_names(),
        st.builds(PublicName, guids, journal_or_none),
        st.builds(PrivateName, guids, st.integers(0, 0xFFFFFFFF), journal_or_none),
        st.builds(MachineName, guids, system_suffixes),
        st.builds(ConnectorName, guids, st.sampled_from([Suffix.NONE, Suffix.XACTONLY])),
        st.builds(DistributionListName, guids, domains),
        st.builds(MulticastName, groups, st.integers(0, 0xFFFF)),
    )


def format_names() -> st.SearchStrategy[FormatName]:
    listable = single_names().filter(lambda name: name.suffix in (Suffix.NONE, Suffix.XACTONLY))
    lists = st.lists(listable, min_size=2, max_size=4).map(lambda found: MultipleName(tuple(found)))
    return single_names() | lists


def near_names() -> st.SearchStrategy[str]:
    """Any text, and texts close enough to names to reach every branch of the parsers."""
    pieces = st.sampled_from(
        [
            "DIRECT=",
            "PUBLIC=",
            "PRIVATE=",
            "MACHINE=",
            "CONNECTOR=",
            "DL=",
            "MULTICAST=",
            "TCP:",
            "os:",
            "HTTP:",
            "HTTPS://",
            "IPX:",
            "SPX:",
            "//",
            "/",
            "\\",
            "msmq/",
            "private$",
            "system$",
            ";",
            "journal",
            "127.0.0.1",
            "[::1]",
            "[",
            "]",
            ":",
            ":80",
            ":99999",
            "::",
            ",",
            "@",
            "=",
            "%",
            ".",
            "host",
            "q",
            "\0",
            "\ud800",
            "\u0130",
            "\u212a",
            "557358d1-9150-9595-4997-b6e611ea26c6",
            "234.1.1.1",
            "0000000d",
            "²",
            "h" * 250,
            "q" * 120,
        ]
    )
    return st.text() | st.lists(pieces, max_size=12).map("".join)


def attempt(
    parse: Callable[[str], Value], text: str, *refusals: type[QueueError]
) -> Value | QueueError:
    """What a parser makes of a text; only the named refusals are caught."""
    try:
        return parse(text)
    except refusals as error:
        return error
