"""The SQL views of a store, one file each, and the descriptions in their comment lines.

The files in ``pipelines/sql`` are views of every store. `Protocol.views` is a package with views of one protocol.

A file contains comment lines and one SELECT. The first comment line is the question that the view answers. The next
lines state the grain and other facts. The last lines describe the columns:

- ``-- :column meaning`` states the meaning of a column. If the next line has no leading colon, it continues the
  meaning.
- ``-- :* relation`` names a table or view that the view reads. A column of the view without a line has the meaning of
  the column of this name in the relation.

Columns in `COMMON` need no line. Views read tables and other views by their bare names; module `pipelines.sql.query`
resolves the names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from itertools import takewhile
from typing import Final

from pipelines.contract.audit import sql_files
from pipelines.contract.round import STATE
from pipelines.errors import QueryError
from pipelines.protocols import PROTOCOLS
from pipelines.sql.statement import identifiers
from pipelines.tables import DELIVERY, MESSAGE, NODE, PUBLICATION, SUBSCRIPTION, Table

_COMMENT = "--"
_COLUMN = ":"
_OTHERS = "*"


@dataclass(frozen=True)
class ViewHead:
    """The parsed comment lines of a view.

    Attributes:
        question: The question that the view answers.
        prose: The lines that state the grain and other facts; list items begin with ``*``.
        columns: Maps column names to meanings.
        like: The relations in the lines ``:* relation``. The first of them that has a column gives the column its
            meaning, unless `columns` has it.
    """

    question: str
    prose: Sequence[str]
    columns: Mapping[str, str]
    like: Sequence[str]


@cache
def view_head(name: str) -> ViewHead:
    """Returns the parsed comment lines of a view.

    Raises:
        QueryError: A line ``-- :* relation`` names a relation that the view does not read.
    """
    text = view_sources()[name]
    commented = takewhile(lambda line: line.startswith(_COMMENT), text.splitlines())
    first, *lines = [line.removeprefix(_COMMENT).strip() for line in commented] or [""]
    prose = [*takewhile(lambda line: not line.startswith(_COLUMN), lines)]
    meanings = list[str]()
    for line in lines[len(prose) :]:
        if line.startswith(_COLUMN):
            meanings.append(line.removeprefix(_COLUMN))
        else:
            meanings[-1] += f" {line}"
    told = [meaning.split(maxsplit=1) for meaning in meanings]
    like = [rest for column, *others in told if column == _OTHERS for rest in others]
    if unread := [relation for relation in like if relation not in identifiers(text)]:
        raise QueryError(
            f"view {name!r} has the meaning of columns from {unread[0]!r}, which it does not read; allowed after "
            f"'{_COMMENT} {_COLUMN}{_OTHERS}': a table or a view that it reads"
        )
    columns = {column: rest for column, *others in told if column != _OTHERS for rest in others}
    return ViewHead(first, prose, columns, like)


def relations_read(text: str) -> list[str]:
    """Returns the identifiers in a query, and in the SQL of all views that it reads directly or through views.

    They include the names of all relations that the query reads. Names of views come last, in dependency order.
    """
    views = view_sources()
    found = set(identifiers(text))
    for name in reversed(list(views)):
        if name in found:
            found |= identifiers(views[name])
    return sorted(found - views.keys()) + [name for name in views if name in found]


@cache
def states_read(view: str) -> frozenset[str]:
    """Returns the names of the state tables that a view reads, directly or through views."""
    return frozenset(name for name in relations_read(view) if name.startswith(STATE))


@cache
def view_owners() -> Mapping[str, Sequence[str]]:
    """Maps each view that belongs to protocols to the names of these protocols; views of every store are omitted."""
    general = sql_files("pipelines.sql")
    owners: dict[str, list[str]] = defaultdict(list)
    for spec in PROTOCOLS.values():
        for view in {**(sql_files(spec.views) if spec.views else {}), **spec.made_views}.keys() - general.keys():
            owners[view].append(spec.name)
    return owners


@cache
def view_sources() -> Mapping[str, str]:
    """Returns the SQL of all views by name, in dependency order: each view comes after the views that it reads."""
    packages = ["pipelines.sql", *(spec.views for spec in PROTOCOLS.values() if spec.views)]
    texts: dict[str, str] = {}
    for package in reversed(packages):  # a view of every store takes precedence over a protocol's view of the same name
        texts |= sql_files(package)
    reads = {name: (identifiers(text) & texts.keys()) - {name} for name, text in sorted(texts.items())}
    return {name: texts[name] for name in TopologicalSorter(reads).static_order()}


def table_columns(table: Table) -> dict[str, str]:
    """Returns the meanings of the columns of a table, by column name."""
    return {field.name: field.metadata["comment"] for field in table.schema if "comment" in field.metadata}


def _of(table: Table, *names: str) -> Iterator[tuple[str, str]]:
    meanings = table_columns(table)
    return ((name, meanings[name]) for name in names)


COMMON: Final[Mapping[str, str]] = {
    **dict(_of(NODE, "run_id", "node_id", "name", "role")),
    **dict(_of(PUBLICATION, "source", "source_seq")),
    **dict(_of(SUBSCRIPTION, "subscription_id", "subscriber")),
    **dict(_of(DELIVERY, "latency_rounds")),
    "src_name": "name of the sending node",
    "dst_name": "name of the receiving node",
    "source_name": "name of the source",
    "subscriber_name": "name of the subscriber",
    "topic": "the topic",
    "publication_round": "round in which the publication was issued",
    "delivery_round": "round of the first delivery; null: not delivered",
    "latency_ms": "latency_rounds in ms",
    "latency_rounds_median": "median of latency_rounds of the deliveries",
    "latency_rounds_p95": "95th percentile of latency_rounds of the deliveries",
    "latency_rounds_max": "maximum of latency_rounds of the deliveries",
    "latency_ms_median": "latency_rounds_median in ms",
    "latency_ms_p95": "latency_rounds_p95 in ms",
    "latency_ms_max": "latency_rounds_max in ms",
    "messages_per_delivery": "n_messages / n_deliveries",
    "crash_round": "round of the crash",
    "recovery_round": "round of the recovery; null: the node did not recover",
    "n_messages": "number of messages that were put on a link, including lost messages",
    "n_deliveries": "number of deliveries",
    "n_expected": "number of deliveries that the protocol must make, see view expected_delivery",
    "n_missing": "number of expected deliveries that did not happen",
    "n_wanted": "number of deliveries that subscribers wanted, see view wanted_delivery",
    "n_wanted_delivered": "number of wanted deliveries that happened",
    "wanted_ratio": "n_wanted_delivered / n_wanted",
    "n_crashes": "number of crashes of nodes",
}
"""Meanings of the columns that several views share, by column name. The first entries are columns of tables."""

PROTOCOL_COLUMNS: Final[Mapping[str, str]] = {
    "name": "name of the protocol",
    "confirms": "whether the protocol confirms calls; if not, a call is final when it is issued",
    "confirms_delivery": "whether a publication is confirmed only after all its subscribers have got it",
    "keeps_source_order": "whether a subscriber gets all publications of a source in the order of publication",
    "maintenance": "types of messages that nodes send periodically, without end",
    "application": "class application: types of messages that carry a publication to a node for the first time; view "
    "comparison has measures of each class",
    "acknowledgement": "class acknowledgement: types of messages that acknowledge the receipt, the storage or the "
    "processing of a message",
    "recovery": "class recovery: types of messages that request or repeat lost messages, or serve recovering nodes; "
    "all other types have class control",
}
"""Meanings of the columns of view ``protocol``."""


IN_FLIGHT_COLUMNS: Final[Mapping[str, str]] = {
    **table_columns(MESSAGE),
    "remaining_rounds": "number of rounds until the message is due",
}
"""Meanings of the columns of state table ``message`` that all protocols share."""


def in_flight_meanings(payload: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the meanings of the columns of state table ``message``.

    ``payload`` maps each protocol to the names of its payload columns, which contain the fields of its messages.
    """
    carried: dict[str, list[str]] = defaultdict(list)
    for protocol, names in payload.items():
        for name in names:
            carried[name].append(protocol)
    told = {name: f"carried by messages of {', '.join(protocols)}" for name, protocols in carried.items()}
    return {**told, **IN_FLIGHT_COLUMNS}


def parameter_meanings(paths: Mapping[str, str], protocols: Sequence[str]) -> dict[str, str]:
    """Returns the meanings of the columns of view ``parameter``; ``paths`` maps each column to its parameter.

    If a setting of one name has different meanings in several of ``protocols``, the result contains all of them.
    """
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for protocol in (name for name in protocols if name in PROTOCOLS):
        for name, field in PROTOCOLS[protocol].settings.model_fields.items():
            if field.description:
                told[f"protocol.{name}"][field.description].append(protocol)
    return {name: _meaning(path, told.get(path, {})) for name, path in paths.items()}


def _meaning(path: str, told: Mapping[str, Sequence[str]]) -> str:
    if len(told) <= 1:
        return ": ".join([path, *told])
    meanings = (f"{', '.join(protocols)}: {text}" for text, protocols in told.items())
    return f"{path}: {'; '.join(meanings)}"
