"""The interface of a directory: reads, changes, filters, sort orders, results.

The embedded directory is one implementation; LDAP will be a second ([MS-MQDMPR] 3.1.7.1.18 to
3.1.7.1.24; decision 52).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from posthouse.directory.objects import DirectoryObject
from posthouse.model.errors import IllegalPropertyId, IllegalPropertyValue
from posthouse.model.guids import NULL_GUID
from posthouse.model.properties import DirectoryOperationResult as DirectoryOperationResult
from posthouse.model.text import excerpt
from posthouse.security import rights
from posthouse.security.access import Caller, granted
from posthouse.security.descriptors import unpack_descriptor

Kind = TypeVar("Kind", bound=DirectoryObject)

# One set of bits for every kind, like that for deleting ([MS-MQMQ] 2.2.23 to 2.2.27).
GET_PROPERTIES: Final = rights.GET_QUEUE_PROPERTIES
SET_PROPERTIES: Final = rights.SET_QUEUE_PROPERTIES


class Operator(Enum):
    """The comparisons of a filter, [MS-MQDMPR] 3.1.7.1.20."""

    EQUALS = "="
    NOT_EQUALS = "!="
    LESS_THAN = "<"
    GREATER_THAN = ">"
    LESS_THAN_OR_EQUAL = "<="
    GREATER_THAN_OR_EQUAL = ">="


class Filter(NamedTuple):
    """An attribute-filter expression: attribute on the left, value on the right."""

    attribute: str
    operator: Operator
    value: object


class SortOrder(NamedTuple):
    """How results are sorted by one attribute; a higher priority sorts first, 0 not at all."""

    attribute: str
    priority: int
    ascending: bool = True


def equals(attribute: str, value: object) -> tuple[Filter]:
    """The filter most events use."""
    return (Filter(attribute, Operator.EQUALS, value),)


class Created(NamedTuple):
    """Result of a creation."""

    status: DirectoryOperationResult
    identifier: bytes = NULL_GUID


class Found(NamedTuple, Generic[Kind]):
    """Result of a read: `filled` names the attributes of `value` that may be used."""

    status: DirectoryOperationResult
    value: Kind | None = None
    filled: frozenset[str] = frozenset()

    def merged(self, current: Kind) -> Kind:
        """`current` with the attributes that were read, its other ones as they were."""
        assert self.value is not None
        return overlaid(current, self.value, self.filled - {"identifier"})


class Begun(NamedTuple):
    """Result of the beginning of a query."""

    status: DirectoryOperationResult
    handle: int = 0


class Directory(Protocol):
    """The directory that the events ask; `identity` None is the queue manager itself."""

    def create(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        identity: Caller | None = None,
    ) -> Created:
        """Stores a new object, with all its directory attributes or those named."""
        ...

    def delete(
        self, value: DirectoryObject, identity: Caller | None = None
    ) -> DirectoryOperationResult:
        """Removes the object with this kind and identifier."""
        ...

    def read(
        self,
        kind: type[Kind],
        filters: Sequence[Filter] = (),
        attributes: Collection[str] | None = None,
        identity: Caller | None = None,
    ) -> Found[Kind]:
        """The first object of the kind that all filters fit."""
        ...

    def begin(
        self,
        kind: type[DirectoryObject],
        filters: Sequence[Filter] = (),
        attributes: Collection[str] | None = None,
        sort: Sequence[SortOrder] = (),
        identity: Caller | None = None,
    ) -> Begun:
        """Begins a query for all objects that the filters fit, in the order asked for."""
        ...

    def next(self, handle: int) -> Found[Any]:
        """The next object of a query, END_OF_DATA after the last."""
        ...

    def end(self, handle: int) -> DirectoryOperationResult:
        """Ends a query; its handle is no longer valid."""
        ...

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        identity: Caller | None = None,
    ) -> DirectoryOperationResult:
        """Updates all directory attributes of an object, or those named."""
        ...


def allowed(value: DirectoryObject, identity: Caller | None, desired: int) -> bool:
    """The one access check on an object; without a descriptor others may read and no more."""
    if identity is None or identity.is_administrator:
        return True
    security = getattr(value, "security", b"")
    if not security or value.access_masks is None:
        return desired == GET_PROPERTIES
    return granted(unpack_descriptor(security), identity, desired, masks=value.access_masks)


def concealed(value: DirectoryObject, identity: Caller | None) -> frozenset[str]:
    """The attributes that need more than the right to read properties: who may do what."""
    shown = not hasattr(value, "security") or allowed(value, identity, rights.READ_CONTROL)
    return frozenset() if shown else frozenset({"security"})


def check_attributes(kind: type[DirectoryObject], names: Iterable[str]) -> None:
    """Refuses names that are not a directory attributes of the kind, [MS-MQDMPR] 3.1.7.1.20."""
    known = kind.directory_attributes()
    for name in names:
        if name not in known:
            raise IllegalPropertyId(
                f"{excerpt(name)} is not a directory attribute of a {kind.__name__}",
                f"Use one of {', '.join(sorted(known))}.",
            )


def check_filters(kind: type[DirectoryObject], filters: Sequence[Filter]) -> None:
    """Refuses filters that could not be evaluated; ignoring one would find too much."""
    check_attributes(kind, (expression.attribute for expression in filters))


def matches(value: DirectoryObject, filters: Iterable[Filter]) -> bool:
    """Whether the object satisfies every expression; none at all fit any object."""
    return all(_matches(value, expression) for expression in filters)


_ORDERED: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.LESS_THAN: lambda left, right: left < right,
    Operator.GREATER_THAN: lambda left, right: left > right,
    Operator.LESS_THAN_OR_EQUAL: lambda left, right: left <= right,
    Operator.GREATER_THAN_OR_EQUAL: lambda left, right: left >= right,
}


def _matches(value: DirectoryObject, expression: Filter) -> bool:
    left = comparable(getattr(value, expression.attribute))
    right = comparable(expression.value)
    if isinstance(left, tuple) and not isinstance(right, tuple):
        return _any_matches(left, expression.operator, right)
    if type(left) is not type(right):
        raise IllegalPropertyValue(
            f"{expression.attribute} cannot be compared with {excerpt(str(expression.value))}"
        )
    if expression.operator is Operator.EQUALS:
        return bool(left == right)
    if expression.operator is Operator.NOT_EQUALS:
        return bool(left != right)
    return _ORDERED[expression.operator](left, right)


def _any_matches(values: tuple[object, ...], operator: Operator, right: object) -> bool:
    """A list equals a value that it holds, as attributes with several values do in LDAP."""
    if operator is Operator.EQUALS:
        return right in values
    if operator is Operator.NOT_EQUALS:
        return right not in values
    raise IllegalPropertyValue("lists have no order to compare by")


def comparable(value: object) -> Any:
    """A value as filters and sort orders see it: text without case, enumerations by their value."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, list | tuple):
        return tuple(comparable(item) for item in value)
    return int(value) if isinstance(value, bool) else value


def sorted_objects(values: Iterable[Kind], sort: Sequence[SortOrder]) -> list[Kind]:
    """Sorted by the highest priority first; equal ones stay in the order they came in."""
    result = list(values)
    used = [order for order in sort if order.priority]
    for order in sorted(used, key=lambda order: order.priority):
        attribute = order.attribute
        result.sort(
            key=lambda value: comparable(getattr(value, attribute)), reverse=not order.ascending
        )
    return result


def overlaid(base: Kind, source: Kind, names: Iterable[str]) -> Kind:
    """`base` with some attributes of `source`."""
    return msgspec.structs.replace(base, **{name: getattr(source, name) for name in names})


def required_attributes(kind: type[DirectoryObject]) -> frozenset[str]:
    """The attributes without which there is no object, the identifier included."""
    fields = msgspec.structs.fields(kind)
    return frozenset(field.name for field in fields if field.required) | {"identifier"}


def projected(value: Kind, names: Collection[str]) -> Kind:
    """Only these attributes; the rest as in a new object. Identifier and name always come along."""
    kept = required_attributes(type(value)) | frozenset(names)
    return type(value)(**{name: getattr(value, name) for name in kept})
