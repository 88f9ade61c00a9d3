"""Reads a statement of the part of SQL that both engines understand alike; the rest needs Spark."""

from __future__ import annotations

from typing import Final, NoReturn

from posthouse.spark.queries.small import tree
from posthouse.spark.queries.small.tokens import (
    END,
    NUMBER,
    QUOTED,
    RESERVED,
    SIGN,
    TEXT,
    WORD,
    NeedsSpark,
    Token,
    tokens_of,
)

LENGTH_MAX: Final = 20_000
DEPTH_MAX: Final = 60
LONG_MAX: Final = (1 << 63) - 1
DIGITS_MAX: Final = 30  # of a number; Python does not read thousands of them
_COMPARED: Final = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_UNITS: Final = ("second", "minute", "hour", "day", "week")
_CALLED: Final = ("current_timestamp", "current_date")  # written without brackets too
_NAMED_LIKE_WORDS: Final = ("left", "right", "date", "filter")


class Shown:
    """SHOW TABLES, with a namespace and a pattern."""

    def __init__(self, namespace: str, pattern: str) -> None:
        self.namespace = namespace
        self.pattern = pattern


def parse(statement: str) -> tree.Parsed | Shown:
    """The tree of a statement."""
    if len(statement) > LENGTH_MAX:
        raise NeedsSpark(f"the statement is longer than {LENGTH_MAX:,} characters")
    return _Parser(tokens_of(statement)).statement()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    # -- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._next
        self._place += token.kind != END
        return token

    def _give_up(self) -> NoReturn:
        raise NeedsSpark(f"only Spark reads {self._next.shown!r} there")

    def _is_word(self, *words: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._place + ahead, len(self._tokens) - 1)]
        return token.kind == WORD and token.value.lower() in words

    def _is_sign(self, *signs: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._place + ahead, len(self._tokens) - 1)]
        return token.kind == SIGN and token.value in signs

    def _word(self, *words: str) -> bool:
        """Takes these words if all of them come now."""
        if not all(self._is_word(word, ahead=index) for index, word in enumerate(words)):
            return False
        self._place += len(words)
        return True

    def _sign(self, sign: str) -> bool:
        found = self._is_sign(sign)
        self._place += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            self._give_up()

    def _expect_word(self, word: str) -> None:
        if not self._word(word):
            self._give_up()

    def _is_name(self) -> bool:
        token = self._next
        return token.kind == QUOTED or (token.kind == WORD and token.value.lower() not in RESERVED)

    def _name(self) -> str:
        if not self._is_name():
            self._give_up()
        return self._take().value

    def _number(self) -> int:
        if self._next.kind != NUMBER or len(self._next.value) > DIGITS_MAX:
            self._give_up()
        if int(self._next.value) > LONG_MAX:
            self._give_up()
        return int(self._take().value)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise NeedsSpark(f"the statement is nested more than {DEPTH_MAX} times")

    # -- statements

    def statement(self) -> tree.Parsed | Shown:
        found = self._shown() if self._word("show", "tables") else self._with()
        self._sign(";")
        if self._next.kind != END:
            self._give_up()
        return found

    def _shown(self) -> Shown:
        namespace = ""
        if self._word("in") or self._word("from"):
            namespace = self._name()
            while self._sign("."):
                namespace += f".{self._name()}"
        pattern = "*"
        if self._word("like"):
            if self._next.kind != TEXT:
                self._give_up()
            pattern = self._take().value
        return Shown(namespace, pattern)

    def _with(self) -> tree.Parsed:
        common: list[tuple[str, tree.Query]] = []
        if self._word("with"):
            while True:
                name = self._name()
                self._expect_word("as")
                self._expect("(")
                common.append((name, self._query()))
                self._expect(")")
                if not self._sign(","):
                    break
        if len({name.lower() for name, _ in common}) < len(common):
            raise NeedsSpark("two common tables have the same name")
        return tree.Parsed(tuple(common), self._query())

    def _query(self) -> tree.Query:
        self._deeper()
        selects = [self._select()]
        while self._word("union", "all"):
            selects.append(self._select())
        orders = self._orders() if self._word("order", "by") else ()
        limit = self._number() if self._word("limit") else None
        offset = self._number() if self._word("offset") else 0
        self._depth -= 1
        return tree.Query(tuple(selects), orders, limit, offset)

    def _select(self) -> tree.Select:
        self._expect_word("select")
        distinct = self._word("distinct")
        items = [self._item()]
        while self._sign(","):
            items.append(self._item())
        first, joins = self._from() if self._word("from") else (None, ())
        where = self._expression() if self._word("where") else None
        groups, group_all = self._groups() if self._word("group", "by") else ((), False)
        having = self._expression() if self._word("having") else None
        return tree.Select(tuple(items), distinct, first, joins, where, groups, group_all, having)

    def _item(self) -> tree.Item:
        if self._sign("*"):
            return self._star(None)
        if self._is_name() and self._is_sign(".", ahead=1) and self._is_sign("*", ahead=2):
            table = self._name()
            self._place += 2
            return self._star(table)
        value = self._expression()
        return tree.Item(value, self._alias())

    def _star(self, table: str | None) -> tree.Item:
        if not (self._is_sign(",") or self._is_word("from")):
            self._give_up()
        return tree.Item(None, None, table)

    def _alias(self) -> str | None:
        if self._word("as") or self._is_name():
            return self._name()
        return None

    def _groups(self) -> tuple[tuple[tree.Expression, ...], bool]:
        if self._word("all"):
            return (), True
        groups = [self._expression()]
        while self._sign(","):
            groups.append(self._expression())
        return tuple(groups), False

    def _orders(self) -> tuple[tree.Order, ...]:
        orders = [self._order()]
        while self._sign(","):
            orders.append(self._order())
        return tuple(orders)

    def _order(self) -> tree.Order:
        value = self._expression()
        descending = self._word("desc")
        if not descending:
            self._word("asc")
        nulls_last = descending  # as Spark has it: nulls are the smallest
        if self._word("nulls", "last"):
            nulls_last = True
        elif self._word("nulls", "first"):
            nulls_last = False
        return tree.Order(value, descending, nulls_last)

    # -- tables

    def _from(self) -> tuple[tree.TableName | tree.Nested, tuple[tree.Join, ...]]:
        first = self._table()
        joins: list[tree.Join] = []
        while (kind := self._join()) is not None:
            right = self._table()
            condition = None
            if kind != "cross":
                self._expect_word("on")
                condition = self._expression()
            joins.append(tree.Join(kind, right, condition))
        return first, tuple(joins)

    def _join(self) -> str | None:
        if self._word("cross", "join"):
            return "cross"
        if self._word("left", "join") or self._word("left", "outer", "join"):
            return "left"
        return "inner" if self._word("join") or self._word("inner", "join") else None

    def _table(self) -> tree.TableName | tree.Nested:
        if self._sign("("):
            query = self._query()
            self._expect(")")
            return tree.Nested(query, self._alias())
        parts = [self._name()]
        while self._sign("."):
            parts.append(self._name())
        if self._is_sign("("):
            self._give_up()
        return tree.TableName(tuple(parts), self._alias())

    # -- values

    def _expression(self) -> tree.Expression:
        self._deeper()
        found = self._conjunction()
        while self._word("or"):
            found = tree.Binary("OR", found, self._conjunction())
        self._depth -= 1
        return found

    def _conjunction(self) -> tree.Expression:
        found = self._negation()
        while self._word("and"):
            found = tree.Binary("AND", found, self._negation())
        return found

    def _negation(self) -> tree.Expression:
        if not self._word("not"):
            return self._predicate()
        self._deeper()
        found = tree.Unary("NOT", self._negation())
        self._depth -= 1
        return found

    def _predicate(self) -> tree.Expression:
        value = self._sum()
        if self._next.kind == SIGN and self._next.value in _COMPARED:
            sign = self._take().value
            value = tree.Binary({"==": "=", "!=": "<>"}.get(sign, sign), value, self._sum())
        elif self._word("is"):
            negated = self._word("not")
            self._expect_word("null")
            value = tree.IsNull(value, negated)
        else:
            value = self._membership(value)
        if self._is_sign(*_COMPARED) or self._is_word("is", "in", "like", "between"):
            self._give_up()  # a comparison of a comparison
        return value

    def _membership(self, value: tree.Expression) -> tree.Expression:
        negated = self._is_word("not") and self._is_word("in", "like", "between", ahead=1)
        self._place += negated
        if self._word("between"):
            low = self._sum()
            self._expect_word("and")
            return tree.Between(value, low, self._sum(), negated)
        if self._word("in"):
            return self._among(value, negated)
        if self._word("like"):
            found: tree.Expression = tree.Binary("LIKE", value, self._sum())
            return tree.Unary("NOT", found) if negated else found
        return value

    def _among(self, value: tree.Expression, negated: bool) -> tree.Among:
        self._expect("(")
        choices = [self._expression()]
        while self._sign(","):
            choices.append(self._expression())
        self._expect(")")
        return tree.Among(value, tuple(choices), negated)

    def _sum(self) -> tree.Expression:
        found = self._product()
        while self._is_sign("+", "-", "||"):
            found = tree.Binary(self._take().value, found, self._product())
        return found

    def _product(self) -> tree.Expression:
        found = self._signed()
        while self._is_sign("*", "/", "%"):
            found = tree.Binary(self._take().value, found, self._signed())
        return found

    def _signed(self) -> tree.Expression:
        if not self._sign("-"):
            return self._value()
        if self._next.kind == NUMBER:
            return tree.Constant(-self._number())
        self._deeper()
        found = tree.Unary("-", self._signed())
        self._depth -= 1
        return found

    def _value(self) -> tree.Expression:
        token = self._next
        if token.kind == NUMBER:
            return tree.Constant(self._number())
        if token.kind == TEXT:
            return tree.Constant(self._take().value)
        if self._sign("("):
            found = self._expression()
            self._expect(")")
            return found
        return self._worded()

    def _worded(self) -> tree.Expression:
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._word(word):
                return tree.Constant(value)
        if self._is_word("timestamp", "date") and self._tokens[self._place + 1].kind == TEXT:
            kind = self._take().value.lower()
            return tree.Moment(kind, self._take().value)
        if self._word("interval"):
            return self._span()
        if self._word("case"):
            return self._case()
        if self._is_word("cast") and self._is_sign("(", ahead=1):
            return self._cast()
        return self._call_or_column()

    def _span(self) -> tree.Span:
        if self._next.kind == TEXT and self._next.value.strip().isascii():
            text = self._take().value.strip()
            if not text.isdigit() or len(text) > DIGITS_MAX or int(text) > LONG_MAX:
                self._give_up()
            number = int(text)
        else:
            number = self._number()
        unit = self._take().value.lower().removesuffix("s")
        if unit not in _UNITS or self._next.kind in (NUMBER, TEXT):
            self._give_up()
        return tree.Span(number, unit)

    def _case(self) -> tree.Case:
        subject = None if self._is_word("when") else self._expression()
        branches: list[tuple[tree.Expression, tree.Expression]] = []
        while self._word("when"):
            condition = self._expression()
            self._expect_word("then")
            branches.append((condition, self._expression()))
        otherwise = self._expression() if self._word("else") else None
        self._expect_word("end")
        if not branches:
            self._give_up()
        return tree.Case(subject, tuple(branches), otherwise)

    def _cast(self) -> tree.Cast:
        self._place += 2
        value = self._expression()
        self._expect_word("as")
        token = self._take()
        if token.kind != WORD:
            self._give_up()
        self._expect(")")
        return tree.Cast(value, token.value.lower())

    def _call_or_column(self) -> tree.Expression:
        if self._is_word(*_NAMED_LIKE_WORDS, "if") and self._is_sign("(", ahead=1):
            return self._call(self._take().value)
        if self._is_word(*_CALLED):
            name = self._take().value
            return self._call(name) if self._is_sign("(") else tree.Call(name.lower(), ())
        parts = [self._name()]
        while self._sign("."):
            parts.append(self._name())
        if not self._is_sign("("):
            return tree.Reference(tuple(parts))
        if len(parts) > 1:
            self._give_up()
        return self._call(parts[0])

    def _call(self, name: str) -> tree.Call:
        self._expect("(")
        star = distinct = False
        arguments: list[tree.Expression] = []
        if self._sign("*"):
            star = True
        elif not self._is_sign(")"):
            distinct = self._word("distinct")
            arguments.append(self._expression())
            while self._sign(","):
                arguments.append(self._expression())
        self._expect(")")
        where = None
        if self._word("filter"):
            self._expect("(")
            self._expect_word("where")
            where = self._expression()
            self._expect(")")
        if self._is_word("over", "ignore", "respect", "within"):
            self._give_up()
        return tree.Call(name.lower(), tuple(arguments), star, distinct, where)
