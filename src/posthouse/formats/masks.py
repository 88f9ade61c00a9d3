"""Masks: fields of bodies, named by JSONPath or XPath, replaced before someone sees them.

A small part of both languages, so that the work is bounded by the size of the body. JSONPath:
`$.card.number`, `$..number`, `[*]`, `[0]`, `['a name']`. XPath: `/order/card`, `//card`, `*`, and
`@name` last. Names match without regard to case, and those of XML without their namespace: a
reader on the other side may take them so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, tostring

import msgspec

from posthouse.formats.limits import FormatError, Limits
from posthouse.formats.xml.tree import local, read_document
from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt

MASKED: Final = "***"
PATH_LENGTH_MAX: Final = 512
STEPS_MAX: Final = 32
BODY_MAX: Final = 4 << 20
_LIMITS: Final = Limits(
    size=BODY_MAX, text=BODY_MAX, elements=30_000, items=200_000, attributes=30_000
)
_JSON_STEP: Final = re.compile(
    r"""(?P<deep>\.\.)?(?:\.?(?P<name>[^\W\d][\w$-]*)|\.?(?P<star>\*)|\[(?:(?P<all>\*)|"""
    r"""(?P<index>[0-9]{1,9})|'(?P<single>[^']{1,100})'|"(?P<double>[^"]{1,100})")\])"""
)
_XML_STEP: Final = re.compile(r"(?P<slashes>//?)(?P<at>@)?(?P<name>\*|[^\W\d][\w.-]*)")


class _Step(NamedTuple):
    """One step of a path: a name, an index, or None for any; `deep`: at any depth."""

    name: str | int | None
    deep: bool = False
    attribute: bool = False


class MaskPath(NamedTuple):
    """A path that was read."""

    text: str
    is_xml: bool
    steps: tuple[_Step, ...]


def parse_mask(text: str) -> MaskPath:
    """The path of a text; InvalidParameter for one that is not in the part that is known."""
    if len(text) > PATH_LENGTH_MAX:
        raise InvalidParameter(f"the path of a mask has at most {PATH_LENGTH_MAX} characters")
    is_xml = text.startswith("/")
    steps = _steps_of_xml(text) if is_xml else _steps_of_json(text)
    if not 0 < len(steps) <= STEPS_MAX or any(step.attribute for step in steps[:-1]):
        raise _unknown(text)
    return MaskPath(text, is_xml, tuple(steps))


def _unknown(text: str) -> InvalidParameter:
    return InvalidParameter(
        f"{excerpt(text)} is not a path of a mask",
        "Write JSONPath such as $.card.number or $..number, or XPath such as //card/@number.",
    )


def _steps_of_xml(text: str) -> list[_Step]:
    steps, at = list[_Step](), 0
    while at < len(text):
        found = _XML_STEP.match(text, at)
        if found is None:
            raise _unknown(text)
        name = None if found["name"] == "*" else found["name"].casefold()
        steps.append(_Step(name, found["slashes"] == "//", found["at"] is not None))
        at = found.end()
    return steps


def _steps_of_json(text: str) -> list[_Step]:
    if not text.startswith("$"):
        raise _unknown(text)
    steps, at = list[_Step](), 1
    while at < len(text):
        found = _JSON_STEP.match(text, at)
        if found is None or found.group()[0] not in ".[":
            raise _unknown(text)
        name: str | int | None = found["name"] or found["single"] or found["double"]
        if found["index"] is not None:
            name = int(found["index"])
        elif name is not None:
            name = str(name).casefold()
        steps.append(_Step(name, found["deep"] is not None))
        at = found.end()
    return steps


class Masks:
    """The masks that apply to one message."""

    def __init__(self, paths: Iterable[MaskPath]) -> None:
        paths = tuple(paths)
        self._json = [path.steps for path in paths if not path.is_xml]
        self._xml = [path.steps for path in paths if path.is_xml]

    def masked(self, body: bytes, text: str | None) -> str | None:
        """The body as text with its fields masked; None for one that cannot be masked.

        `text` is the body as text, where it is some. A body in another language than those of the
        masks cannot be masked: what it holds is not known.
        """
        if len(body) > BODY_MAX:
            return None
        plain = None if text is None else text.removeprefix("\ufeff").lstrip()
        if self._json and plain and plain[0] in "{[":
            return self._masked_json(plain)
        return self._masked_xml(body) if self._xml else None

    def _masked_json(self, text: str) -> str | None:
        try:
            value = msgspec.json.decode(text)
            for steps in self._json:
                value = _mask_json(value, steps)
            return msgspec.json.encode(value).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
            return None

    def _masked_xml(self, body: bytes) -> str | None:
        try:
            document = read_document(body, _LIMITS)
            if document is None:
                return None
            holder = Element("holder")
            holder.append(document.root)
            for steps in self._xml:
                _mask_xml(holder, steps)
            return "".join(tostring(child, encoding="unicode") for child in holder)
        except (FormatError, ValueError, RecursionError):
            return None


def _mask_json(value: Any, steps: tuple[_Step, ...]) -> Any:
    """The value with what the path names replaced; without recursion over the path's depth."""
    holder = [value]
    places: list[tuple[Any, Any]] = [(holder, 0)]
    for step in steps:
        places = list(_children([parent[key] for parent, key in places], step))
    for parent, key in places:
        parent[key] = MASKED
    return holder[0]


def _children(waiting: list[Any], step: _Step) -> Iterator[tuple[Any, Any]]:
    """What a step leads to from some values; each is looked at once, even if they are nested."""
    seen = set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict | list) or id(one) in seen:
            continue
        seen.add(id(one))
        for key in _keys(one):
            if _matches(key, step.name):
                yield one, key
            if step.deep:
                waiting.append(one[key])


def _keys(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return list(value) if isinstance(value, dict) else range(len(value))


def _matches(key: Any, name: str | int | None) -> bool:
    if name is None:
        return True
    return bool(key.casefold() == name) if isinstance(key, str) else bool(key == name)


def _mask_xml(holder: Element, steps: tuple[_Step, ...]) -> None:
    places = [holder]
    for step in steps[:-1]:
        places = list(_elements(places, step))
    last = steps[-1]
    if last.attribute:
        for element in [*places, *(_elements(places, _Step(None, True)) if last.deep else ())]:
            for name in list(element.attrib):
                if _is_named(name, last):
                    element.set(name, MASKED)
        return
    for element in list(_elements(places, last)):
        tail = element.tail
        element.clear()
        element.text, element.tail = MASKED, tail


def _elements(places: list[Element], step: _Step) -> Iterator[Element]:
    """What a step leads to from some elements; each is looked at once, even if they are nested."""
    waiting, seen = [child for one in places for child in one], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if _is_named(one.tag, step):
            yield one
        if step.deep:
            waiting.extend(one)


def _is_named(tag: str, step: _Step) -> bool:
    return step.name is None or local(tag).casefold() == step.name
