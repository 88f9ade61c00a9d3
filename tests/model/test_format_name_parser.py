"""Format names read from text."""

from __future__ import annotations

import pytest
from hypothesis import given

from posthouse.model.errors import IllegalFormatName
from posthouse.model.format_name_parser import (
    ELEMENT_LENGTH_MAX,
    FORMAT_NAME_LENGTH_MAX,
    direct_from_wire,
    direct_name_of,
    far_name_of,
    parse_format_name,
)
from posthouse.model.format_names import DirectName, FormatName, MultipleName, Protocol
from posthouse.model.paths import PathName
from posthouse.model.queue_name_parts import PathKind, Suffix
from tests.model.strategies import attempt, direct_names, format_names, near_names

GUID = "557358d1-9150-9595-4997-b6e611ea26c6"


@given(format_names())
def test_a_printed_name_is_read_back(name: FormatName) -> None:
    assert parse_format_name(str(name)) == name


@given(direct_names())
def test_wire_text_is_read_back(name: DirectName) -> None:
    assert direct_from_wire(name.wire) == name


@given(near_names())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    for parse in (parse_format_name, direct_from_wire):
        name = attempt(parse, text, IllegalFormatName)
        assert isinstance(name, IllegalFormatName) or parse_format_name(str(name)) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (r"direct=tcp:10.0.0.1\q", DirectName(Protocol.TCP, "10.0.0.1", None, "q")),
        (r"DIRECT=TCP:[::1]\q", DirectName(Protocol.TCP, "::1", None, "q")),
        (r"DIRECT=OS:.\private$\q", DirectName(Protocol.OS, ".", None, "q", private=True)),
        (
            r"DIRECT=TCP:127.0.0.1:41801\private$\orders",
            DirectName(Protocol.TCP, "127.0.0.1", 41801, "orders", private=True),
        ),
        (
            r"DIRECT=OS:host\PRIVATE$\q;JOURNAL",
            DirectName(Protocol.OS, "host", None, "q", private=True, suffix=Suffix.JOURNAL),
        ),
        (
            r"DIRECT=OS:host\SYSTEM$;JOURNAL",
            DirectName(Protocol.OS, "host", None, "system$", system=True, suffix=Suffix.JOURNAL),
        ),
        (
            "DIRECT=HTTP://host:8080/MSMQ/PRIVATE$/q",
            DirectName(Protocol.HTTP, "host", 8080, "q", private=True),
        ),
        (
            r"DIRECT=https://host/msmq\private$\q",
            DirectName(Protocol.HTTPS, "host", None, "q", private=True),
        ),
        ("DIRECT=HTTP://host/msmq/a/b", DirectName(Protocol.HTTP, "host", None, "a/b")),
        (
            r"DIRECT=SPX:00000012.00a03e214fbc\q",
            DirectName(Protocol.SPX, "00000012.00a03e214fbc", None, "q"),
        ),
    ],
)
def test_direct_names_are_read(text: str, name: DirectName) -> None:
    assert parse_format_name(text) == name


@pytest.mark.parametrize("word", ["JOURNAL", "journal", "Journal"])
def test_reserved_words_come_before_subqueues(word: str) -> None:
    name = parse_format_name(rf"DIRECT=OS:h\q;{word}")
    assert isinstance(name, DirectName)
    assert (name.suffix, name.subqueue) == (Suffix.JOURNAL, "")


@pytest.mark.parametrize(
    ("digits", "number"), [("d", 13), ("0000000D", 13), ("FFFFFFFF", 0xFFFFFFFF), ("0", 0)]
)
def test_private_numbers_have_one_to_eight_digits(digits: str, number: int) -> None:
    assert str(parse_format_name(rf"private={GUID}\{digits}")) == rf"PRIVATE={GUID}\{number:08x}"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "does not begin with"),
        ("orders", "does not begin with"),
        ("FOO=bar", "does not begin with"),
        ("D\u0131RECT=OS:h\\q", "does not begin with"),
        ("DIRECT=", "not a protocol"),
        (r"DIRECT=UDP:1.2.3.4\q", "not a protocol; known are TCP, OS, HTTP, HTTPS, IPX, SPX"),
        ("DIRECT=OS:host", "no backslash"),
        ("DIRECT=OS:" + "h" * 257 + r"\q", "at most 256"),
        ("DIRECT=OS:" + "h" * 254 + r":80\q", "at most 256"),
        ("DIRECT=OS:host/private$/q", "no backslash"),
        (r"DIRECT=OS:host\private$/q", "reserved"),
        (r"DIRECT=OS:host\q;", "follows the semicolon"),
        (r"DIRECT=OS:host\q;a;b", "';'"),
        (r"DIRECT=OS:host\q;deadletter", "only ;journal"),
        (r"DIRECT=OS:host\system$;orders", "system queues are"),
        (r"DIRECT=TCP:host\q", "'host' is not an IP address"),
        (r"DIRECT=TCP:1.2.3.4:x\q", "after the colon"),
        (r"DIRECT=TCP:1.2.3.4:70000\q", "between 1 and 65535"),
        (r"DIRECT=TCP:[::1\q", "[IPv6]"),
        (r"DIRECT=OS:[host]:80\q", "[IPv6]"),
        ("DIRECT=HTTP:host/msmq/q", "HTTP://host/msmq/queue"),
        ("DIRECT=HTTP://host/q", "HTTP://host/msmq/queue"),
        ("DIRECT=HTTP://::1/msmq/q", "brackets"),
        ("DIRECT=HTTP://ours@theirs/msmq/q", "host of a URL"),
        ("DIRECT=HTTP://host?x/msmq/q", "host of a URL"),
        ("DIRECT=HTTP://host#x:80/msmq/q", "host of a URL"),
        ("DIRECT=HTTPS://h%6Fst/msmq/q", "host of a URL"),
        (r"DIRECT=TCP:fe80::1%a]b\q", "brackets"),
        (r"DIRECT=OS:private$\orders", "in front of private$"),
        ("DIRECT=HTTP:///msmq/q", "missing"),
        ("DIRECT=HTTP://host/msmq/", "missing"),
        ("PUBLIC=x", "8-4-4-4-12"),
        ("PUBLIC={" + GUID + "}", "8-4-4-4-12"),
        (f"PUBLIC={GUID};sub", "only direct names have subqueues"),
        (f"PUBLIC={GUID};deadletter", "public name"),
        (f"PRIVATE={GUID}", "1 to 8 hex digits"),
        (f"PRIVATE={GUID}\\123456789", "1 to 8 hex digits"),
        (f"MACHINE={GUID}", "machine name"),
        (f"CONNECTOR={GUID};journal", "connector name"),
        (f"DL={GUID}@", "GUID"),
        ("MULTICAST=1.2.3.4:5", "multicast address"),
        ("MULTICAST=234.1.1.1", "a port"),
        ("MULTICAST=234.1.1.1:65536", "between 0 and 65535"),
        (f"PUBLIC={GUID},", "element 2 of the list"),
        (f"PUBLIC={GUID},FOO=1", "element 2 of the list"),
        (f"PUBLIC={GUID},MACHINE={GUID};journal", "read-only"),
        (f"PUBLIC={GUID}" + f",PUBLIC={GUID}" * 256, "more than 256 names"),
    ],
)
def test_what_is_no_name_is_refused_with_its_cause(text: str, cause: str) -> None:
    with pytest.raises(IllegalFormatName) as caught:
        parse_format_name(text)
    assert cause in caught.value.cause


def test_lists_keep_their_order() -> None:
    name = parse_format_name(rf"DIRECT=OS:b\q,PUBLIC={GUID},DIRECT=OS:a\q")
    assert isinstance(name, MultipleName)
    assert [str(element)[:9] for element in name.names] == ["DIRECT=OS", "PUBLIC=55", "DIRECT=OS"]


def test_longest_names_fit_and_longer_texts_are_refused_unread() -> None:
    host, queue, sub = "h" * 256, "q" * 124, "s" * 32
    longest = f"DIRECT=HTTPS://{host}:65535/msmq/private$/{queue};{sub}"
    assert isinstance(parse_format_name(",".join([longest] * 256)), MultipleName)
    for text in (
        "DIRECT=OS:" + "x" * ELEMENT_LENGTH_MAX,
        "PUBLIC=" + "," * FORMAT_NAME_LENGTH_MAX,
        "a" * 20_000_000,
    ):
        with pytest.raises(IllegalFormatName, match="at most"):
            parse_format_name(text)
    with pytest.raises(IllegalFormatName, match="at most 512"):
        direct_from_wire("OS:" + "x" * 1_000_000)


def test_a_path_has_a_direct_name() -> None:
    path = PathName("HOST:1801", "q", PathKind.PRIVATE, "s")
    assert str(direct_name_of(path)) == r"DIRECT=OS:HOST:1801\private$\q;s"
    with pytest.raises(IllegalFormatName):
        direct_name_of(path, Protocol.TCP)


@pytest.mark.parametrize(
    ("computer", "name"),
    [
        ("host", r"DIRECT=OS:host\private$\q"),
        ("10.1.2.3", r"DIRECT=TCP:10.1.2.3\private$\q"),
        ("10.1.2.3.example", r"DIRECT=OS:10.1.2.3.example\private$\q"),
    ],
)
def test_a_machine_takes_its_address_in_tcp_names_only(computer: str, name: str) -> None:
    assert str(far_name_of(PathName(computer, "q", PathKind.PRIVATE))) == name


def test_the_path_of_a_url_keeps_its_spelling() -> None:
    text = "http://Host/MSMQ/Private$/Receipts?SenderStream=XRntV"
    name = parse_format_name(f"DIRECT={text}")
    same = parse_format_name(f"DIRECT={text.lower()}")
    assert str(name) == "DIRECT=HTTP://Host/MSMQ/Private$/Receipts?SenderStream=XRntV"
    assert name.key == same.key == str(same).lower()
    assert parse_format_name(str(name)) == name
