"""Subscriptions and publications that a scenario lists one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pipelines.contract.predicate import canonical, parse_predicates, value_columns
from pipelines.contract.run_inputs import ATTRIBUTE, SUBSCRIPTION, Overlay
from pipelines.errors import PredicateError, Problem, WorkloadError
from pipelines.inputs.overlay.nodes import Place, ids_by_name, unknown_node
from pipelines.inputs.workload.contents import publication_rows, to_json
from pipelines.scenario.workload import Publication, Subscription

SUBSCRIPTIONS: Place = ("workload", "subscriptions")
PUBLICATIONS: Place = ("workload", "publications")


@lru_cache(maxsize=100_000)
def canonical_text(topic: str | None, where: str | None, *, is_mqtt: bool = False) -> str:
    """Returns the canonical text of a topic and a predicate text; ``is_mqtt``: a topic may be a filter.

    Raises:
        PredicateError: The two are no conjunction.
    """
    return canonical(parse_predicates(topic, where, is_mqtt=is_mqtt))


def after_horizon(round_: int, horizon: int) -> str:
    """Returns the message for a round that a run never reaches."""
    return f"round {round_} is after the horizon of {horizon} rounds; give at most {horizon}, or raise time.rounds"


def listed_subscriptions(listed: Sequence[Subscription], overlay: Overlay, horizon: int, *, is_mqtt: bool) -> pa.Table:
    """Returns the subscription table of a list; ``is_mqtt``: topics may be filters.

    Raises:
        WorkloadError: Unknown nodes, rounds after the horizon and filters of a wrong form, each at its place.
    """
    problems = [*_misplaced(SUBSCRIPTIONS, listed, overlay, horizon)]
    texts = []
    for index, item in enumerate(listed):
        try:
            texts.append(canonical_text(item.topic, item.where, is_mqtt=is_mqtt))
        except PredicateError as error:
            key = "where" if item.topic is None else "topic"
            problems.append(Problem((*SUBSCRIPTIONS, index, key), str(error)))
    if problems:
        raise WorkloadError(*problems)
    ids = ids_by_name(overlay)
    columns = [[ids[s.at] for s in listed], [s.round for s in listed], [s.until for s in listed], texts]
    return pa.table(columns, schema=SUBSCRIPTION)


def listed_publications(listed: Sequence[Publication], overlay: Overlay, horizon: int) -> tuple[pa.Table, pa.Table]:
    """Returns the publication and the attribute table of a list.

    Raises:
        WorkloadError: Unknown nodes and rounds after the horizon, each at its place.
    """
    problems = [*_misplaced(PUBLICATIONS, listed, overlay, horizon)]
    if problems:
        raise WorkloadError(*problems)
    ids = ids_by_name(overlay)
    publication = publication_rows(
        np.array([ids[p.at] for p in listed], dtype=np.int64),
        np.array([p.round for p in listed], dtype=np.int64),
        pa.array([p.topic for p in listed], pa.string()),
        pa.array([to_json(p.content) for p in listed], pa.string()),
        pa.array([p.guarantee for p in listed], pa.string()),
        pa.array([p.keys or None for p in listed], pa.list_(pa.string())),
    )
    rows = [row for i, item in enumerate(listed) for row in _attributes(i, item)]
    columns = list(zip(*rows, strict=True)) or [()] * len(ATTRIBUTE)
    return publication, pa.table([list(column) for column in columns], schema=ATTRIBUTE)


def _misplaced(
    place: Place, listed: Sequence[Subscription | Publication], overlay: Overlay, horizon: int
) -> Iterator[Problem]:
    ids = ids_by_name(overlay)
    for i, item in enumerate(listed):
        if item.at not in ids:
            yield Problem((*place, i, "at"), unknown_node(item.at, overlay))
        if item.round > horizon:
            yield Problem((*place, i, "round"), after_horizon(item.round, horizon))


def _attributes(row: int, item: Publication) -> Iterator[tuple[int, str, float | None, int | None, str | None]]:
    if item.topic is not None:
        yield row, "topic", *value_columns(item.topic)
    for name in sorted(item.content):
        value = item.content[name]
        yield row, name, *value_columns(str(value).lower() if isinstance(value, bool) else value)
