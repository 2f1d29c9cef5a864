"""The contents of publications: a JSON object for the history, and one row per attribute for matching."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import MAX_WHOLE_DOUBLE
from pipelines.contract.run_inputs import ATTRIBUTE, PUBLICATION, Ints

NO_CONTENT = "{}"
"""The JSON of a publication without attributes."""


def to_json(value: object) -> str:
    """Returns `value` as JSON with sorted keys and without spaces. Characters beyond ASCII are not escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def publication_rows(
    node: Ints, round_: Ints, topic: pa.Array, content: pa.Array,
    guarantee: pa.Array | None = None, keys: pa.Array | None = None,
) -> pa.Table:  # fmt: skip
    """Returns a table of schema `PUBLICATION` with the given columns.

    If `guarantee` or `keys` is `None`, its column is null in every row.
    """
    given = {"guarantee": guarantee, "keys": keys}
    others = [
        pa.nulls(len(node), PUBLICATION.field(name).type) if rows is None else rows for name, rows in given.items()
    ]
    return pa.table([pa.array(node), pa.array(round_), topic, content, *others], schema=PUBLICATION)


def json_rows(columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Returns an array of `rows` JSON objects, the contents of publications.

    Each of `columns` is an attribute of type int64, finite float64, bool or string. Null means that a publication lacks
    the attribute.
    """
    if not columns:
        return pa.repeat(pa.scalar(NO_CONTENT, pa.string()), rows)
    # Arrow's null_handling="skip" drops a row whose parts are all null. So each part starts with its own comma, and a
    # null part becomes an empty string.
    parts = [
        pc.fill_null(pc.binary_join_element_wise(f",{to_json(name)}:", _json_values(columns[name]), ""), "")
        for name in sorted(columns)
    ]
    listed = pc.binary_join_element_wise(*parts, "")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(listed, 1), "}", "")


def _json_values(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return pc.cast(column, pa.string())
    encoded = column.dictionary_encode()
    quoted = pa.array([to_json(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return quoted.take(encoded.indices)


def attribute_rows(topic: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Returns a table of schema `ATTRIBUTE`: for each publication its topic, then its attributes ordered by name.

    Null means that a publication lacks the topic or the attribute. `columns` are those of `json_rows`.
    """
    named = {"topic": topic, **{name: columns[name] for name in sorted(columns)}}
    rows, width = len(topic), len(named)
    present = np.stack([column.is_valid().to_numpy(zero_copy_only=False) for column in named.values()], axis=1).ravel()
    flat = np.flatnonzero(present)
    place = pa.array(flat % width * rows + flat // width)
    attribute = pa.DictionaryArray.from_arrays(pa.array((flat % width).astype(np.int32)), pa.array(list(named)))
    values = [pa.concat_arrays(map(of, named.values())).take(place) for of in (_numbers, _wholes, _texts)]
    return pa.table([pa.array(flat // width), attribute.dictionary_decode(), *values], schema=ATTRIBUTE)


def parsed_numbers(texts: pa.Array) -> tuple[pa.Array | None, str | None]:
    """Parses all of `texts` as int64, or all of them as float64.

    Returns:
        A pair. The first item is an array of the numbers, or None if a string is not a number. The second item is the
        first string with a whole number that its double does not represent exactly, or None if all are exact.
    """
    for kind in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            numbers = pc.cast(texts, kind)
            return numbers, None if kind == pa.int64() else _inexact_whole(texts, numbers)
    return None, None


def _inexact_whole(texts: pa.Array, numbers: pa.Array) -> str | None:
    is_large = pc.and_(pc.greater_equal(pc.abs(numbers), float(2**53)), pc.match_substring_regex(texts, r"^[+-]?\d+$"))
    large = pc.indices_nonzero(pc.fill_null(is_large, False))
    pairs = zip(texts.take(large).to_pylist(), numbers.take(large).to_pylist(), strict=True)
    return next((text for text, number in pairs if int(text) != number), None)


def _is_text(column: pa.Array) -> bool:
    return column.type in (pa.string(), pa.bool_())


def _numbers(column: pa.Array) -> pa.Array:
    if _is_text(column):
        return pa.nulls(len(column), pa.float64())
    numbers = pc.cast(column, pa.float64(), safe=False)
    return pc.min_element_wise(numbers, MAX_WHOLE_DOUBLE, skip_nulls=False) if column.type == pa.int64() else numbers


def _wholes(column: pa.Array) -> pa.Array:
    if column.type == pa.int64() or _is_text(column):
        return pa.nulls(len(column), pa.int64()) if _is_text(column) else column
    # Doubles that are whole numbers of 64 bits are compared as whole numbers.
    is_whole = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), MAX_WHOLE_DOUBLE))
    return pc.cast(pc.if_else(is_whole, column, pa.scalar(None, pa.float64())), pa.int64())


def _texts(column: pa.Array) -> pa.Array:
    return pc.cast(column, pa.string()) if _is_text(column) else pa.nulls(len(column), pa.string())
