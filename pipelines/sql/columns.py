"""What columns mean that have the same name in several views.

A view says in its own file what is special to it (`pipelines.sql.views`). What is here holds in every view that does
not say otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipelines.protocols import PROTOCOLS
from pipelines.tables import DELIVERY, MESSAGE, NODE, PUBLICATION, SUBSCRIPTION, Table


def table_columns(table: Table) -> dict[str, str]:
    """Returns what the columns of a table mean, by name."""
    return {field.name: field.metadata["comment"] for field in table.schema if "comment" in field.metadata}


def _of(table: Table, *names: str) -> Iterator[tuple[str, str]]:
    meanings = table_columns(table)
    return ((name, meanings[name]) for name in names)


COMMON: Final[Mapping[str, str]] = {
    **dict(_of(NODE, "run_id", "node_id", "name", "role")),
    **dict(_of(PUBLICATION, "source", "source_seq")),
    **dict(_of(SUBSCRIPTION, "subscription_id", "subscriber")),
    **dict(_of(DELIVERY, "latency_rounds")),
    "src_name": "name of the node that sent it",
    "dst_name": "name of the node it was sent to",
    "source_name": "name of the source",
    "subscriber_name": "name of the subscriber",
    "publication_round": "round in which the publication was issued",
    "delivery_round": "round of the first delivery; null: it did not happen",
    "latency_ms": "latency_rounds in ms; null where run.round_ms is",
    "crash_round": "round of the crash",
    "recovery_round": "round of the recovery; null: it did not recover",
    "n_messages": "messages that were put on a link, whatever became of them",
    "n_deliveries": "deliveries",
    "n_expected": "deliveries that had to happen, see view expected_delivery",
    "n_missing": "expected deliveries that did not happen",
    "n_wanted": "deliveries that subscribers wanted, see view wanted_delivery",
    "n_wanted_delivered": "wanted deliveries that happened",
    "wanted_ratio": "n_wanted_delivered / n_wanted",
    "n_crashes": "crashes of nodes",
}
"""By name; the words of a table where it has a column of the name with this meaning."""

PROTOCOL_COLUMNS: Final[Mapping[str, str]] = {
    "name": "name of the protocol",
    "confirms": "whether it confirms calls; otherwise a call is final when it is issued",
    "confirms_delivery": "whether a publication is confirmed only when all who are to have it do",
    "keeps_source_order": "whether a subscriber gets all publications of a source in their order",
    "maintenance": "kinds of messages that nodes send for ever",
    "application": "kinds that carry publications; like the next two for comparisons, see view comparison",
    "acknowledgement": "kinds that say what has come, or was stored or processed",
    "recovery": "kinds that bring or ask for what was lost, and that bring nodes back; all other kinds are control",
}
"""Columns of view ``protocol``."""


IN_FLIGHT_COLUMNS: Final[Mapping[str, str]] = {
    **table_columns(MESSAGE),
    "remaining_rounds": "rounds until it is due",
}
"""Columns of state table ``message`` that the messages of all protocols have."""


def in_flight_meanings(payload: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns what the columns of state table ``message`` mean, by name.

    Args:
        payload: The names of what the messages of each protocol carry, by protocol.
    """
    carried: dict[str, list[str]] = defaultdict(list)
    for protocol, names in payload.items():
        for name in names:
            carried[name].append(protocol)
    told = {name: f"carried by messages of {', '.join(protocols)}" for name, protocols in carried.items()}
    return {**told, **IN_FLIGHT_COLUMNS}


def parameter_meanings(paths: Mapping[str, str], protocols: Sequence[str]) -> dict[str, str]:
    """Returns what the columns of view ``parameter`` mean, by name.

    Args:
        paths: Their paths, by name.
        protocols: The protocols whose settings are among them; several may have one by the same name.
    """
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for protocol in (name for name in protocols if name in PROTOCOLS):
        for name, field in PROTOCOLS[protocol].settings.model_fields.items():
            if field.description:
                told[f"protocol.{name}"][field.description].append(protocol)
    return {name: _meaning(path, told.get(path, {})) for name, path in paths.items()}


def _meaning(path: str, told: Mapping[str, Sequence[str]]) -> str:
    """Returns what a parameter means; where it means different things, with the protocols."""
    if len(told) <= 1:
        return ": ".join([path, *told])
    meanings = (f"{', '.join(protocols)}: {text}" for text, protocols in told.items())
    return f"{path}: {'; '.join(meanings)}"
