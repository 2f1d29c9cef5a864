"""Applications that move to another node: no protocol hands a subscriber over, so a move ends and begins subscriptions.

A move unsubscribes at its node from what stands there, and subscribes to the same at the other node when it arrives
(protocol ``delta``, rule R37). What is published between, and until the new subscriptions are confirmed, is lost to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipelines.contract.run_inputs import SUBSCRIPTION, Overlay
from pipelines.errors import Problem, WorkloadError, plural
from pipelines.inputs.overlay.nodes import Place, ids_by_name, unknown_node
from pipelines.inputs.workload.lists import after_horizon
from pipelines.scenario.workload import Move

_PLACE: Place = ("workload", "moves")
_SHOWN = 3


def moved_subscriptions(subscription: pa.Table, moves: Sequence[Move], overlay: Overlay, horizon: int) -> pa.Table:
    """Returns the subscriptions of a run, those that moves end and begin among them.

    Args:
        subscription: As the workload has them without moves.
        moves: Those of the scenario; they happen in the order of their rounds.
        overlay: The run's overlay.
        horizon: The last round in which something can be asked for.

    Returns:
        Rows of ``subscription``, with the round of the first move as ``end_round`` where one ends them; behind them
        those that begin after a move. A subscription that would end while its application is away begins no more.

    Raises:
        WorkloadError: Unknown nodes, rounds after the horizon, and moves of nodes that ask for nothing then.
    """
    if not moves:
        return subscription
    ids = ids_by_name(overlay)
    problems = [
        problem for index, move in enumerate(moves) for problem in _problems(index, move, ids, overlay, horizon)
    ]
    if problems:
        raise WorkloadError(*problems)
    rows: list[dict[str, Any]] = subscription.to_pylist()
    for index, move in sorted(enumerate(moves), key=lambda one: one[1].round):
        back = move.round + move.away
        taken = [row for row in rows if row["node_id"] == ids[move.at] and _stands(row, move.round)]
        if not taken:
            message = (
                f"{move.at} has no subscription in round {move.round} that it could take along; allowed: a round in "
                "which one stands"
            )
            problems.append(Problem((*_PLACE, index, "round"), message))
        for row in taken:
            end, row["end_round"] = row["end_round"], move.round
            if end is None or end > back:
                rows.append(row | {"node_id": ids[move.to], "round": back, "end_round": end})
    if problems:
        raise WorkloadError(*problems)
    return pa.Table.from_pylist(rows, SUBSCRIPTION)


def _stands(row: dict[str, Any], at: int) -> bool:
    return row["round"] < at and (row["end_round"] is None or row["end_round"] > at)


def _problems(index: int, move: Move, ids: dict[str, int], overlay: Overlay, horizon: int) -> Iterator[Problem]:
    for key, name in (("at", move.at), ("to", move.to)):
        if name not in ids:
            yield Problem((*_PLACE, index, key), unknown_node(name, overlay))
    back = move.round + move.away
    if back > horizon:
        yield Problem((*_PLACE, index, "round" if move.round > horizon else "away"), after_horizon(back, horizon))


def move_notes(moves: Sequence[Move]) -> list[str]:
    """Returns the losses of moves, a sentence for each of the first, and the number of the others."""
    told = [
        f"{move.at} moves to {move.to}: what is published from round {move.round} until its subscriptions of round "
        f"{move.round + move.away} are confirmed at {move.to} is lost to it, as no protocol hands a subscriber over"
        for move in moves[:_SHOWN]
    ]
    return told + ([f"so do {plural(len(moves) - _SHOWN, 'other move')}"] if len(moves) > _SHOWN else [])
