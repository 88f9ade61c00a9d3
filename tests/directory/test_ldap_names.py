"""Names in an LDAP directory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.ldap.names import (
    DN_DEPTH_MAX,
    DN_LENGTH_MAX,
    BadEntry,
    Dn,
    QueueCn,
    all_of,
    any_of,
    equal,
    equal_octets,
    escaped_value,
    queue_hash,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_a_distinguished_name_is_read_and_printed() -> None:
    dn = Dn.parse(r"cn=orders\, old , CN=msmq;Cn=ALPHA,dc=x")
    assert dn.parts == (("CN", "orders, old"), ("CN", "msmq"), ("CN", "ALPHA"), ("DC", "x"))
    assert str(dn) == r"CN=orders\, old,CN=msmq,CN=ALPHA,DC=x"
    assert dn.parent.parent.name == "ALPHA"
    assert str(Dn.parse("")) == ""


def test_names_that_a_server_takes_for_one_have_one_key() -> None:
    one, other = Dn.parse("cn=Berlin  Mitte,dc=x"), Dn.parse("CN=berlin mitte, DC=X")
    assert one.key == other.key
    assert one.key != Dn.parse("CN=berlin,DC=x").key


@pytest.mark.parametrize("text", ["x", "=y", "cn", "a b=c", "cn=x\\", r"cn=\ff", "cn=x,,dc=y"])
def test_what_is_no_distinguished_name_is_a_bad_entry(text: str) -> None:
    with pytest.raises(BadEntry):
        Dn.parse(text)


def test_distinguished_names_have_limits() -> None:
    with pytest.raises(BadEntry):
        Dn.parse("cn=" + "x" * DN_LENGTH_MAX)
    with pytest.raises(BadEntry):
        Dn.parse(",".join(["cn=x"] * (DN_DEPTH_MAX + 1)))


@given(st.lists(texts, max_size=5))
def test_no_name_can_leave_its_place(names: list[str]) -> None:
    """LDAP injection: whatever a name holds, it stays one part of the distinguished name."""
    root = Dn.parse("DC=posthouse")
    dn = root.below(*names)
    again = Dn.parse(str(dn))
    assert again == dn
    assert len(again.parts) == len(names) + 1


@given(st.text(max_size=40))
def test_any_text_is_a_distinguished_name_or_refused(text: str) -> None:
    try:
        dn = Dn.parse(text)
    except BadEntry:
        return
    assert Dn.parse(str(dn)) == dn


@given(texts | st.binary(max_size=20))
def test_no_value_can_change_a_filter(value: str | bytes) -> None:
    """LDAP injection: nothing of a value has a meaning in a filter."""
    text = escaped_value(value)
    assert not set(text) & set("()*\0")
    out = bytearray()
    index = 0
    while index < len(text):
        if text[index] == "\\":
            out.append(int(text[index + 1 : index + 3], 16))
            index += 3
        else:
            out += text[index].encode()
            index += 1
    assert bytes(out) == (value.encode() if isinstance(value, str) else value)


def test_filters() -> None:
    assert equal("cn", "a*)(cn=b") == r"(cn=a\2a\29\28cn=b)"
    assert equal_octets("objectGUID", b"\x01(") == (
        r"(|(objectGUID=\01\28)(objectGUID:2.5.13.17:=\01\28))"
    )
    assert any_of("(a=1)", "(b=2)") == "(|(a=1)(b=2))"
    assert all_of("(a=1)", "(b=2)") == "(&(a=1)(b=2))"
    assert any_of("(a=1)") == all_of("(a=1)") == "(a=1)"


def test_the_hash_of_a_queue_name_is_the_documents() -> None:
    assert f"{queue_hash('orders'):08x}" == "2fa7868f"
    assert queue_hash("ORDERS") == queue_hash("orders")


def test_a_long_queue_name_is_cut_and_its_rest_kept() -> None:
    name = "q" * 60 + "rest of it"
    cut = QueueCn.of(name)
    assert cut.cn == f"{'q' * 55}-{queue_hash(name):08x}"
    assert (len(cut.cn), cut.extension) == (64, name[55:])
    assert cut.name == name
    assert QueueCn.of("q" * 63) == QueueCn("q" * 63)
    assert QueueCn.of("q" * 64).extension == "q" * 9


def test_backslashes_of_other_writers_are_left_out() -> None:
    assert QueueCn("a\\=b\\/c").name == "a=b/c"


@given(st.text("abcÄ=#/<> é", min_size=1, max_size=124))
def test_any_queue_name_survives_the_directory(name: str) -> None:
    assert QueueCn.of(name).name == name
    assert len(QueueCn.of(name).cn) <= 64
