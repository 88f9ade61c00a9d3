"""Path names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalQueuePathname
from posthouse.model.paths import PathName
from posthouse.model.queue_name_parts import PathKind, Suffix
from tests.model.strategies import attempt, near_names, path_names

ORDERS = PathName("HOST", "orders", PathKind.PRIVATE)


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/4")
@given(path_names())
def test_a_printed_path_is_read_back(path: PathName) -> None:
    assert PathName.parse(str(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (r".\private$\orders", PathName(".", "orders", PathKind.PRIVATE)),
        ("HOST/private$/orders", ORDERS),
        (r"HOST\PRIVATE$\orders", ORDERS),
        (r"HOST\private$/orders", ORDERS),
        (r".\private$\orders;poison", PathName(".", "orders", PathKind.PRIVATE, "poison")),
        (r"HOST\q", PathName("HOST", "q", PathKind.PUBLIC)),
        (r"HOST\q;Journal", PathName("HOST", "q", PathKind.PUBLIC, suffix=Suffix.JOURNAL)),
        (
            r".\SYSTEM$;DEADLETTER",
            PathName(".", "system$", PathKind.SYSTEM, suffix=Suffix.DEADLETTER),
        ),
        ("./system$;journal", PathName(".", "system$", PathKind.SYSTEM, suffix=Suffix.JOURNAL)),
    ],
)
def test_the_forms_of_the_contract_are_read(text: str, path: PathName) -> None:
    assert PathName.parse(text) == path


def test_slashes_inside_a_queue_name_belong_to_it() -> None:
    assert PathName.parse(r".\private$\a/b").queue == "a/b"
    assert PathName.parse("./private$/a/b").queue == "a/b"


def test_names_are_printed_with_backslashes_and_lower_case_keywords() -> None:
    assert str(PathName.parse("Host/PRIVATE$/Orders;JOURNAL")) == r"Host\private$\Orders;journal"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "no backslash"),
        ("orders", "no backslash"),
        ("\\", "computer name is missing"),
        (r"\q", "computer name is missing"),
        ("HOST\\", "queue name is missing"),
        (r"HOST\private$" + "\\", "queue name is missing"),
        (r"HOST\private$", "reserved"),
        (r"HOST\system$", "reserved"),
        (r"HOST\system$;", "system queues are"),
        (r"HOST\system$;orders", "system queues are"),
        (r"HOST\q;", "follows the semicolon"),
        (r"HOST\q;a;b", "';' (character 2)"),
        (r"HOST\q;deadletter", "only ;journal"),
        (r"HOST\q;xactonly", "only ;journal"),
        (r"HOST\a\b", "'\\\\'"),
        (r"HOST\a b", "a space"),
        ("HOST\\a\n", "U+000A"),
        ("HOST\\a\ud800", "U+D800"),
        (r"HO ST\q", "a space"),
        (r"private$\orders", "in front of private$"),
        ("SYSTEM$/orders", "in front of SYSTEM$"),
        ("HÖST\\q", "'Ö'"),
        (r"A=B\q", "'='"),
        ("H" * 257 + r"\q", "at most 256"),
        ("HOST\\" + "q" * 125, "has 125 characters"),
        ("HOST\\q;" + "s" * 33, "has 33 characters"),
        ("x" * 10_000_000, "at most 512"),
    ],
)
def test_what_is_no_path_is_refused_with_its_cause(text: str, cause: str) -> None:
    with pytest.raises(IllegalQueuePathname) as caught:
        PathName.parse(text)
    assert cause in caught.value.cause


def test_the_longest_parts_are_accepted() -> None:
    path = PathName.parse("H" * 256 + "\\private$\\" + "q" * 124 + ";" + "s" * 32)
    assert (len(path.computer), len(path.queue), len(path.subqueue)) == (256, 124, 32)


@given(near_names())
def test_any_text_is_a_path_or_refused(text: str) -> None:
    path = attempt(PathName.parse, text, IllegalQueuePathname)
    assert isinstance(path, IllegalQueuePathname) or PathName.parse(str(path)) == path


def test_letter_case_does_not_distinguish_queues() -> None:
    other = PathName.parse(r"host\Private$\ORDERS")
    assert other != ORDERS
    assert other.key == ORDERS.key == r"host\private$\orders"
    assert other.local_key == r"private$\orders"


few = st.sampled_from(["a", "A", "ab", "\u017f", "S", "a/b", "private$x"])
small_paths = st.builds(
    PathName, few.filter(lambda name: name in "aAab"), few, st.sampled_from(list(PathKind)[:2]), few
)


@given(small_paths, small_paths)
def test_keys_are_equal_when_all_parts_are(one: PathName, other: PathName) -> None:
    def parts(path: PathName) -> list[object]:
        return [path.kind, path.queue.casefold(), path.subqueue.casefold()]

    same = parts(one) == parts(other)
    assert (one.local_key == other.local_key) == same
    assert (one.key == other.key) == (same and one.computer.lower() == other.computer.lower())


@pytest.mark.parametrize("text", ["\u017fystem$;journal", "\u017fystem$", "PR\u0131VATE$/x"])
def test_look_alikes_cannot_share_the_key_of_a_system_queue(text: str) -> None:
    path = attempt(PathName.parse, f"HOST\\{text}", IllegalQueuePathname)
    if isinstance(path, PathName):
        assert not path.local_key.startswith(("system$", "private$"))


@given(path_names())
def test_the_parent_is_the_queue_itself(path: PathName) -> None:
    parent = path.parent
    assert parent.parent == parent
    assert parent.subqueue == ""
    assert path.key.startswith(parent.key)
    assert (parent == path) == (path.kind is PathKind.SYSTEM or str(path) == str(parent))


def test_relatives_of_a_queue() -> None:
    assert str(ORDERS.with_subqueue("poison")) == r"HOST\private$\orders;poison"
    assert str(ORDERS.journal()) == r"HOST\private$\orders;journal"
    assert ORDERS.journal().parent == ORDERS.with_subqueue("x").parent == ORDERS


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/4")
def test_the_qualified_path_differs_in_the_computer_only() -> None:
    qualified = ORDERS.with_computer("host.example.org")
    assert str(qualified) == r"host.example.org\private$\orders"
    assert qualified.local_key == ORDERS.local_key


@given(st.sampled_from(["", "a b", "x" * 257, "a\\b", "ä"]))
def test_a_path_cannot_be_built_on_a_bad_computer(computer: str) -> None:
    with pytest.raises(IllegalQueuePathname):
        ORDERS.with_computer(computer)
