"""From the workload of a scenario to the tables of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import has_wildcard, topics_of
from pipelines.contract.run_inputs import Overlay, Workload
from pipelines.errors import Problem, WorkloadError
from pipelines.inputs.overlay.nodes import Place
from pipelines.inputs.workload.calls import (
    PUBLICATIONS,
    SUBSCRIPTIONS,
    generated_joins,
    listed_calls,
    listed_joins,
    listed_publications,
    listed_subscriptions,
    moved_subscriptions,
)
from pipelines.inputs.workload.file_source import (
    file_notes,
    publications_of_file,
    subscriptions_of_file,
    timestamp_settings,
)
from pipelines.inputs.workload.generators import generated_publications, generated_subscriptions
from pipelines.scenario.times import DEFAULT_CLOCK, Clock
from pipelines.scenario.workload import (
    JoinGenerator,
    PublicationFileSource,
    PublicationGenerator,
    SubscriptionFileSource,
    SubscriptionGenerator,
    WorkloadSpec,
)
from pipelines.scenario.workload_files import PublicationFile, SubscriptionFile

Part = TypeVar("Part")
_SHOWN = 5


def build_workload(
    spec: WorkloadSpec, *, overlay: Overlay, seed: int, horizon: int, beside: Path | None, clock: Clock = DEFAULT_CLOCK
) -> Workload:
    """Returns one run's subscriptions, publications, joins and other calls.

    Args:
        spec: The workload of the scenario.
        overlay: The run's overlay, whose node ids the tables carry.
        seed: The run's seed; the same seed gives the same workload everywhere.
        horizon: The last round in which something can be asked for.
        beside: The scenario file's folder, where input files are looked up first.
        clock: How times in files become rounds.

    Raises:
        WorkloadError: All that is wrong, each problem at its place in the scenario.
    """
    problems: list[Problem] = []

    def gather(part: Callable[[], Part]) -> Part | None:
        try:
            return part()
        except WorkloadError as error:
            problems.extend(error.problems)
            return None

    subscription = gather(lambda: _subscriptions(spec, overlay, seed, clock, horizon, beside))
    publications = gather(lambda: _publications(spec, overlay, seed, clock, horizon, beside))
    join = gather(lambda: _joins(spec, overlay, seed, horizon))
    if subscription is not None:
        standing = subscription
        subscription = gather(lambda: moved_subscriptions(standing, spec.moves, overlay, horizon))
    other_call = gather(lambda: listed_calls(spec.calls, overlay, horizon))
    if subscription is None or publications is None or join is None or other_call is None:
        raise WorkloadError(*problems)
    publication, attribute = publications
    return Workload(subscription, publication, attribute, join, other_call)


def _joins(spec: WorkloadSpec, overlay: Overlay, seed: int, horizon: int) -> pa.Table:
    if isinstance(spec.joins, JoinGenerator):
        return generated_joins(spec.joins.generate, overlay, seed, horizon)
    return listed_joins(spec.joins, overlay, horizon)


def _subscriptions(
    spec: WorkloadSpec, overlay: Overlay, seed: int, clock: Clock, horizon: int, beside: Path | None
) -> pa.Table:
    is_mqtt = spec.topics == "mqtt"
    match spec.subscriptions:
        case SubscriptionFileSource(file=file):
            return subscriptions_of_file(file, overlay, seed, clock, horizon, beside, is_mqtt=is_mqtt)
        case SubscriptionGenerator(generate=generator):
            return generated_subscriptions(generator, overlay, seed, horizon)
        case listed:
            return listed_subscriptions(listed, overlay, horizon, is_mqtt=is_mqtt)


def _publications(
    spec: WorkloadSpec, overlay: Overlay, seed: int, clock: Clock, horizon: int, beside: Path | None
) -> tuple[pa.Table, pa.Table]:
    place: Place = PUBLICATIONS
    match spec.publications:
        case PublicationFileSource(file=file):
            found = publications_of_file(file, overlay, seed, clock, horizon, beside)
            place = (*PUBLICATIONS, "file", "topic")
        case PublicationGenerator(generate=generator):
            return generated_publications(generator, overlay, seed, horizon)
        case listed:
            found = listed_publications(listed, overlay, horizon)
    if spec.topics == "mqtt":
        _refuse_wildcards(found[0]["topic"], place)
    return found


def _refuse_wildcards(topic: pa.ChunkedArray, place: Place) -> None:
    """Refuses publications on topics with wildcards, as MQTT does."""
    rows = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(topic, r"[+#]"), False)).to_pylist()
    if rows:
        where = (*place, rows[0], "topic") if place == PUBLICATIONS else place
        row = "" if place == PUBLICATIONS else f"row {rows[0] + 1}: "
        more = f" (so have {len(rows) - 1} more)" if len(rows) > 1 else ""
        message = (
            f"{row}the topic {topic[rows[0]].as_py()!r} has a wildcard{more}; allowed with topics: mqtt: no + and #"
        )
        raise WorkloadError(Problem(where, message))


def literal_wildcards(
    spec: WorkloadSpec, *, overlay: Overlay, seed: int, horizon: int, beside: Path | None, clock: Clock = DEFAULT_CLOCK
) -> str:
    """Returns that topics of subscriptions look like filters of MQTT and are compared as they are, or nothing.

    Arguments and errors as in `build_workload`.
    """
    if spec.topics == "mqtt" or isinstance(spec.subscriptions, SubscriptionGenerator):
        return ""
    subscription = _subscriptions(spec, overlay, seed, clock, horizon, beside)
    topics = pc.unique(topics_of(subscription["predicate"], is_alone=False)).to_pylist()
    found = sorted(topic for topic in topics if topic is not None and has_wildcard(topic))
    shown = ", ".join(map(repr, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
    return (
        f"subscriptions to {shown} match a topic of just that name; workload.topics: mqtt makes + and # wildcards"
        if found else ""
    )  # fmt: skip


def source_notes(spec: WorkloadSpec, clock: Clock, beside: Path | None) -> list[str]:
    """Returns the findings in the files of a workload, a sentence each; they can be read."""
    return [note for place, file in _files(spec) for note in file_notes(file, place, clock, beside)]


def timestamped(spec: WorkloadSpec, beside: Path | None) -> list[str]:
    """Returns the files of a workload whose times are timestamps, by their settings; they can be read."""
    return [setting for place, file in _files(spec) for setting in timestamp_settings(file, place, beside)]


def _files(spec: WorkloadSpec) -> Iterator[tuple[tuple[str | int, ...], SubscriptionFile | PublicationFile]]:
    """Yields the files of a workload, each with its place in the scenario."""
    for place, source in ((SUBSCRIPTIONS, spec.subscriptions), (PUBLICATIONS, spec.publications)):
        if isinstance(source, (SubscriptionFileSource, PublicationFileSource)):
            yield (*place, "file"), source.file


def describe() -> list[tuple[str, str]]:
    """Returns each source of a workload with one line about it, as ``roundtable list workloads`` shows them."""
    return [
        ("list", "subscriptions, publications, joins and other calls written in the scenario, one by one"),
        ("file csv", "a table in text, any delimiter, with titles or without, also as .gz or .xz"),
        ("file tsv", "a table in text with tabs and no quoting, e.g. Last.fm user_artists.dat"),
        ("file jsonl", "JSON lines: an object a row"),
        ("file parquet", "Parquet: columns named by the scenario"),
        ("file padres", "PADRES quotes [class,'STOCK'],[symbol,'A'],..., one file or an archive with one a symbol"),
        ("generate topics", "topics topic1, topic2, ... by Zipf popularity; with levels topic1/1, and filters of MQTT"),
        (
            "generate content",
            "classes class1, class2, ... by Zipf popularity with numeric attributes, intervals asked for",
        ),
        (
            "generate quotes",
            "stock quotes with symbol, price and volume: symbols by popularity, prices as random walks",
        ),
        (
            "generate joins",
            "brokers that join one after the other: ends of the overlay, drawn, each at its one neighbour",
        ),
        (
            "generate bank",
            "operations on accounts, with guarantee and keys: balances, deposits, withdrawals, transfers",
        ),
    ]
