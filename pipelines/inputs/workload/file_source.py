"""Subscriptions and publications from the rows of a workload file.

`FileRows` converts the columns of a file, and collects all problems in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.run_inputs import SUBSCRIPTION, Ints, Overlay
from pipelines.errors import InputError, KeyPath, PredicateError, Problem, blamed_on, listed, nearest, raise_problems
from pipelines.files import find_file
from pipelines.inputs.overlay.build import choose_nodes, ids_by_name
from pipelines.inputs.text_rows import is_number, names_of, texts_of
from pipelines.inputs.timestamps import Moments, moments_of
from pipelines.inputs.workload import calls
from pipelines.inputs.workload.reading import Loaded, load
from pipelines.scenario.model import unknown_node
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload import PublicationFile, SubscriptionFile

File: TypeAlias = SubscriptionFile | PublicationFile
Converted = TypeVar("Converted")
_SHOWN = 5


def typed_column(column: pa.ChunkedArray) -> pa.Array:
    """Converts `column` to the type of its values: int64, float64, bool or string.

    Raises:
        pa.ArrowInvalid: The values have a type that the content of a publication cannot have, such as a list, or no
            single type represents all numbers exactly.
    """
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _typed_texts(pc.cast(values, pa.string()))
    if pa.types.is_boolean(values.type):
        return values
    if pa.types.is_integer(values.type):
        return pc.cast(values, pa.int64())
    if pa.types.is_decimal(values.type):
        return _typed_decimals(values)
    if pa.types.is_floating(values.type):
        return pc.cast(values, pa.float64())
    return pc.cast(values, pa.string())


def _typed_texts(texts: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(texts)
    numbers, wrong = calls.parsed_numbers(trimmed)
    if wrong is not None:
        message = f"the whole number {wrong} beside decimals, or beyond 64 bits, is not exact"
        raise pa.ArrowInvalid(f"{message}; allowed: whole numbers of 64 bits in a column without decimals")
    if numbers is not None:
        return numbers
    lowered = pc.utf8_lower(trimmed)
    is_logical = pc.all(pc.is_in(lowered, value_set=pa.array(["true", "false", None], pa.string()))).as_py()
    return pc.equal(lowered, "true") if is_logical else texts


def _typed_decimals(values: pa.Array) -> pa.Array:
    # Decimal columns without fractional digits, or with numbers too large for exact doubles, become whole numbers.
    numbers = pc.cast(values, pa.float64())
    is_large = pc.any(pc.greater_equal(pc.abs(numbers), float(2**53))).as_py()
    return pc.cast(values, pa.int64()) if is_large or values.type.scale <= 0 else numbers


def _is_time(column: pa.ChunkedArray) -> bool:
    try:
        moments = moments_of(column, None)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return moments.origin_ms is not None and not moments.is_wrong.any()


class FileRows:
    """The rows of one file, and a list of the problems in the file.

    A method that cannot convert a column records a problem and returns an empty array. The caller must therefore call
    `errors.raise_problems` before it uses results.
    """

    def __init__(
        self, part: KeyPath, file: File, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None
    ) -> None:
        """Reads a file. `part` is the path of the file's part of the workload."""
        self._place: KeyPath = (*part, "file")
        self._purpose = ".".join(map(str, (*part, "nodes")))
        self._file = file
        self._overlay = overlay
        self._seed = seed
        self._time = time
        self.loaded = _loaded(self._place, file, beside)
        self.table = self.loaded.table
        self.problems: list[Problem] = []

    @property
    def column_names(self) -> str:
        """The names of the columns, for error messages."""
        return ", ".join(self.table.column_names)

    def refuse(self, key: str, message: str) -> None:
        """Records a problem: `message` about key `key` of the scenario's file entry."""
        self.problems.append(Problem((*self._place, key), message))

    def column(self, key: str, name: str) -> pa.ChunkedArray | None:
        """Returns column `name`. If the file lacks the column, records a problem for `key` and returns None."""
        if name in self.table.column_names:
            return self.table[name]
        hint, without_header = nearest(name, self.table.column_names), ""
        if any(is_number(title) for title in self.table.column_names):
            without_header = "; without a header name columns by numbers, '1' for the first"
        self.refuse(key, f"no column {name!r};{hint} columns: {self.column_names}{without_header}")
        return None

    def _converted(
        self, key: str, name: str, convert: Callable[[pa.ChunkedArray], Converted], cure: str
    ) -> Converted | None:
        column = self.column(key, name)
        if column is None:
            return None
        try:
            return convert(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            self.refuse(key, f"column {name!r} holds {column.type!s:.80}{cure.format(error=f'{error!s:.200}')}")
            return None

    def times(self, key: str) -> Ints:
        """Returns the round of the time in each row of the column that `key` of the file names; -1 for an empty cell.

        Records a problem for each cell without a valid time or with a time outside the run.
        """
        name: str = getattr(self._file, key)
        cure = ", which is not a time; name another column"
        moments = self._converted(key, name, lambda column: moments_of(column, self._file.unit), cure)
        if moments is None:
            return np.empty(0, dtype=np.int64)
        cells = pc.cast(self.table[name].combine_chunks(), pa.string())
        cure = "allowed: ms from the start, ISO 8601, or numbers from 1970"
        self._refuse_rows(key, moments.is_wrong, lambda row: f"{cells[row].as_py()!r} is not a time; {cure}")
        if key == "at_ms":
            self._time = self._time.with_origin(moments.origin_ms)
            is_empty = np.isnan(moments.ms) & ~moments.is_wrong
            self._refuse_rows(key, is_empty, lambda _: "the cell is empty; give it a time")
        early = moments.exact(self._time) < -0.5
        cure = "write 0 or more" if moments.origin_ms is None else "set time.origin to it or earlier"
        self._refuse_rows(key, early, lambda row: f"{cells[row].as_py()!r} is before round 0; {cure}")
        rounds = moments.rounds(self._time)
        return rounds if key == "until_ms" else self._within_horizon(rounds, "raise time.rounds or time.speed", key)

    def untils(self, file: SubscriptionFile, begin: Ints) -> pa.Array:
        """Returns the round in which the subscription of each row ends, null for an empty cell.

        `begin` contains the first round of each subscription. Records a problem for each subscription that does not end
        after its first round.
        """
        if file.until_ms is not None:
            rounds, key = self.times("until_ms"), "until_ms"
        elif file.until is not None:
            rounds, key = self._whole("until", file.until, needs_value=False), "until"
        else:
            return pa.nulls(len(begin), pa.int64())
        if not len(begin) == len(rounds) == self.table.num_rows:
            return pa.nulls(0, pa.int64())
        is_bad = (rounds >= 0) & (rounds <= begin)
        why = "it ends in round {}, not after round {}; give a later end".format
        self._refuse_rows(key, is_bad, lambda row: why(rounds[row], begin[row]))
        return pa.array(rounds, mask=rounds < 0)

    def texts(self, key: str, name: str) -> pa.Array | None:
        """Returns column `name` as strings, null for empty cells; records a problem and returns None if this fails."""
        convert = names_of if key in ("node", "topic") else texts_of
        return self._converted(key, name, convert, ", which is not text; name another column")

    def nodes(self) -> Ints:
        """Returns the node id of each row.

        Without key ``nodes`` of the file, column ``node`` contains node names. With this key, `choose_nodes` selects
        nodes, which are assigned cyclically to the distinct values of column ``node``, in the order of their first
        appearance, or, without a column, to the rows.
        """
        name = self._file.node
        column = None if name is None else self.texts("node", name)
        if self._file.nodes is None:
            return self._named_nodes(name, column)
        try:
            chosen = choose_nodes(self._file.nodes, self._overlay, self._seed, self._purpose, (*self._place, "nodes"))
        except InputError as error:
            self.problems.extend(error.problems)
            return np.empty(0, dtype=np.int64)
        group: Ints = np.arange(self.table.num_rows) if column is None else self._groups(column)[0]
        return np.asarray(chosen[group % len(chosen)], dtype=np.int64)

    def _named_nodes(self, name: str | None, column: pa.Array | None) -> Ints:
        if name is None:
            message = "no node; name a column (node), nodes to assign to rows cyclically (nodes), or both"
            self.refuse("node", f"{message}; columns: {self.column_names}")
        if column is None:
            return np.empty(0, dtype=np.int64)
        ids = ids_by_name(self._overlay)
        group, names = self._groups(column)
        unknown = [i for i, node in enumerate(names) if node not in ids]
        for i in unknown[:_SHOWN]:
            row = int(np.flatnonzero(group == i)[0]) + 1
            message = f"row {row}: {unknown_node(names[i], self._overlay.names)}"
            self.refuse("node", f"{message}; or map the values to nodes with key nodes, e.g. nodes: all")
        if len(unknown) > _SHOWN:
            self.refuse("node", f"{len(unknown) - _SHOWN} more names in the column are not nodes of the overlay")
        return np.array([ids.get(node, 0) for node in names], dtype=np.int64)[group]

    def _groups(self, texts: pa.Array) -> tuple[Ints, list[str]]:
        is_empty = texts.is_null().to_numpy(zero_copy_only=False)
        self._refuse_rows("node", is_empty, lambda _: "the cell is empty; give it a value")
        encoded = pc.fill_null(texts, "").dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()

    def rounds(self, per_round: int | None) -> Ints:
        """Returns the round of each row.

        If key ``round`` of the file is a number, it is the first round, and each round takes `per_round` rows. If
        `per_round` is `None`, the first round takes all rows.
        """
        given = self._file.round
        if self._file.at_ms is not None:
            return self.times("at_ms")
        if isinstance(given, str):
            return self._within_horizon(self._whole("round", given), "raise time.rounds, or remove these rows")
        row = np.arange(self.table.num_rows, dtype=np.int64)
        rounds = given + (row // per_round if per_round else np.zeros_like(row))
        return self._within_horizon(rounds, "raise time.rounds or per_round, or set a limit")

    def _whole(self, key: str, name: str, *, needs_value: bool = True) -> Ints:
        column = self.texts(key, name)
        if column is None:
            return np.empty(0, dtype=np.int64)
        texts = pc.fill_null(column, "")
        is_round = pc.match_substring_regex(texts, r"^[0-9]{1,15}(\.0*)?$").to_numpy(zero_copy_only=False)
        is_empty = column.is_null().to_numpy(zero_copy_only=False) & (not needs_value)
        whole = pc.cast(pc.cast(pc.if_else(pa.array(is_round), texts, "0"), pa.float64()), pa.int64()).to_numpy()
        if (not is_round.all() or whole.max(initial=0) > self._time.rounds) and _is_time(self.table[name]):
            cure = f"write {'at_ms' if key == 'round' else 'until_ms'}: {name} in place of {key}"
            self.refuse(key, f"row 1: {texts[0].as_py()!r} is not a round; the column contains times: {cure}")
            return np.zeros(len(texts), dtype=np.int64)
        why = "is not a round; give a whole number from 0"
        self._refuse_rows(key, ~is_round & ~is_empty, lambda row: f"{texts[row].as_py()!r} {why}")
        return np.where(is_empty, -1, whole)

    def _within_horizon(self, rounds: Ints, advice: str, key: str = "round") -> Ints:
        late = f"is after the horizon of {self._time.rounds} rounds; {advice}"
        self._refuse_rows(key, rounds > self._time.rounds, lambda row: f"round {rounds[row]} {late}")
        return rounds

    def refuse_unusable(self, name: str) -> None:
        """Records a problem if column `name` has infinite numbers, NaN or nested types: content cannot contain them."""
        values = self._converted("content", name, typed_column, ": {error}; leave it out of content")
        if values is not None and pa.types.is_floating(values.type):
            is_bad = pc.fill_null(pc.invert(pc.is_finite(values)), False).to_numpy(zero_copy_only=False)
            cure = "no finite number; leave the cell empty"
            self._refuse_rows("content", is_bad, lambda row: f"{name} is {values[row]}, {cure}")

    def _refuse_rows(self, key: str, is_bad: np.ndarray, why: Callable[[int], str]) -> None:
        bad = np.flatnonzero(is_bad)
        if not len(bad):
            return
        others = [str(row + 1) for row in bad[1:].tolist()]
        rest = f" (so are rows {listed(others, _SHOWN - 1)})" if others else ""
        self.refuse(key, f"row {bad[0] + 1}: {why(int(bad[0]))}{rest}")


def subscriptions_of_file(
    file: SubscriptionFile, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None, *,
    is_mqtt: bool,
) -> pa.Table:  # fmt: skip
    """Returns the rows of `file` as table `SUBSCRIPTION`. With `is_mqtt` topics may be MQTT filters."""
    rows = FileRows(calls.SUBSCRIPTIONS, file, overlay, seed, time, beside)
    node, round_ = rows.nodes(), rows.rounds(None)
    end_round = rows.untils(file, round_)
    texts = _subscription_texts(rows, file.topic, file.where, is_mqtt=is_mqtt)
    raise_problems(rows.problems)
    return pa.table([pa.array(node), pa.array(round_), end_round, texts], schema=SUBSCRIPTION)


def publications_of_file(
    file: PublicationFile, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None
) -> tuple[pa.Table, pa.Table]:
    """Returns the rows of `file` as tables `PUBLICATION` and `ATTRIBUTE`; ``file.reverse`` reverses the rows."""
    rows = FileRows(calls.PUBLICATIONS, file, overlay, seed, time, beside)
    node, round_ = rows.nodes(), rows.rounds(file.per_round)
    if file.topic is not None:
        rows.texts("topic", file.topic)
    names = _content_names(rows, file)
    raise_problems(rows.problems)
    topic, content, attribute = _contents(rows.loaded, file.topic, names)
    empty = pc.indices_nonzero(pc.and_(pc.is_null(topic), pc.equal(content, calls.NO_CONTENT)))
    if len(empty):
        which = f"row {empty[0].as_py() + 1} has" if len(empty) == 1 else f"{len(empty)} rows have"
        rows.refuse("path", f"{which} neither topic nor content, so no subscription is satisfied; leave them out")
        raise_problems(rows.problems)
    return calls.publication_rows(node, round_, topic, content), attribute


def _loaded(place: KeyPath, file: File, beside: Path | None) -> Loaded:
    columns = ("topic", "where", "round", "until", "at_ms", "until_ms", "node")
    given = [getattr(file, key, None) for key in columns if key in file.model_fields_set]
    named, reverse = tuple(name for name in given if isinstance(name, str)), getattr(file, "reverse", False)
    with blamed_on(*place):
        return load(find_file(file.path, beside), file.format, reverse=reverse, limit=file.limit, named=named)


def file_notes(file: File, place: KeyPath, time: TimeSpec, beside: Path | None) -> Iterator[str]:
    """Yields notes for the user on the detected properties and the columns of times of a readable file."""
    yield from _loaded(place, file, beside).notes
    for _, name, moments in _times(file, place, beside):
        yield moments.note(name, time)
        time = time.with_origin(moments.origin_ms)


def timestamp_settings(file: File, place: KeyPath, beside: Path | None) -> Iterator[str]:
    """Yields the first of the keys ``at_ms`` and ``until_ms`` that names a column of timestamps, if any.

    The key is yielded as its dotted path in the scenario. The file must be readable.
    """
    for key, _, moments in _times(file, place, beside):
        if moments.origin_ms is not None:
            yield ".".join(map(str, (*place, key)))
            return


def _times(file: File, place: KeyPath, beside: Path | None) -> Iterator[tuple[str, str, Moments]]:
    """Yields (key of the scenario, name of the column, times) for each column of times of a file."""
    for key in ("at_ms", "until_ms"):
        if (name := getattr(file, key, None)) is not None:
            table = _loaded(place, file, beside).table
            if table.num_rows:
                yield key, name, moments_of(table[name], file.unit)


def _subscription_texts(rows: FileRows, topic: str | None, where: str | None, *, is_mqtt: bool) -> pa.Array:
    if topic is None and where is None:
        message = "name the column of the topic (topic) or of the predicate (where)"
        rows.refuse("topic", f"{message}; columns: {rows.column_names}")
        return pa.nulls(0, pa.string())
    columns = [rows.texts(key, name) for key, name in (("topic", topic), ("where", where)) if name is not None]
    if any(column is None for column in columns):
        return pa.nulls(0, pa.string())
    texts, wrong = _canonical_texts(rows.loaded, topic, where, is_mqtt=is_mqtt)
    for row, message in wrong[:5]:
        rows.refuse("topic" if where is None else "where", f"row {row + 1}: {message}")
    if len(wrong) > 5:
        rows.refuse("topic" if where is None else "where", f"{len(wrong) - 5} more predicates are wrong")
    return texts


@lru_cache(maxsize=4)
def _canonical_texts(
    loaded: Loaded, topic: str | None, where: str | None, *, is_mqtt: bool
) -> tuple[pa.Array, list[tuple[int, str]]]:
    # Only distinct pairs of topic and predicate are parsed; `wrong` has the first row and error of each invalid pair.
    given = {key: name for key, name in (("topic", topic), ("where", where)) if name is not None}
    frame = pd.DataFrame({key: texts_of(loaded.table[name]).to_pandas() for key, name in given.items()})
    pairs = frame.groupby([*given], dropna=False, sort=False)
    first = pairs.head(1).astype(object)
    first = first.where(first.notna(), None)
    texts, wrong = [], []
    for row, pair in zip(first.index.tolist(), first.to_dict("records"), strict=True):
        try:
            texts.append(calls.canonical_text(pair.get("topic"), pair.get("where"), is_mqtt=is_mqtt))
        except PredicateError as error:
            texts.append("")
            wrong.append((row, str(error)))
    return pa.array(texts, pa.string()).take(pa.array(pairs.ngroup())), wrong


def _content_names(rows: FileRows, file: PublicationFile) -> tuple[str, ...]:
    if file.content is None:
        # A column whose values are distributed over nodes is data and belongs to the content.
        used = {file.topic, file.round, file.at_ms, file.node if file.nodes is None else None}
        names = [name for name in rows.table.column_names if name not in used]
    else:
        names = [name for name in file.content if rows.column("content", name) is not None]
    for name in names:
        if name == "topic":
            cure = "rename the column, leave it out of content, or make it the topic"
            rows.refuse("content", f"no attribute can be called topic; {cure}")
        else:
            rows.refuse_unusable(name)
    return tuple(names)


@lru_cache(maxsize=4)
def _contents(loaded: Loaded, topic: str | None, names: tuple[str, ...]) -> tuple[pa.Array, pa.Array, pa.Table]:
    table = loaded.table
    topics = pa.nulls(table.num_rows, pa.string()) if topic is None else names_of(table[topic])
    columns = {name: typed_column(table[name]) for name in names}
    return topics, calls.json_rows(columns, table.num_rows), calls.attribute_rows(topics, columns)
