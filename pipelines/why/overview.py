"""Groups the missing, repeated, late and excused deliveries of a store by cause.

The module counts all deliveries of these categories, and computes the causes of the first `MAX_ASKED` deliveries of a
category.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from pipelines.sql.differences import check_run
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root
from pipelines.why.cause import IN_FLIGHT, UNEXPLAINED, WAITING
from pipelines.why.facts import RunFacts
from pipelines.why.reading import read_overlays
from pipelines.why.story import Story
from pipelines.why.telling import Question, stories

MISSING, TWICE, LATE, EXCUSED = "missing", "twice", "late", "excused"
PREDICATES = {MISSING: "are missing", TWICE: "were delivered twice", LATE: "are late", EXCUSED: "are excused"}
"""Maps a category to the predicate of a sentence about its deliveries."""
MAX_ASKED = 300
"""The maximum number of deliveries of a category whose causes are computed: the first deliveries by run and round."""
_SQL = {
    MISSING: """
      select m.run_id, m.subscriber, m.source, m.source_seq, m.publication_round as round
      from missing_delivery m
      left anti join state_call_log l on l.run_id = m.run_id and l.source = m.source and l.source_seq = m.source_seq""",
    TWICE: "select run_id, subscriber, source, source_seq, first_round as round from duplicate_delivery",
    EXCUSED: """
      select w.run_id, w.subscriber, w.source, w.source_seq, w.publication_round as round
      from wanted_delivery w
      left join missing_delivery m on m.run_id = w.run_id and m.subscriber = w.subscriber and m.source = w.source
        and m.source_seq = w.source_seq
      left anti join state_call_log l on l.run_id = w.run_id and l.source = w.source and l.source_seq = w.source_seq
      where w.delivery_round is null and m.run_id is null""",
}
"""Maps a category to the query that returns its deliveries.

A delivery is excused if view ``wanted_delivery`` requests it, it did not happen, and view ``missing_delivery`` omits
it. While a
publication is in the call log of an unfinished run, its deliveries are neither missing nor excused.
"""
_FIRST = """
select run_id, subscriber, source, source_seq, n from (
  select *, count(1) over ({partition}) as n,
    row_number() over ({partition} order by run_id, round, subscriber, source, source_seq) as position
  from ({rows}) a {where}
) b where position <= {most} order by run_id, position
"""
_FIRST_DELIVERIES = """
select d.run_id, d.subscriber, d.source, d.source_seq, d.delivery_round, p.issued_round
from (select * from first_delivery {where}) d
join publication p on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
order by d.run_id, d.delivery_round, d.subscriber, d.source, d.source_seq
"""


def gone_wrong(
    reader: StoreReader, what: str, run_ids: Sequence[int] | None = None, most: int = MAX_ASKED, *,
    is_by_run: bool = False,
) -> list[tuple[Question, int]]:  # fmt: skip
    """Returns the first ``most`` deliveries of a category, ordered by run, round, subscriber, source and call number.

    ``what`` is a key of `PREDICATES`; ``run_ids`` None means all runs. Each delivery is paired with the number of all
    deliveries of the category. If ``is_by_run``, both numbers apply to each run.
    """
    where = "" if run_ids is None else f"where run_id in ({', '.join(map(str, run_ids))})"
    if what == LATE:
        groups: dict[int, list[Question]] = defaultdict(list)
        for one in _late(reader, where):
            groups[one.run_id if is_by_run else 0].append(one)
        return [(one, len(group)) for group in groups.values() for one in group[:most]]
    partition = "partition by run_id" if is_by_run else ""
    text = _FIRST.format(partition=partition, rows=_SQL[what], where=where, most=most)
    return [(Question(*row[:4]), row.n) for row in reader.sql(text).collect()]


def _late(reader: StoreReader, where: str) -> Iterator[Question]:
    """Yields each delivery that took longer than the fastest path; runs without links have no late deliveries."""
    columns = reader.sql(_FIRST_DELIVERIES.format(where=where)).toArrow().to_pydict()
    overlays = read_overlays(reader, set(columns["run_id"])) if columns["run_id"] else {}
    fastest: dict[tuple[int, int, int], dict[int, int]] = {}
    for run_id, subscriber, source, seq, round_, issued in zip(*columns.values(), strict=True):
        facts = overlays[run_id]
        if not facts.links:
            continue
        key = (run_id, source, issued if facts.changes else 0)
        if key not in fastest:
            fastest[key] = _latencies(facts, source, issued)
        if round_ - issued > fastest[key].get(subscriber, 0):
            yield Question(run_id, subscriber, source, seq)


def _latencies(facts: RunFacts, source: int, round_: int) -> dict[int, int]:
    """Returns the latency of the fastest path from ``source`` to each node that it reaches in ``round_``."""
    found = nx.single_source_dijkstra_path_length(facts.at(round_).overlay, source, weight="latency")
    return {node: int(latency) for node, latency in found.items()}


CauseKey = tuple[str | int | None, ...]


@dataclass(frozen=True)
class Group:
    """Deliveries of one category with a common cause.

    Attributes:
        what: ``missing``, ``twice``, ``late`` or ``excused``: the delivery did not happen, and the protocol does not
            promise it, for example because the subscriber crashed or the subscription was not yet confirmed.
        cause: The cause of the first delivery, as a phrase.
        stories: The stories of the deliveries. Deliveries whose cause was not computed have no story.
    """

    what: str
    cause: str
    stories: Sequence[Story]

    @property
    def first(self) -> Story:
        """The story of the first delivery."""
        return self.stories[0]

    @property
    def number(self) -> int:
        """The number of deliveries in this group."""
        return len(self.stories)

    @property
    def options(self) -> str:
        """The options of ``roundtable why`` for the first delivery."""
        return why_options(self.first.run_id, self.first.subscriber, self.first.source, self.first.call)


@dataclass(frozen=True)
class Overview:
    """The missing, repeated, late and excused deliveries of a store, grouped by category and cause.

    ``left_out`` maps a category to the number of its deliveries whose cause was not computed; it omits zeros.
    """

    groups: Sequence[Group]
    left_out: dict[str, int]


def overview(reader: StoreReader, run_id: int | None = None) -> Overview:
    """Groups the missing, repeated, late and excused deliveries of a run by cause; ``run_id`` None means all runs.

    A delivery is late if it took longer than the fastest path over the links.

    Raises:
        QueryError: The run does not exist.
    """
    if run_id is not None:
        check_run(reader, run_id)
    groups: list[Group] = []
    left_out: dict[str, int] = {}
    for what in PREDICATES:
        asked = gone_wrong(reader, what, None if run_id is None else [run_id])
        if asked and (more := asked[0][1] - len(asked)):
            left_out[what] = more
        groups += grouped(what, stories(reader, [question for question, _ in asked]))
    return Overview(groups, left_out)


def why_options(run_id: int, subscriber: str, source: str, call: int) -> str:
    """Returns the options of ``roundtable why`` for a publication and a subscriber, quoted for a shell."""
    named = (("run", str(run_id)), ("subscriber", subscriber), ("source", source), ("call", str(call)))
    return " ".join(f"--{name} {shlex.quote(value)}" for name, value in named)


def why_command(store: Root, options: str) -> str:
    """Returns the command ``roundtable why`` for a store, quoted for a shell."""
    return f"roundtable why {shlex.quote(str(store))} {options}"


def grouped(what: str, told: Sequence[Story]) -> list[Group]:
    """Groups stories of category ``what`` by cause, the largest group first."""
    found: dict[CauseKey, list[Story]] = {}
    for story in told:
        found.setdefault(cause_key(what, story), []).append(story)
    groups = []
    for first, *others in found.values():
        words = first.verdict if first.cause is None else first.cause.text
        groups.append(Group(what, "delivered again" if what == TWICE else words, [first, *others]))
    return sorted(groups, key=lambda group: -group.number)


def cause_key(what: str, story: Story) -> CauseKey:
    """Returns a key by which stories of category ``what`` are grouped: stories with one cause have equal keys."""
    cause = None if what == TWICE else story.cause
    if cause is None:
        return ()
    if (fault := cause.fault) is not None:
        event: CauseKey = (fault.kind, fault.round, fault.src, fault.dst)
    else:
        event = (cause.text,) if cause.kind in (WAITING, IN_FLIGHT, UNEXPLAINED) else (cause.node, cause.round)
    return (story.run_id, cause.kind, *event)
