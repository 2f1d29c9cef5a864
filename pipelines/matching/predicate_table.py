"""Subscriptions as rows of comparisons, the form in which an engine matches them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.matching.predicate import FILTER, as_double, parse_predicates, read_number, whole_number
from pipelines.matching.topic_filter import pattern_of

PREDICATE = pa.schema(
    [
        ("subscription", pa.int64()),
        ("attribute", pa.string()),
        ("op", pa.string()),
        ("number", pa.float64()),
        ("whole", pa.int64()),
        ("text", pa.string()),
    ]
)

Comparison: TypeAlias = tuple[str, str, float | None, int | None, str | None]
_PLAIN = re.compile(
    r"([^\W\d][\w.:/-]*) (=|!=|<=?|>=?|prefix|suffix|contains|filter) (?:(-?[0-9][^ ]*)|'([^'\\]*)')(?: and |$)"
)


def predicate_rows(subscription: pa.Table) -> pa.Table:
    """Returns one row a comparison; grain and key: subscription, position in its conjunction.

    Args:
        subscription: A table with a column ``predicate`` of canonical texts. Repeated texts are read once.

    Returns:
        ``subscription`` is the row number in the argument; exactly one of ``number`` and ``text`` is set. ``whole`` is
        the number where it is a whole number of 64 bits, which a double need not hold.
    """
    encoded = subscription["predicate"].combine_chunks().dictionary_encode()
    conjunctions = [_comparisons(text) for text in encoded.dictionary.to_pylist()]
    distinct = [comparison for conjunction in conjunctions for comparison in conjunction]
    lengths = np.array([len(conjunction) for conjunction in conjunctions], dtype=np.int64)
    indices = encoded.indices.to_numpy()
    counts = lengths[indices]
    position = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = pa.array(np.repeat((np.cumsum(lengths) - lengths)[indices], counts) + position)
    columns = [
        pa.array(values, field.type)
        for field, values in zip(
            list(PREDICATE)[1:], zip(*distinct, strict=True) if distinct else [()] * 5, strict=True
        )
    ]
    owner = pa.array(np.repeat(np.arange(len(indices), dtype=np.int64), counts))
    return pa.table([owner, *(column.take(rows) for column in columns)], schema=PREDICATE)


def compiled(predicate: pa.Table) -> pa.Table:
    """Returns comparisons with topic filters as regular expressions, see `topic_filter.pattern_of`."""
    ops, texts = (predicate[name].combine_chunks() for name in ("op", "text"))
    is_filter = pc.equal(ops, FILTER)
    if not pc.any(is_filter).as_py():
        return predicate
    patterns = pa.array([pattern_of(text) for text in texts.filter(is_filter).to_pylist()], pa.string())
    index = predicate.column_names.index("text")
    return predicate.set_column(index, "text", pc.replace_with_mask(texts, is_filter, patterns))


def topics_of(predicate: pa.ChunkedArray, *, is_alone: bool = True) -> pa.Array:
    """Returns for each canonical text the topic that it asks for; null where it asks for none.

    Args:
        predicate: The texts.
        is_alone: Whether those that ask for more than a topic have none, too.
    """
    encoded = predicate.combine_chunks().dictionary_encode()
    topics = [_topic(text, is_alone=is_alone) for text in encoded.dictionary.to_pylist()]
    return pa.array(topics, pa.string()).take(encoded.indices)


@lru_cache(maxsize=10_000)
def _topic(text: str, *, is_alone: bool) -> str | None:
    """Returns the topic that a canonical text asks for."""
    comparisons = _comparisons(text)
    asked = [value for attribute, op, _, _, value in comparisons if (attribute, op) == ("topic", "=")]
    return asked[0] if asked and not (is_alone and comparisons[1:]) else None


def _comparisons(text: str) -> list[Comparison]:
    """Reads a canonical text; one pattern does for nearly all of them in a tenth of the parser's time."""
    found = list(_PLAIN.finditer(text))
    if found and sum(match.end() - match.start() for match in found) == len(text):
        return [(m[1], m[2], *value_columns(m[4] if m[3] is None else read_number(m[3]))) for m in found]
    return [(p.attribute, p.op, *value_columns(p.value)) for p in parse_predicates(None, text)]


def value_columns(value: float | str) -> tuple[float | None, int | None, str | None]:
    """Returns ``number, whole, text`` of a value, as in `PREDICATE`."""
    return (None, None, value) if isinstance(value, str) else (as_double(value), whole_number(value), None)
