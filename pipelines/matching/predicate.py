"""Predicates: the conjunctions that subscriptions are made of, and their text form.

``attribute op value`` joined by ``and``, e.g. ``price > 10 and symbol prefix A``. A value is a number, a text in
single or double quotes (a quote inside is doubled or follows a backslash), or a bare word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, NamedTuple, NoReturn, cast, get_args

from pipelines.errors import PredicateError, nearest
from pipelines.matching.topic_filter import LEVEL, REST, check_filter

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains", "filter"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)

TOPIC = "topic"
MAX_WHOLE = 2**63 - 1
MAX_WHOLE_DOUBLE = float(2**63 - 1024)
"""The largest double below 2**63."""
FILTER: Final = "filter"
"""The operator whose value is a topic filter of MQTT."""
_TEXT_OPERATORS = frozenset({"prefix", "suffix", "contains", FILTER})
_FOREIGN_OPERATORS = {"==": "=", "<>": "!=", "=<": "<=", "=>": ">=", "startswith": "prefix", "endswith": "suffix"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")|(?P<symbol>[=<>!~]+)|(?P<word>[^\s'"=<>!~()\[\]{},;&|]+))""",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_BARE = re.compile(r"[^\W\d][\w.:/-]*")


@dataclass(frozen=True)
class Predicate:
    """One comparison of an attribute with a value.

    Attributes:
        attribute: Name of the attribute; ``topic`` is the publication's topic.
        op: One of ``= != < <= > >= prefix suffix contains filter``.
        value: A number or a string; ``prefix suffix contains filter`` take strings only, and so does ``topic``. Whole
            numbers of 64 bits are ints, so that they are compared exactly.
    """

    attribute: str
    op: Operator
    value: int | float | str


class _Token(NamedTuple):
    kind: str
    text: str
    column: int

    @property
    def is_and(self) -> bool:
        return self.kind == "word" and self.text.lower() == "and"

    @property
    def shown(self) -> str:
        return "the end of the text" if self.kind == "end" else repr(_shortened(self.text))


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def parse_predicates(topic: str | None, where: str | None, *, is_mqtt: bool = False) -> tuple[Predicate, ...]:
    """Reads a subscription's conjunction.

    Args:
        topic: Short for ``topic = '...'``; comes first.
        where: The text of the other predicates.
        is_mqtt: Whether a topic with ``+`` or ``#`` is a filter.

    Raises:
        PredicateError: The text is none, or there is neither a topic nor a predicate.
    """
    if topic == "":
        raise PredicateError("the topic is empty; give it a name, or leave it out")
    of_topic = () if topic is None else (Predicate(TOPIC, "=", topic),)
    predicates = tuple(map(_composed, (*of_topic, *_conjunction(where or ""))))
    if not predicates:
        raise PredicateError("a subscription needs a topic or a where, e.g. topic: news or where: price > 10")
    return tuple(map(_as_filter, predicates)) if is_mqtt else predicates


def _composed(predicate: Predicate) -> Predicate:
    """Returns a predicate on the topic with its value in Unicode's composed form, others as they are."""
    if predicate.attribute != TOPIC or not isinstance(predicate.value, str):
        return predicate
    return Predicate(TOPIC, predicate.op, unicodedata.normalize("NFC", predicate.value))


def _as_filter(predicate: Predicate) -> Predicate:
    """Returns an equality with a topic that has wildcards as a filter, other predicates as they are."""
    topic = predicate.value
    if (predicate.attribute, predicate.op) != (TOPIC, "=") or not isinstance(topic, str):
        return predicate
    check_filter(topic)
    return Predicate(TOPIC, FILTER, topic) if LEVEL in topic or REST in topic else predicate


def canonical(predicates: Sequence[Predicate]) -> str:
    """Returns the one text of a conjunction, e.g. ``topic = 'news' and price > 10``, which reads back as the same."""
    return " and ".join(f"{_attribute_text(p.attribute)} {p.op} {_value_text(p.value)}" for p in predicates)


def _attribute_text(attribute: str) -> str:
    return attribute if _BARE.fullmatch(attribute) and attribute.lower() != "and" else _quoted(attribute)


def _value_text(value: float | str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    whole = whole_number(value)
    return repr(value) if whole is None else str(whole)


def whole_number(value: float) -> int | None:
    """Returns the whole number of 64 bits that a number is, or None."""
    return int(value) if -MAX_WHOLE - 1 <= value <= MAX_WHOLE and value == int(value) else None


def as_double(value: float) -> float:
    """Returns the double by which a number is compared with numbers that are not whole numbers of 64 bits.

    The largest whole numbers are rounded down, so that they stay below 2**63.
    """
    return min(float(value), MAX_WHOLE_DOUBLE) if isinstance(value, int) else value


def read_number(text: str) -> int | float:
    """Returns the number that a decimal text says: an int where it is a whole number of 64 bits.

    Raises:
        OverflowError: It is larger than a double, or a whole number of more than 64 bits that no double is equal to.
    """
    exact = Decimal(text)
    if -MAX_WHOLE - 1 <= exact <= MAX_WHOLE:
        return int(exact) if exact == int(exact) else float(exact)
    number = float(exact)
    if abs(number) == float("inf") or (_WHOLE.fullmatch(text) and Decimal(number) != exact):
        raise OverflowError(text)
    return number


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _unquoted(token: str) -> str:
    mark = token[0]
    return re.sub(
        rf"{mark}{mark}|\\(['\"\\])",
        lambda found: found.group(1) or mark,
        token[1:-1],
    )


def _tokens(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            _refuse_character(text, start)
        kind = cast("str", found.lastgroup)
        yield _Token(kind, found.group(kind), found.start(kind) + 1)
        position = found.end()
    yield _Token("end", "", end + 1)


def _refuse_character(text: str, start: int) -> NoReturn:
    found = text[start]
    if found in "'\"":
        raise PredicateError(
            f"the quote {found} is never closed; write {found} at the end of the text value", start + 1
        )
    raise PredicateError(
        f"found {found!r}, which no predicate takes outside quotes; allowed: attribute op value, joined by and",
        start + 1,
    )


def _conjunction(text: str) -> Iterator[Predicate]:
    tokens = _tokens(text)
    token = next(tokens)
    while token.kind != "end":
        attribute = _attribute(token)
        op = _operator(attribute, next(tokens))
        yield Predicate(attribute, op, _value(attribute, op, next(tokens)))
        token = next(tokens)
        if token.kind == "end":
            return
        if not token.is_and:
            raise PredicateError(
                f"found {token.shown} after a complete predicate; allowed: and, or the end of the text"
                " (a value of several words needs quotes)",
                token.column,
            )
        token = next(tokens)
        if token.kind == "end":
            raise PredicateError(
                "found the end of the text after 'and'; write another predicate or drop it", token.column
            )


def _attribute(token: _Token) -> str:
    if token.kind == "quoted" and len(token.text) > 2:
        return _unquoted(token.text)
    if token.kind == "word" and not token.is_and and not _NUMBER.fullmatch(token.text):
        return token.text
    raise PredicateError(
        f"found {token.shown} where an attribute's name belongs; allowed: a word as in price > 10, or a text in quotes",
        token.column,
    )


def _operator(attribute: str, token: _Token) -> Operator:
    if token.kind != "quoted" and token.text in OPERATORS:
        return token.text
    meant = _FOREIGN_OPERATORS.get(token.text.lower())
    hint = f" did you mean {meant!r}?" if meant else nearest(token.text.lower(), OPERATORS)
    raise PredicateError(
        f"found {token.shown} where the operator after {_shortened(attribute)!r} belongs;{hint}"
        f" allowed: {' '.join(OPERATORS)}",
        token.column,
    )


def _value(attribute: str, op: Operator, token: _Token) -> int | float | str:
    if op == FILTER and token.kind in ("quoted", "word"):
        text = _unquoted(token.text) if token.kind == "quoted" else token.text
        check_filter(text, token.column)
        return text
    if token.kind == "quoted":
        return _unquoted(token.text)
    if token.kind != "word" or token.is_and:
        raise PredicateError(
            f"found {token.shown} where the value after {op!r} belongs; allowed: a number, a word, or a text in quotes",
            token.column,
        )
    if attribute == TOPIC or op in _TEXT_OPERATORS or not _NUMBER.fullmatch(token.text):
        return token.text
    try:
        return read_number(token.text)
    except OverflowError:
        raise PredicateError(
            f"the number {token.shown} is too large; allowed: whole numbers of 64 bits, decimals up to 1.7e308, or a "
            "text in quotes",
            token.column,
        ) from None
