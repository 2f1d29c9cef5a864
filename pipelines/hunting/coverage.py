"""Queries a store for the features of its runs, and for the messages that faults can target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from pipelines.hunting.schedules import Target
from pipelines.sql.query import StoreReader
from udfs.nodes.link_faults import COPY_ID

NO_STATUS = "UP"
"""The status of a node if its protocol reports no status."""

FATES = ("delivered", "duplicate", "lost_link", "lost_crash", "in_flight")
"""The values of column ``fate`` of table ``message``."""

_STATUS = """
status as (
  select run_id, node_id, round as first_round,
    coalesce(lead(round) over (partition by run_id, node_id order by round), 9223372036854775807) as next_round, status
  from (select run_id, node_id, round, max(status) as status from node_status group by run_id, node_id, round) one
)"""
_FEATURES = f"""
with {_STATUS}, struck as (
  select run_id, min(round) as first_round, max(round) as last_round from fault_event group by run_id
), received as (
  select distinct m.run_id, concat_ws(' ', m.kind, coalesce(s.status, '{NO_STATUS}'), m.fate) as feature,
    case when m.due_round < f.first_round or f.run_id is null then 'before faults'
      when m.due_round <= f.last_round then 'during faults' else 'after faults' end as phase
  from message m
  left join struck f on f.run_id = m.run_id
  left join status s on s.run_id = m.run_id and s.node_id = m.dst
    and m.due_round >= s.first_round and m.due_round < s.next_round
), handled as (
  select distinct run_id, dst, due_round, kind from message where fate = 'delivered'
)
select run_id, feature from received
union
select run_id, concat_ws(' ', feature, phase) from received
union
select a.run_id, concat_ws(' ', a.kind, 'with', b.kind)
from handled a
join handled b on b.run_id = a.run_id and b.dst = a.dst and b.due_round = a.due_round and b.kind > a.kind
union
select run_id, concat_ws(' ', 'status', coalesce(before, 'none'), 'to', status)
from (
  select run_id, status, lag(status) over (partition by run_id, node_id order by round, status) as before
  from node_status
) changed
union
select run_id, concat('fault ', kind) from fault_event
"""  # noqa: S608 - built of constants

_TARGETS = """
with {status}, sent as (
  select m.run_id, m.message_id, m.kind, coalesce(s.status, '{none}') as status, a.name as src, b.name as dst,
    m.sent_round, m.due_round
  from message m
  join node a on a.run_id = m.run_id and a.node_id = m.src
  join node b on b.run_id = m.run_id and b.node_id = m.dst
  left join status s on s.run_id = m.run_id and s.node_id = m.dst
    and m.due_round >= s.first_round and m.due_round < s.next_round
  where m.src <> m.dst and m.run_id in ({runs}) and m.message_id div {copy} % 2 = 0
), numbered as (
  select *, row_number() over (partition by run_id, kind, src, dst, sent_round order by message_id) as nth,
    row_number() over (partition by run_id, kind, status order by due_round, message_id) as number,
    count(1) over (partition by run_id, kind, status) as n
  from sent
)
select run_id, kind, status, src, dst, sent_round, due_round, nth,
  case when number = 1 then 'first' when number = n then 'last' else 'middle' end as position
from numbered
where number = 1 or number = n or number = (n + 1) div 2
order by run_id, position, kind, status
"""


def features(reader: StoreReader) -> dict[int, frozenset[str]]:
    """Returns the features of each run of a store.

    A feature is one of these:

    - a message kind, the status of the receiver, and the fate of the message (`FATES`);
    - a message kind, the status of the receiver, the fate, and the phase: before, during or after the run's faults;
    - two message kinds that one node handles in one round;
    - a change of a node's status;
    - a kind of fault.
    """
    found: dict[int, set[str]] = defaultdict(set)
    for row in reader.sql(_FEATURES).toArrow().to_pylist():
        found[row["run_id"]].add(row["feature"])
    return {run_id: frozenset(of_run) for run_id, of_run in found.items()}


def targets(reader: StoreReader, runs: Collection[int]) -> dict[int, list[Target]]:
    """Returns the targets of each run: the first, middle and last message of each message kind and receiver status."""
    if not runs:
        return {}
    text = _TARGETS.format(copy=COPY_ID, status=_STATUS, none=NO_STATUS, runs=", ".join(map(str, sorted(runs))))
    found: dict[int, list[Target]] = {run_id: [] for run_id in runs}
    for row in reader.sql(text).toArrow().to_pylist():
        found[row.pop("run_id")].append(Target(**row))
    return found


def reached(
    found: Collection[str], kinds: Sequence[str]
) -> tuple[list[str], Mapping[str, Mapping[str, frozenset[str]]]]:  # fmt: skip
    """Returns the receiver statuses in the features ``found``, and the fates of messages by kind and status.

    The fates are a map from each message kind in ``kinds`` to a map from receiver status to fates.
    """
    table: dict[str, dict[str, frozenset[str]]] = {kind: {} for kind in kinds}
    for feature in found:
        kind, *status, fate = feature.split(" ")
        if kind in table and fate in FATES:
            name = " ".join(status)
            table[kind][name] = table[kind].get(name, frozenset()) | {fate}
    return sorted({status for row in table.values() for status in row}), table
