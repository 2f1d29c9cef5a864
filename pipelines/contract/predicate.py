"""Predicates of subscriptions, as strings and as rows of comparisons; MQTT topic filters.

A predicate is a conjunction ``attribute op value and ...``, for example ``price > 10 and symbol prefix A``. A value is
a number, a bare word, or a string in single or double quotes. A quote in a string is doubled or escaped by a backslash.

Topic filters have MQTT's wildcards (OASIS MQTT 5.0, section 4.7). ``+`` stands for one level of a topic, which may be
empty. ``#`` stands for the parent level and all levels below it. A filter that begins with a wildcard matches no topic
that begins with ``$``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.settings import MAX_WHOLE, nfc
from pipelines.errors import PredicateError, nearest, shortened
from udfs.nodes.matching import LEVEL, REST, SEPARATOR

_SHARED = "$share/"
_SHOWN = 40
"""The number of characters of a word that an error shows."""
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains", "filter"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)
TOPIC = "topic"
MAX_WHOLE_DOUBLE = float(2**63 - 1024)
"""The largest double below 2**63."""
FILTER: Final = "filter"
"""The operator whose value is an MQTT topic filter."""
_TEXT_OPERATORS = frozenset({"prefix", "suffix", "contains", FILTER})
_FOREIGN_OPERATORS = {"==": "=", "<>": "!=", "=<": "<=", "=>": ">=", "startswith": "prefix", "endswith": "suffix"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")|(?P<symbol>[=<>!~]+)|(?P<word>[^\s'"=<>!~()\[\]{},;&|]+))""",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_BARE = re.compile(r"[^\W\d][\w.:/-]*")
PREDICATE = pa.schema([
    ("subscription", pa.int64()), ("attribute", pa.string()), ("op", pa.string()), ("number", pa.float64()),
    ("whole", pa.int64()), ("text", pa.string()),
])  # fmt: skip
Comparison: TypeAlias = tuple[str, str, float | None, int | None, str | None]
_PLAIN = re.compile(
    r"([^\W\d][\w.:/-]*) (=|!=|<=?|>=?|prefix|suffix|contains|filter) (?:(-?[0-9][^ ]*)|'([^'\\]*)')(?: and |$)"
)


def has_wildcard(topic: str) -> bool:
    """Returns whether one level of `topic` is ``+``, or its last level is ``#``."""
    levels = topic.split(SEPARATOR)
    return LEVEL in levels or levels[-1] == REST


def check_filter(text: str, column: int | None = None) -> None:
    """Checks the syntax of topic filter `text`. The error names `column`, the position of the filter in a predicate.

    Raises:
        PredicateError: The filter is empty or a shared subscription, a wildcard shares its level with other characters,
            or ``#`` is not the last level.
    """
    levels = text.split(SEPARATOR)
    wrong = next((level for level in levels if len(level) > 1 and (LEVEL in level or REST in level)), None)
    if not text or "\0" in text:
        raise PredicateError("the topic filter is empty or has a zero character; give it a name", column)
    shown = f"the topic filter {text!r}"
    if text.startswith(_SHARED):
        raise PredicateError(f"{shown} is a shared subscription; allowed: filters without $share", column)
    if wrong is not None:
        allowed = "allowed: + and # as levels of their own, as a/+/#"
        raise PredicateError(f"{shown} has the level {wrong!r}; {allowed}", column)
    if REST in levels[:-1]:
        raise PredicateError(f"{shown} goes on after #; allowed: # as the last level", column)


@dataclass(frozen=True)
class Predicate:
    """One comparison of an attribute with a value.

    Attributes:
        attribute: The name of the attribute; ``topic`` is the publication's topic.
        op: One of ``= != < <= > >= prefix suffix contains filter``.
        value: A number or a string. ``prefix suffix contains filter`` and attribute ``topic`` require a string. Whole
            numbers of 64 bits are ints, so that comparisons are exact.
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
        return "the end of the text" if self.kind == "end" else repr(shortened(self.text, _SHOWN))


def parse_predicates(topic: str | None, where: str | None, *, is_mqtt: bool = False) -> tuple[Predicate, ...]:
    """Parses the predicate of a subscription, a conjunction of comparisons.

    Args:
        topic: A topic, which stands for a first comparison ``topic = '...'``.
        where: The remaining comparisons.
        is_mqtt: Whether a topic with ``+`` or ``#`` is a filter.

    Raises:
        PredicateError: ``where`` does not parse, ``topic`` is empty, or both arguments are None.
    """
    if topic == "":
        raise PredicateError("the topic is empty; give it a name, or leave it out")
    of_topic = () if topic is None else (Predicate(TOPIC, "=", topic),)
    predicates = tuple(map(_composed, (*of_topic, *_conjunction(where or ""))))
    if not predicates:
        raise PredicateError("a subscription needs a topic or a where, e.g. topic: news or where: price > 10")
    return tuple(map(_as_filter, predicates)) if is_mqtt else predicates


def _composed(predicate: Predicate) -> Predicate:
    if predicate.attribute != TOPIC or not isinstance(predicate.value, str):
        return predicate
    return Predicate(TOPIC, predicate.op, nfc(predicate.value))


def _as_filter(predicate: Predicate) -> Predicate:
    """Converts an equality whose topic has wildcards to a filter. Other comparisons stay unchanged."""
    topic = predicate.value
    if (predicate.attribute, predicate.op) != (TOPIC, "=") or not isinstance(topic, str):
        return predicate
    check_filter(topic)
    return Predicate(TOPIC, FILTER, topic) if LEVEL in topic or REST in topic else predicate


def canonical(predicates: Sequence[Predicate]) -> str:
    """Returns the canonical string of a conjunction, for example ``topic = 'news' and price > 10``.

    Parsing the string returns `predicates` again.
    """
    shown = []
    for p in predicates:
        is_bare = _BARE.fullmatch(p.attribute) and p.attribute.lower() != "and"
        shown.append(f"{p.attribute if is_bare else _quoted(p.attribute)} {p.op} {_shown_value(p.value)}")
    return " and ".join(shown)


def _shown_value(value: float | str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    whole = whole_number(value)
    return repr(value) if whole is None else str(whole)


def whole_number(value: float) -> int | None:
    """Returns `value` as an int if it is a whole number of 64 bits, else None."""
    return int(value) if -MAX_WHOLE - 1 <= value <= MAX_WHOLE and value == int(value) else None


def read_number(text: str) -> int | float:
    """Parses a decimal number. Returns an int for a whole number of 64 bits, else a float.

    Raises:
        OverflowError: The number exceeds the range of doubles, or `text` is an integer literal of more than 64 bits
            that no double represents exactly.
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
    return re.sub(rf"{mark}{mark}|\\(['\"\\])", lambda found: found.group(1) or mark, token[1:-1])


def _tokens(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            _refuse_character(text, position + len(text[position:]) - len(text[position:].lstrip()))
        kind = cast("str", found.lastgroup)
        yield _Token(kind, found.group(kind), found.start(kind) + 1)
        position = found.end()
    yield _Token("end", "", end + 1)


def _refuse_character(text: str, start: int) -> NoReturn:
    found = text[start]
    if found in "'\"":
        message = f"the quote {found} is never closed; write {found} at the end of the text value"
    else:
        message = (
            f"found {found!r}, which no predicate takes outside quotes; allowed: attribute op value, joined by and"
        )
    raise PredicateError(message, start + 1)


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
        f"found {token.shown} where the operator after {shortened(attribute, _SHOWN)!r} belongs;{hint}"
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


def predicate_rows(subscription: pa.Table) -> pa.Table:
    """Parses the canonical predicates in column ``predicate`` of `subscription`; equal predicates are parsed once.

    Returns:
        One row per comparison (columns `PREDICATE`), in the order of subscription and position in the conjunction.
        ``subscription`` is the index of the row in the argument. Either ``number`` or ``text`` is null. For a 64-bit
        integer, ``whole`` is exact; ``number`` (float64) may be rounded.
    """
    encoded = subscription["predicate"].combine_chunks().dictionary_encode()
    distinct = [_comparisons(text) for text in encoded.dictionary.to_pylist()]
    conjunctions = pa.array(distinct, pa.list_(pa.struct(list(PREDICATE)[1:]))).take(encoded.indices)
    owner, comparisons = pc.list_parent_indices(conjunctions), pc.list_flatten(conjunctions)
    return pa.table([owner, *comparisons.flatten()], schema=PREDICATE)


def topics_of(predicate: pa.ChunkedArray, *, is_alone: bool = True) -> pa.Array:
    """Returns the topic that each canonical predicate requires by an equality, or null if it requires no topic.

    Args:
        predicate: The predicates.
        is_alone: Whether to return null for a predicate that has other comparisons besides the equality.
    """
    encoded = predicate.combine_chunks().dictionary_encode()
    topics = [_topic(text, is_alone=is_alone) for text in encoded.dictionary.to_pylist()]
    return pa.array(topics, pa.string()).take(encoded.indices)


@lru_cache(maxsize=10_000)
def _topic(text: str, *, is_alone: bool) -> str | None:
    comparisons = _comparisons(text)
    asked = [value for attribute, op, _, _, value in comparisons if (attribute, op) == ("topic", "=")]
    return asked[0] if asked and not (is_alone and comparisons[1:]) else None


def _comparisons(text: str) -> list[Comparison]:
    # For most predicates, a regular expression suffices. It needs a tenth of the parser's time.
    found = list(_PLAIN.finditer(text))
    if found and sum(match.end() - match.start() for match in found) == len(text):
        return [(m[1], m[2], *value_columns(m[4] if m[3] is None else read_number(m[3]))) for m in found]
    return [(p.attribute, p.op, *value_columns(p.value)) for p in parse_predicates(None, text)]


def value_columns(value: float | str) -> tuple[float | None, int | None, str | None]:
    """Returns the values of columns ``number, whole, text`` of `PREDICATE` for `value`.

    The ``number`` of an int above `MAX_WHOLE_DOUBLE` is `MAX_WHOLE_DOUBLE`.
    """
    if isinstance(value, str):
        return None, None, value
    return min(float(value), MAX_WHOLE_DOUBLE) if isinstance(value, int) else value, whole_number(value), None
