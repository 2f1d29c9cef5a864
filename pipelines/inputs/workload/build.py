"""The workload of one run, built from the ``workload`` part of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import has_wildcard, topics_of
from pipelines.contract.run_inputs import Overlay, Workload
from pipelines.errors import InputError, KeyPath, Problem, listed
from pipelines.inputs.overlay.build import named_links
from pipelines.inputs.workload import calls
from pipelines.inputs.workload.file_source import publications_of_file, subscriptions_of_file
from pipelines.inputs.workload.generators import generated_publications, generated_subscriptions
from pipelines.scenario.model import calls as parts_of, name_problems
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload import (
    PublicationFile,
    PublicationFileSource,
    PublicationGenerator,
    SubscriptionFile,
    SubscriptionFileSource,
    SubscriptionGenerator,
    WorkloadSpec,
)

Part = TypeVar("Part")


def build_workload(spec: WorkloadSpec, *, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None) -> Workload:
    """Returns the subscriptions, publications, joins and other calls of one run. Equal seeds give equal workloads."""
    problems = list(name_problems(parts_of(spec, ()), overlay.names, named_links(overlay)))
    wrong = {problem.path[1] for problem in problems}

    def gather(name: str, part: Callable[[], Part]) -> Part | None:
        try:
            return None if name in wrong else part()
        except InputError as error:
            problems.extend(error.problems)
            return None

    subscription = gather("subscriptions", lambda: _subscriptions(spec, overlay, seed, time, beside))
    publications = gather("publications", lambda: _publications(spec, overlay, seed, time, beside))
    joins = spec.joins
    join = gather("joins", lambda: calls.listed_joins(joins, overlay) if isinstance(joins, list)
                  else calls.generated_joins(joins.generate, overlay, seed))  # fmt: skip
    if subscription is not None:
        standing = subscription
        subscription = gather("moves", lambda: calls.moved_subscriptions(standing, spec.moves, overlay, time.rounds))
    other_call = gather("calls", lambda: calls.listed_calls(spec.calls, overlay))
    if subscription is None or publications is None or join is None or other_call is None:
        raise InputError(*problems)
    publication, attribute = publications
    return Workload(subscription, publication, attribute, join, other_call)


def _subscriptions(spec: WorkloadSpec, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None) -> pa.Table:
    is_mqtt = spec.topics == "mqtt"
    match spec.subscriptions:
        case SubscriptionFileSource(file=file):
            return subscriptions_of_file(file, overlay, seed, time, beside, is_mqtt=is_mqtt)
        case SubscriptionGenerator(generate=generator):
            return generated_subscriptions(generator, overlay, seed)
        case listed:
            return calls.listed_subscriptions(listed, overlay, is_mqtt=is_mqtt)


def _publications(
    spec: WorkloadSpec, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None
) -> tuple[pa.Table, pa.Table]:
    place: KeyPath = calls.PUBLICATIONS
    match spec.publications:
        case PublicationFileSource(file=file):
            found = publications_of_file(file, overlay, seed, time, beside)
            place = (*calls.PUBLICATIONS, "file", "topic")
        case PublicationGenerator(generate=generator):
            return generated_publications(generator, overlay, seed)
        case listed:
            found = calls.listed_publications(listed, overlay)
    if spec.topics == "mqtt":
        _refuse_wildcards(found[0]["topic"], place)
    return found


def _refuse_wildcards(topic: pa.ChunkedArray, place: KeyPath) -> None:
    rows = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(topic, r"[+#]"), False)).to_pylist()
    if rows:
        where = (*place, rows[0], "topic") if place == calls.PUBLICATIONS else place
        row = "" if place == calls.PUBLICATIONS else f"row {rows[0] + 1}: "
        more = f" (so have {len(rows) - 1} more)" if len(rows) > 1 else ""
        message = f"{row}the topic {topic[rows[0]].as_py()!r} has a wildcard{more}"
        raise InputError(Problem(where, f"{message}; allowed with topics: mqtt: no + and #"))


def literal_wildcards(spec: WorkloadSpec, *, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None) -> str:
    """Returns a note on subscriptions whose topics look like MQTT filters but are compared literally.

    The note is empty if there are no such topics. Arguments and errors are those of `build_workload`.
    """
    if spec.topics == "mqtt" or isinstance(spec.subscriptions, SubscriptionGenerator):
        return ""
    subscription = _subscriptions(spec, overlay, seed, time, beside)
    topics = pc.unique(topics_of(subscription["predicate"], is_alone=False)).to_pylist()
    found = sorted(topic for topic in topics if topic is not None and has_wildcard(topic))
    shown = listed(map(repr, found), 5)
    note = f"subscriptions to {shown} match a topic of just that name; workload.topics: mqtt makes + and # wildcards"
    return note if found else ""


def workload_files(spec: WorkloadSpec) -> Iterator[tuple[KeyPath, SubscriptionFile | PublicationFile]]:
    """Yields the path in the scenario and the settings of each file of a workload."""
    for place, source in ((calls.SUBSCRIPTIONS, spec.subscriptions), (calls.PUBLICATIONS, spec.publications)):
        if isinstance(source, (SubscriptionFileSource, PublicationFileSource)):
            yield (*place, "file"), source.file


def describe() -> list[tuple[str, str]]:
    """Returns the name and the description of each source of workloads, for ``roundtable list workloads``."""
    return [
        ("list", "subscriptions, publications, joins, moves and other calls, listed in the scenario"),
        ("file csv", "a table in text, any delimiter, with a header or without, also as .gz or .xz"),
        ("file tsv", "a table in text with tabs and no quoting, e.g. Last.fm user_artists.dat"),
        ("file jsonl", "JSON lines: an object in each line"),
        ("file parquet", "a table in Parquet"),
        ("file padres", "PADRES quotes [class,'STOCK'],[symbol,'A'],..., a file or an archive with a file a symbol"),
        ("generate topics", "topics topic1, topic2, ... by Zipf popularity; with levels topic1/1, and MQTT filters"),
        ("generate content", "classes class1, class2, ... by Zipf popularity, with intervals of numeric attributes"),
        ("generate quotes", "stock quotes (symbol, price, volume): symbols by popularity, prices as random walks"),
        ("generate joins", "brokers that join one at a time: drawn leaves of the overlay, each at its neighbour"),
        ("generate bank", "bank operations with guarantees and keys: balances, deposits, withdrawals, transfers"),
    ]
