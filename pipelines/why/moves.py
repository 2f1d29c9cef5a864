"""Lists the publications that an application misses because it moves to another node (``workload.moves``).

No protocol transfers subscriptions between nodes. A moving application misses a publication that reaches its old node
after the application left. It also misses a publication that is issued before the subscription at the new node is
confirmed, unless the publication reaches the new node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, NamedTuple

from pipelines.errors import plural
from pipelines.sql.query import StoreReader

_SHOWN = 5
_LOST = """
with move as (select * from values {moves} as t(old_name, new_name, left_round, back_round)), moved as (
  select s.run_id, m.old_name, m.new_name, m.left_round, m.back_round, s.subscription_id, o.node_id as old_node,
    n.node_id as new_node, t.confirmed_round, coalesce(t.confirmed_round, t.unsubscribed_round) as known_round
  from move m
  join node o on o.name = m.old_name
  join node n on n.run_id = o.run_id and n.name = m.new_name
  join subscription s on s.run_id = o.run_id and s.subscriber = o.node_id and s.unsubscribed_round = m.left_round
  left join subscription t on t.run_id = o.run_id and t.subscriber = n.node_id and t.issued_round = m.back_round
    and t.predicate = s.predicate
)
select m.run_id, m.old_name, m.new_name, m.left_round, m.back_round, max(m.confirmed_round) as confirmed_round,
  pn.name as source, p.source_seq, p.issued_round, max(old.delivery_round) as old_round
from moved m
join matching g on g.run_id = m.run_id and g.subscription_id = m.subscription_id
join publication p on p.run_id = g.run_id and p.source = g.source and p.source_seq = g.source_seq
join node pn on pn.run_id = p.run_id and pn.node_id = p.source
left join first_delivery old on old.run_id = p.run_id and old.subscriber = m.old_node and old.source = p.source
  and old.source_seq = p.source_seq
left join first_delivery new on new.run_id = p.run_id and new.subscriber = m.new_node and new.source = p.source
  and new.source_seq = p.source_seq
where new.run_id is null and (old.run_id is null or old.delivery_round > m.left_round)
  and (p.issued_round >= m.left_round or old.run_id is not null)
  and (m.known_round is null or p.issued_round <= m.known_round)
group by m.run_id, m.old_name, m.new_name, m.left_round, m.back_round, pn.name, p.source_seq, p.issued_round
order by m.run_id, m.left_round, m.old_name, p.issued_round, pn.name, p.source_seq
"""


class ApplicationMove(NamedTuple):
    """The move of an application from node ``old`` to node ``new``, as listed in the scenario.

    The application unsubscribes at ``old`` in ``left_round`` and subscribes at ``new`` in ``back_round``.
    """

    old: str
    new: str
    left_round: int
    back_round: int


@dataclass(frozen=True)
class LostByMove:
    """A publication that a moving application missed.

    ``old_round`` is the round in which the old node delivered it after the application had left, or None.
    """

    source: str
    source_seq: int
    issued_round: int
    old_round: int | None


@dataclass(frozen=True)
class MoveLoss:
    """The publications that an application missed because of one move, ordered by round.

    ``confirmed_round`` is the last round in which a subscription at the new node was confirmed; None if none was
    confirmed.
    """

    run_id: int
    move: ApplicationMove
    confirmed_round: int | None
    lost: Sequence[LostByMove]

    def as_dict(self) -> dict[str, Any]:
        """Returns the losses as a JSON-serialisable dict."""
        head = {"what": "moved", "number": len(self.lost), "run": self.run_id, **self.move._asdict()}
        return {**head, "confirmed_round": self.confirmed_round, "lost": [asdict(one) for one in self.lost]}

    def lines(self) -> Iterator[str]:
        """Yields the lines that ``roundtable why`` prints: a summary, and a line for each of the first losses."""
        move = self.move
        known = "never confirmed" if self.confirmed_round is None else f"confirmed in round {self.confirmed_round}"
        yield (
            f"run {self.run_id}: the application at {move.old} unsubscribes in round {move.left_round}, subscribes at "
            f"{move.new} in round {move.back_round} ({known}), and misses {plural(len(self.lost), 'publication')}:"
        )
        for one in self.lost[:_SHOWN]:
            how = "" if one.old_round is None else f", delivered to {move.old} in round {one.old_round}"
            yield f"  call {one.source_seq} of {one.source}, published in round {one.issued_round}{how}"
        if len(self.lost) > _SHOWN:
            yield f"  and {len(self.lost) - _SHOWN:,} more"


def lost_by_moves(reader: StoreReader, moves: Sequence[ApplicationMove], run_id: int | None = None) -> list[MoveLoss]:
    """Returns a `MoveLoss` for each move because of which an application missed a publication.

    The result is ordered by run and round. ``run_id`` None means all runs.
    """
    if not moves:
        return []
    values = ", ".join(
        f"({_quoted(move.old)}, {_quoted(move.new)}, {move.left_round}, {move.back_round})" for move in moves
    )
    rows = reader.sql(_LOST.format(moves=values)).collect()
    found = []
    for (run, move), lost in groupby(rows, lambda row: (row.run_id, ApplicationMove(*row[1:5]))):
        if run_id is None or run == run_id:
            members = [*lost]
            confirmed = max((row.confirmed_round for row in members if row.confirmed_round is not None), default=None)
            told = [LostByMove(row.source, row.source_seq, row.issued_round, row.old_round) for row in members]
            found.append(MoveLoss(run, move, confirmed, told))
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
