"""The filter language of messages: `priority >= 5 and label ~ "order"`.

A filter is comparisons of fields of the message JSON, joined by `and`, `or`, `not` and brackets.
`~` is "contains", without regard to case; there are no patterns, so no filter takes longer than the
text it looks at. Length, depth and number of comparisons are bounded.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from posthouse.model.errors import IllegalPropertyValue, InvalidParameter
from posthouse.model.message_json import MessageJson, parse_time, time_text
from posthouse.model.text import excerpt, has_lone_surrogate

FILTER_LENGTH_MAX: Final = 4096
COMPARISONS_MAX: Final = 32
DEPTH_MAX: Final = 32
_NUMBER_MAX: Final = (1 << 63) - 1
_HEADER_EXAMPLE: Final = 'A header looks like: header["NServiceBus.MessageId"] = "1"'
_EXAMPLE: Final = 'A filter looks like: priority >= 5 and label ~ "order"'


class Kind(Enum):
    """What a field holds, and so what it can be compared with."""

    NUMBER = "a number"
    TEXT = "a text"
    TIME = "a time"
    FLAG = "true or false"
    WORDS = "a word"


FIELDS: Final = {
    "id": Kind.TEXT,
    "lookup_id": Kind.NUMBER,
    "queue": Kind.TEXT,
    "label": Kind.TEXT,
    "body_text": Kind.TEXT,
    "body_type": Kind.NUMBER,
    "body_size": Kind.NUMBER,
    "priority": Kind.NUMBER,
    "class": Kind.TEXT,
    "class_code": Kind.NUMBER,
    "delivery": Kind.TEXT,
    "correlation_id": Kind.TEXT,
    "sent_time": Kind.TIME,
    "arrived_time": Kind.TIME,
    "source_queue_manager": Kind.TEXT,
    "destination": Kind.TEXT,
    "admin_queue": Kind.TEXT,
    "response_queue": Kind.TEXT,
    "acknowledge": Kind.WORDS,
    "journal": Kind.WORDS,
    "app_specific": Kind.NUMBER,
    "connector_type": Kind.TEXT,
    "trace": Kind.TEXT,
    "time_to_be_received": Kind.NUMBER,
    "authenticated": Kind.FLAG,
    "encrypted": Kind.FLAG,
    "sender": Kind.TEXT,
    "abort_count": Kind.NUMBER,
    "move_count": Kind.NUMBER,
}
"""The fields of the message JSON that can be asked for."""

CONTENT_FIELDS: Final = {
    "format": Kind.TEXT,
    "text": Kind.TEXT,
    "message_type": Kind.TEXT,
    "intent": Kind.TEXT,
    "failed_queue": Kind.TEXT,
    "exception_type": Kind.TEXT,
    "exception_message": Kind.TEXT,
    "conversation_id": Kind.TEXT,
    "related_to": Kind.TEXT,
}
"""Fields of what is in a message: the body is decoded for them."""
_HEADER: Final = "header"
BODY_TEXT: Final = "body_text"
_ALL_FIELDS: Final = (*FIELDS, *CONTENT_FIELDS, _HEADER)

Predicate = Callable[[MessageJson], bool]
Test = Callable[[object], bool]
Fold = Callable[[str], str]
Get = Callable[[MessageJson], object]
Decoder = Callable[[MessageJson], Mapping[str, Any]]
"""What is in a message: the fields above, and `headers` by their names."""


class Condition(NamedTuple):
    """A part of a filter without which it does not match, and the fields that it compares."""

    fields: frozenset[str]
    matches: Predicate


class Filter(NamedTuple):
    """A filter that was read; `text` is what it was read from."""

    text: str
    matches: Predicate
    decodes: bool = False  # bodies, which takes a while
    reads_content: bool = False  # of messages: the body as text, or what is decoded
    conditions: tuple[Condition, ...] = ()  # what `and` joins: all of them hold where it matches

    def within(self, fields: Container[str]) -> Predicate | None:
        """Whether the conditions hold that compare nothing but these fields; None without any.

        A message for which they do not hold does not match, and need not be read.
        """
        parts = [
            one.matches for one in self.conditions if all(name in fields for name in one.fields)
        ]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else _all_of(tuple(parts))


def parse_filter(text: str, decoder: Decoder | None = None) -> Filter:
    """The filter of a text, or MQ_ERROR_INVALID_PARAMETER that names the place.

    Without a decoder the filter cannot ask for what is in a message.
    """
    if len(text) > FILTER_LENGTH_MAX:
        raise InvalidParameter(f"a filter has at most {FILTER_LENGTH_MAX} characters", _EXAMPLE)
    if has_lone_surrogate(text):
        raise InvalidParameter("the filter contains half a surrogate pair", _EXAMPLE)
    parser = _Parser(text, decoder)
    predicate = parser.whole()
    return Filter(text, predicate, parser.decodes, parser.reads_content, tuple(parser.conditions))


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKENS = re.compile(
    r"""\s*(?:
    (?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]{2,20}(?:Z|[+-][0-9:]{2,5})?)?(?![\w.]))
  | (?P<number>-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})(?![\w.]))
  | (?P<word>[^\W\d][\w.$-]*)
  | (?P<string>"[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^']*')
  | (?P<operator>==|!=|<=|>=|!~|[=<>~])
  | (?P<bracket>[()\[\]])
  | (?P<end>\Z)
  )""",
    re.VERBOSE,
)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while True:
        found = _TOKENS.match(text, at)
        if found is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise _fault(start, f"{excerpt(text[start : start + 20])} is not understood")
        kind = found.lastgroup
        assert kind is not None
        yield _Token(kind, found[kind], found.start(kind))
        if kind == "end":
            return
        at = found.end()


def _fault(at: int, what: str, remedy: str = _EXAMPLE) -> InvalidParameter:
    return InvalidParameter(f"the filter, at character {at + 1}: {what}", remedy)


_TEXTS: Final = ("word", "string", "number", "time")  # digits need no quotes to be a text


class _Parser:
    """Reads `or` of `and` of `not` of comparisons, one token ahead."""

    def __init__(self, text: str, decoder: Decoder | None) -> None:
        self._tokens = _tokens(text)
        self._content = None if decoder is None else _remembering(decoder)
        self.decodes = self.reads_content = False
        self.conditions: list[Condition] = []
        self._compared_fields: set[str] = set()  # in the part that is being read
        self._next = next(self._tokens)
        self._comparisons = 0
        self._folds: dict[str, Fold] = {}

    def whole(self) -> Predicate:
        predicate = self._either(0)
        if self._next.kind != "end":
            raise _fault(
                self._next.at, f"and, or or the end should follow, not {self._shown(self._next)}"
            )
        return predicate

    def _step(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _is_word(self, word: str) -> bool:
        return self._next.kind == "word" and self._next.text.lower() == word

    def _shown(self, token: _Token) -> str:
        return "the end" if token.kind == "end" else excerpt(token.text)

    def _either(self, depth: int) -> Predicate:
        parts = [self._both(depth)]
        while self._is_word("or"):
            self._step()
            parts.append(self._both(depth))
        if len(parts) == 1:
            return parts[0]
        if depth == 0:  # none of what was joined by `and` has to hold
            self.conditions = []
        return _any_of(tuple(parts))

    def _both(self, depth: int) -> Predicate:
        parts = [self._condition(depth)]
        while self._is_word("and"):
            self._step()
            parts.append(self._condition(depth))
        return parts[0] if len(parts) == 1 else _all_of(tuple(parts))

    def _condition(self, depth: int) -> Predicate:
        if depth:
            return self._one(depth)
        self._compared_fields = set()
        part = self._one(depth)
        self.conditions.append(Condition(frozenset(self._compared_fields), part))
        return part

    def _one(self, depth: int) -> Predicate:
        token = self._step()
        if depth > DEPTH_MAX:
            raise _fault(token.at, f"more than {DEPTH_MAX} brackets or nots are in each other")
        if token.kind == "word" and token.text.lower() == "not":
            return _not(self._one(depth + 1))
        if token.kind == "bracket" and token.text == "(":
            inside = self._either(depth + 1)
            if self._next.text != ")" or self._next.kind != "bracket":
                raise _fault(self._next.at, f"a ) should stand in front of {self._shown_next}")
            self._step()
            return inside
        if token.kind != "word":
            raise _fault(token.at, f"a field should stand here, not {self._shown(token)}")
        return self._comparison(token)

    @property
    def _shown_next(self) -> str:
        return self._shown(self._next)

    def _comparison(self, name: _Token) -> Predicate:
        field = name.text.lower()
        get, kind = self._field(name, field)
        self._compared_fields.add(field)
        self._comparisons += 1
        if self._comparisons > COMPARISONS_MAX:
            raise _fault(name.at, f"there are more than {COMPARISONS_MAX} comparisons")
        if kind is Kind.FLAG and self._next.kind != "operator":
            return _compared(get, bool)
        sign = self._step()
        if sign.kind != "operator":
            raise _fault(sign.at, f"an operator such as = should follow {field}")
        if sign.text not in _OPERATORS[kind]:
            allowed = " ".join(_OPERATORS[kind])
            raise _fault(sign.at, f"{field} cannot be compared with {sign.text}", f"Use {allowed}.")
        value = self._value(field, kind)
        if sign.text not in ("~", "!~"):
            return _compared(get, _test(kind, sign.text, value))
        assert isinstance(value, str)
        fold = self._folds.setdefault(field, _folding())
        return _compared(get, _containing(value.casefold(), fold, negated=sign.text == "!~"))

    def _field(self, name: _Token, field: str) -> tuple[Get, Kind]:
        """How a field is read, and what it holds."""
        kind = FIELDS.get(field)
        if kind is not None:
            self.reads_content |= field == BODY_TEXT
            return operator.attrgetter("class_" if field == "class" else field), kind
        if field != _HEADER and field not in CONTENT_FIELDS:
            raise _fault(name.at, f"{excerpt(name.text)} is not a field", _nearest(field))
        content = self._content
        if content is None:
            raise _fault(name.at, f"{field} is in the body, which is not looked into here")
        self.decodes = self.reads_content = True
        if field != _HEADER:
            return lambda message: content(message).get(field), CONTENT_FIELDS[field]
        if self._next.text != "[":
            return lambda message: _header_lines(content(message)), Kind.WORDS
        key = self._key()
        return lambda message: (content(message).get("headers") or {}).get(key), Kind.TEXT

    def _key(self) -> str:
        """The name of a header, in quotes and square brackets."""
        self._step()
        token = self._step()
        if token.kind != "string" or self._next.text != "]":
            raise _fault(token.at, "the name of a header should stand here", _HEADER_EXAMPLE)
        self._step()
        return _unquoted(token.text)

    def _value(self, field: str, kind: Kind) -> int | str | bool:
        token = self._step()
        if kind is Kind.NUMBER and token.kind == "number":
            return _number(token)
        if kind is Kind.FLAG and token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        if kind in (Kind.TEXT, Kind.TIME, Kind.WORDS) and token.kind in _TEXTS:
            text = _unquoted(token.text) if token.kind == "string" else token.text
            return _time(token.at, text) if kind is Kind.TIME else text
        raise _fault(
            token.at, f"{field} is compared with {kind.value}, not with {self._shown(token)}"
        )


def _number(token: _Token) -> int:
    value = int(token.text, 0 if "x" in token.text.lower() else 10)
    if abs(value) > _NUMBER_MAX:
        raise _fault(token.at, "the number is too large")
    return value


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    # Only these two: a path name keeps its backslashes as they are typed.
    return re.sub(r'\\(["\\])', r"\1", text[1:-1])


def _time(at: int, text: str) -> str:
    try:
        return time_text(parse_time(text))
    except IllegalPropertyValue as error:
        raise _fault(at, error.cause, error.remedy) from None


def _nearest(field: str) -> str:
    near = difflib.get_close_matches(field[:32], _ALL_FIELDS, 1, 0.5)
    return f"Did you mean {near[0]}?" if near else f"Fields are: {', '.join(_ALL_FIELDS)}."


def _remembering(decoder: Decoder) -> Decoder:
    """Decodes a message once for all comparisons."""
    last: MessageJson | None = None
    found: Mapping[str, Any] = {}

    def decoded(message: MessageJson) -> Mapping[str, Any]:
        nonlocal last, found
        if message is not last:
            last, found = message, decoder(message)
        return found

    return decoded


def _header_lines(content: Mapping[str, Any]) -> list[str]:
    headers = content.get("headers") or {}
    return [f"{key}={value}" for key, value in headers.items()]


_ORDER: Final[dict[str, Callable[..., bool]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITY: Final = ("=", "==", "!=")
_OPERATORS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.NUMBER: tuple(_ORDER),
    Kind.TIME: tuple(_ORDER),
    Kind.TEXT: (*_ORDER, "~", "!~"),
    Kind.FLAG: _EQUALITY,
    Kind.WORDS: (*_EQUALITY, "~", "!~"),
}


def _test(kind: Kind, sign: str, value: int | str | bool) -> Test:
    compare = _ORDER[sign]
    if kind is Kind.WORDS:
        return _holding(value, negated=sign == "!=")
    if kind is Kind.FLAG:
        return lambda actual: compare(bool(actual), value)
    # A field without a value equals nothing and is neither before nor after anything.
    return lambda actual: sign == "!=" if actual is None else compare(actual, value)


def _containing(part: str, fold: Fold, *, negated: bool) -> Test:
    def test(actual: object) -> bool:
        texts: list[str] = actual if isinstance(actual, list) else [str(actual or "")]
        return any(part in fold(text) for text in texts) != negated

    return test


def _folding() -> Fold:
    """Folds a text once for all comparisons of a field: for a large body that is most of it."""
    last = folded = ""

    def fold(text: str) -> str:
        nonlocal last, folded
        if text is not last:
            last, folded = text, text.casefold()
        return folded

    return fold


def _holding(word: object, *, negated: bool) -> Test:
    return lambda actual: (isinstance(actual, list) and word in actual) != negated


def _compared(get: Get, test: Test) -> Predicate:
    return lambda message: test(get(message))


def _any_of(parts: tuple[Predicate, ...]) -> Predicate:
    return lambda message: any(part(message) for part in parts)


def _all_of(parts: tuple[Predicate, ...]) -> Predicate:
    return lambda message: all(part(message) for part in parts)


def _not(part: Predicate) -> Predicate:
    return lambda message: not part(message)
