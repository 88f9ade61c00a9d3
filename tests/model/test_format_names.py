"""Format names as values."""

from __future__ import annotations

import pytest
from hypothesis import given

from posthouse.model.errors import IllegalFormatName
from posthouse.model.format_name_parser import parse_format_name
from posthouse.model.format_names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    FormatType,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    Protocol,
    PublicName,
)
from posthouse.model.guids import parse_guid
from posthouse.model.paths import PathName
from posthouse.model.queue_name_parts import PathKind, Suffix
from tests.model.strategies import direct_names, format_names

TEXT = "557358d1-9150-9595-4997-b6e611ea26c6"
GUID = parse_guid(TEXT)
DIRECT = DirectName(Protocol.OS, "host", None, "q", private=True)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        (DIRECT, r"DIRECT=OS:host\private$\q", FormatType.DIRECT),
        (
            DirectName(Protocol.TCP, "127.0.0.1", 41801, "q"),
            r"DIRECT=TCP:127.0.0.1:41801\q",
            FormatType.DIRECT,
        ),
        (DirectName(Protocol.TCP, "::1", None, "q"), r"DIRECT=TCP:::1\q", FormatType.DIRECT),
        (DirectName(Protocol.TCP, "::1", 1, "q"), r"DIRECT=TCP:[::1]:1\q", FormatType.DIRECT),
        (
            DirectName(Protocol.HTTP, "h", None, "q", private=True),
            "DIRECT=HTTP://h/msmq/private$/q",
            FormatType.DIRECT,
        ),
        (
            DirectName(Protocol.HTTPS, "::1", None, "q"),
            "DIRECT=HTTPS://[::1]/msmq/q",
            FormatType.DIRECT,
        ),
        (
            DirectName(Protocol.OS, "h", None, "q", subqueue="s"),
            r"DIRECT=OS:h\q;s",
            FormatType.SUBQUEUE,
        ),
        (
            DirectName(Protocol.OS, "h", None, "system$", system=True, suffix=Suffix.DEADXACT),
            r"DIRECT=OS:h\system$;deadxact",
            FormatType.DIRECT,
        ),
        (PublicName(GUID), f"PUBLIC={TEXT}", FormatType.PUBLIC),
        (PrivateName(GUID, 13), f"PRIVATE={TEXT}\\0000000d", FormatType.PRIVATE),
        (MachineName(GUID, Suffix.JOURNAL), f"MACHINE={TEXT};journal", FormatType.MACHINE),
        (
            ConnectorName(GUID, Suffix.XACTONLY),
            f"CONNECTOR={TEXT};xactonly",
            FormatType.CONNECTOR,
        ),
        (DistributionListName(GUID), f"DL={TEXT}", FormatType.DL),
        (DistributionListName(GUID, "corp"), f"DL={TEXT}@corp", FormatType.DL),
        (MulticastName("234.1.2.3", 8001), "MULTICAST=234.1.2.3:8001", FormatType.MULTICAST),
        (
            MultipleName((PublicName(GUID), DIRECT)),
            rf"PUBLIC={TEXT},DIRECT=OS:host\private$\q",
            FormatType.UNKNOWN,
        ),
    ],
)
def test_names_print_and_know_their_type(name: FormatName, text: str, kind: FormatType) -> None:
    assert str(name) == text
    assert name.type is kind
    assert name.key == text.lower()


@given(direct_names())
def test_the_wire_text_lacks_the_keyword_only(name: DirectName) -> None:
    assert str(name) == f"DIRECT={name.wire}"


@given(format_names())
def test_keys_know_no_letter_case(name: FormatName) -> None:
    assert name.key == name.key.casefold()


def test_names_without_parts_have_no_suffix() -> None:
    for name in (
        DistributionListName(GUID),
        MulticastName("234.1.1.1", 1),
        MultipleName((DIRECT, DIRECT)),
    ):
        assert name.suffix is Suffix.NONE


def test_a_key_does_not_depend_on_the_spelling_of_an_ipv6_address() -> None:
    long = DirectName(Protocol.TCP, "0:0:0:0:0:0:0:1", None, "Q")
    assert long.key == DirectName(Protocol.TCP, "::1", None, "q").key


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/9")
def test_a_port_is_part_of_the_identity() -> None:
    keys = {DirectName(Protocol.TCP, "10.0.0.1", port, "q").key for port in (None, 1801, 1802)}
    assert len(keys) == 3


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/1")
@pytest.mark.parametrize("protocol", [Protocol.TCP, Protocol.OS])
def test_the_path_of_a_direct_name_is_its_address_and_the_rest(protocol: Protocol) -> None:
    name = DirectName(protocol, "10.0.0.1", 1801, "q", private=True, subqueue="s")
    assert name.machine == "10.0.0.1:1801"
    assert name.path == PathName("10.0.0.1:1801", "q", PathKind.PRIVATE, "s")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.26/2")
@pytest.mark.parametrize("protocol", [Protocol.HTTP, Protocol.HTTPS])
def test_a_web_name_has_a_machine_but_no_path(protocol: Protocol) -> None:
    name = DirectName(protocol, "host", 8080, "q")
    assert name.machine == "host"
    assert name.path is None


@given(direct_names())
def test_every_other_direct_name_has_a_path(name: DirectName) -> None:
    assert (name.path is None) == name.is_web
    if name.path is not None:
        assert f"{name.protocol}:{name.path}" == name.wire


@pytest.mark.parametrize(
    ("protocol", "host", "port", "cause"),
    [
        (Protocol.TCP, "host", None, "DIRECT=OS:"),
        (Protocol.TCP, "1.2.3", None, "not an IP address"),
        (Protocol.TCP, "01.2.3.4", None, "not an IP address"),
        (Protocol.TCP, ":::", None, "not an IP address"),
        (Protocol.OS, "a:b:c", None, "not an IP address"),
        (Protocol.OS, "[host]", None, "brackets"),
        (Protocol.OS, "", None, "missing"),
        (Protocol.OS, "a/b", None, "'/'"),
        (Protocol.OS, "h", 0, "between 1 and 65535"),
        (Protocol.OS, "h", 65536, "between 1 and 65535"),
        (Protocol.SPX, "host", None, "not an address of SPX"),
        (Protocol.IPX, "12:34", 1, "no port"),
    ],
)
def test_bad_addresses_are_refused(
    protocol: Protocol, host: str, port: int | None, cause: str
) -> None:
    with pytest.raises(IllegalFormatName) as caught:
        DirectName(protocol, host, port, "q")
    assert cause in caught.value.cause


def test_read_only_queues_and_machines_cannot_be_listed() -> None:
    for name in (
        DirectName(Protocol.OS, "h", None, "q", suffix=Suffix.JOURNAL),
        DirectName(Protocol.OS, "h", None, "system$", system=True, suffix=Suffix.DEADLETTER),
        PublicName(GUID, Suffix.JOURNAL),
        PrivateName(GUID, 1, Suffix.JOURNAL),
        MachineName(GUID, Suffix.DEADXACT),
    ):
        with pytest.raises(IllegalFormatName, match="read-only"):
            MultipleName((DIRECT, name))


def test_lists_are_neither_nested_nor_short_nor_endless() -> None:
    inner = MultipleName((DIRECT, DIRECT))
    with pytest.raises(IllegalFormatName, match="element of a list"):
        MultipleName((DIRECT, inner))  # type: ignore[arg-type]
    with pytest.raises(IllegalFormatName, match="2 to 4096"):
        MultipleName((DIRECT,))
    with pytest.raises(IllegalFormatName, match="2 to 4096"):
        MultipleName((DIRECT,) * 4097)
    with pytest.raises(IllegalFormatName, match="more than 256 names") as refused:
        parse_format_name(",".join([str(DIRECT)] * 257))
    assert "distribution list" in refused.value.remedy


@pytest.mark.parametrize("suffix", [s for s in Suffix if s not in (Suffix.NONE, Suffix.JOURNAL)])
def test_suffixes_fit_their_kind_of_name(suffix: Suffix) -> None:
    with pytest.raises(IllegalFormatName):
        PublicName(GUID, suffix)
    with pytest.raises(IllegalFormatName):
        PrivateName(GUID, 1, suffix)


@pytest.mark.parametrize("suffix", [Suffix.NONE, Suffix.XACTONLY, Suffix.SUBQUEUE])
def test_a_machine_name_needs_one_of_its_system_queues(suffix: Suffix) -> None:
    with pytest.raises(IllegalFormatName, match="machine name"):
        MachineName(GUID, suffix)


@pytest.mark.parametrize(
    ("address", "port"),
    [("223.255.255.255", 1), ("240.0.0.0", 1), ("host", 1), ("234.1.1.1", 65536), ("::1", 1)],
)
def test_multicast_names_have_a_group_and_a_port(address: str, port: int) -> None:
    with pytest.raises(IllegalFormatName):
        MulticastName(address, port)


def test_numbers_of_private_queues_have_32_bits() -> None:
    with pytest.raises(IllegalFormatName, match="32 bits"):
        PrivateName(GUID, 0x1_0000_0000)


@pytest.mark.parametrize("domain", ["a b", "a,b", "ä", "x" * 256])
def test_domains_have_their_alphabet_and_length(domain: str) -> None:
    with pytest.raises(IllegalFormatName, match="domain"):
        DistributionListName(GUID, domain)
