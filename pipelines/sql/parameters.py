"""The parameters of runs as columns: view ``parameter``, made of the JSON in table ``run``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

_RUN_ID = "run_id"
_SIMPLE = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def column_name(path: str) -> str:
    """Returns the column of a parameter: its path in lower case with ``_`` for what a bare name cannot have."""
    return re.sub(r"\W", "_", path.lower())


def parameter_rows(run_ids: Sequence[int], parameters: Sequence[str]) -> pa.Table:
    """Returns the parameters of runs as columns.

    Args:
        run_ids: The runs.
        parameters: For each of them the JSON object of table ``run``: path to value.

    Returns:
        ``run_id``, then a column a path in the order of the alphabet: whole numbers, numbers, truth values or texts
        where all values are such, else the values as JSON; null where a run has no such parameter.
    """
    parsed: dict[str, Mapping[str, Any]] = {text: json.loads(text) for text in set(parameters)}
    given = [parsed[text] for text in parameters]
    columns: dict[str, pa.Array] = {_RUN_ID: pa.array(run_ids, pa.int64())}
    for name, path in _paths(parsed.values()).items():
        columns[name] = _column([values.get(path) for values in given])
    return pa.table(columns)


def parameter_paths(parameters: Sequence[str]) -> dict[str, str]:
    """Returns the paths of parameters by column, but for ``run_id``; parameters as in `parameter_rows`."""
    return _paths(json.loads(text) for text in set(parameters))


def _paths(parsed: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    columns = {_RUN_ID: ""}
    for path in sorted({path for values in parsed for path in values}):
        columns[_free(column_name(path), columns)] = path
    return {name: path for name, path in columns.items() if path}


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Two paths may differ in signs only."""
    while name in taken:
        name += "_"
    return name


def _column(values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        kinds = {float}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in _SIMPLE:
        return pa.array([None if value is None else kind(value) for value in values], _SIMPLE[kind])
    texts = [None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False) for value in values]
    return pa.array(texts, pa.string())
