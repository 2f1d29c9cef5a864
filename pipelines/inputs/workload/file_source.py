"""Subscriptions and publications from the rows of a workload file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.run_inputs import SUBSCRIPTION, Ints, Overlay
from pipelines.errors import KeyPath, PredicateError, blamed_on
from pipelines.files import find_file
from pipelines.inputs.text_rows import names_of, texts_of
from pipelines.inputs.timestamps import Moments, moments_of
from pipelines.inputs.workload.calls import PUBLICATIONS, SUBSCRIPTIONS, canonical_text
from pipelines.inputs.workload.contents import NO_CONTENT, attribute_rows, json_rows, publication_rows
from pipelines.inputs.workload.file_rows import FileRows, typed_column
from pipelines.inputs.workload.reading import Loaded, load
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload_files import PublicationFile, SubscriptionFile


def subscriptions_of_file(
    file: SubscriptionFile, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None, *,
    is_mqtt: bool,
) -> pa.Table:  # fmt: skip
    """Returns the rows of `file` as table `SUBSCRIPTION`. With `is_mqtt` topics may be MQTT filters.

    Raises:
        InputError: The file or a column is missing, or rows are invalid. The message names the rows.
    """
    place: KeyPath = (*SUBSCRIPTIONS, "file")
    loaded = _loaded(place, file, beside)
    rows = FileRows(place, loaded.table, overlay, time)
    node = rows.nodes(file.node, file.nodes, seed, "workload.subscriptions.nodes")
    round_ = rows.rounds(file.round, None) if file.at_ms is None else rows.times("at_ms", file.at_ms, file.unit)
    end_round = rows.untils(file.until, file.until_ms, file.unit, round_)
    texts = _subscription_texts(rows, loaded, file.topic, file.where, is_mqtt=is_mqtt)
    rows.raise_problems()
    return pa.table([pa.array(node), pa.array(round_), end_round, texts], schema=SUBSCRIPTION)


def publications_of_file(
    file: PublicationFile, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None
) -> tuple[pa.Table, pa.Table]:
    """Returns the rows of `file` as tables `PUBLICATION` and `ATTRIBUTE`; ``file.reverse`` reverses the rows.

    Raises:
        InputError: The file or a column is missing, or rows are invalid. The message names the rows.
    """
    place: KeyPath = (*PUBLICATIONS, "file")
    loaded = _loaded(place, file, beside)
    rows = FileRows(place, loaded.table, overlay, time)
    node = rows.nodes(file.node, file.nodes, seed, "workload.publications.nodes")
    by_round = file.at_ms is None
    round_ = rows.rounds(file.round, file.per_round) if by_round else rows.times("at_ms", file.at_ms or "", file.unit)
    if file.topic is not None:
        rows.texts("topic", file.topic)
    names = _content_names(rows, file)
    rows.raise_problems()
    topic, content, attribute = _contents(loaded, file.topic, names)
    _refuse_empty(rows, topic, content)
    return publication_rows(node, round_, topic, content), attribute


def _refuse_empty(rows: FileRows, topic: pa.Array, content: pa.Array) -> None:
    empty = pc.indices_nonzero(pc.and_(pc.is_null(topic), pc.equal(content, NO_CONTENT)))
    if len(empty):
        which = f"row {empty[0].as_py() + 1} has" if len(empty) == 1 else f"{len(empty)} rows have"
        rows.refuse("path", f"{which} neither topic nor content, so no subscription is satisfied; leave them out")
        rows.raise_problems()


def _loaded(place: KeyPath, file: SubscriptionFile | PublicationFile, beside: Path | None) -> Loaded:
    reverse = getattr(file, "reverse", False)
    with blamed_on(*place):
        return load(find_file(file.path, beside), file.format, reverse=reverse, limit=file.limit, named=_named(file))


def _named(file: SubscriptionFile | PublicationFile) -> tuple[str, ...]:
    columns = ("topic", "where", "round", "until", "at_ms", "until_ms", "node")
    given = [getattr(file, key, None) for key in columns if key in file.model_fields_set]
    return tuple(name for name in given if isinstance(name, str))


def file_notes(
    file: SubscriptionFile | PublicationFile, place: KeyPath, time: TimeSpec, beside: Path | None
) -> Iterator[str]:
    """Yields notes for the user on the detected properties and the columns of times of a file, which must be readable.

    `place` is the path of the file's key in the scenario.
    """
    yield from _loaded(place, file, beside).notes
    for _, name, moments in _times(file, place, beside):
        yield moments.note(name, time)
        time = time.with_origin(moments.origin_ms)


def timestamp_settings(file: SubscriptionFile | PublicationFile, place: KeyPath, beside: Path | None) -> Iterator[str]:
    """Yields the first of the keys ``at_ms`` and ``until_ms`` that names a column of timestamps, if any.

    The key is yielded as its dotted path in the scenario. The file must be readable.
    """
    for key, _, moments in _times(file, place, beside):
        if moments.origin_ms is not None:
            yield ".".join(map(str, (*place, key)))
            return


def _times(
    file: SubscriptionFile | PublicationFile, place: KeyPath, beside: Path | None
) -> Iterator[tuple[str, str, Moments]]:
    """Yields (key of the scenario, name of the column, times) for each column of times of a file."""
    for key in ("at_ms", "until_ms"):
        if (name := getattr(file, key, None)) is not None:
            table = _loaded(place, file, beside).table
            if table.num_rows:
                yield key, name, moments_of(table[name], file.unit)


def _subscription_texts(
    rows: FileRows, loaded: Loaded, topic: str | None, where: str | None, *, is_mqtt: bool
) -> pa.Array:
    if topic is None and where is None:
        message = "name the column of the topic (topic) or of the predicate (where)"
        rows.refuse("topic", f"{message}; columns: {rows.column_names}")
        return pa.nulls(0, pa.string())
    columns = [rows.texts(key, name) for key, name in (("topic", topic), ("where", where)) if name is not None]
    if any(column is None for column in columns):
        return pa.nulls(0, pa.string())
    texts, wrong = _canonical_texts(loaded, topic, where, is_mqtt=is_mqtt)
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
    table = loaded.table
    codes, values = zip(*(_coded(table, name) for name in (topic, where)), strict=True)
    width = len(values[1])
    pairs, first, place = np.unique(codes[0] * width + codes[1], return_index=True, return_inverse=True)
    texts, wrong = [], []
    for pair, row in zip(pairs.tolist(), first.tolist(), strict=True):
        try:
            texts.append(canonical_text(values[0][pair // width], values[1][pair % width], is_mqtt=is_mqtt))
        except PredicateError as error:
            texts.append("")
            wrong.append((row, str(error)))
    return pa.array(texts, pa.string()).take(pa.array(place)), sorted(wrong)


def _coded(table: pa.Table, name: str | None) -> tuple[Ints, list[str | None]]:
    if name is None:
        return np.zeros(table.num_rows, dtype=np.int64), [None]
    # The codes are indexes into `values`: the distinct strings, then None for null cells.
    encoded = texts_of(table[name]).dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return pc.fill_null(encoded.indices, len(values) - 1).to_numpy().astype(np.int64), values


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
    return topics, json_rows(columns, table.num_rows), attribute_rows(topics, columns)
