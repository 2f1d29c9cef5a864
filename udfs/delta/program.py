"""Protocol ``delta`` as a node program: a node in one round of δ-fault-tolerant publish/subscribe (sections 4 to 6).

A node handles a round in five phases, each for all due messages (rule R34):

1. faults: the node recovers, handles failure reports, opens connections, and exchanges routing information;
2. confirm: CONF removes next hops from Out; a message is finished when Out is empty (Alg. 1, lines 19 to 31);
3. join: the node handles JOIN_REQUEST, PAR_TOP and PAR_SUB, and marks the links of received J, before it computes
   recipients (rule R6);
4. forward: the node computes Γ and Out of received and issued first copies (Alg. 1, lines 1 to 18). It changes routing
   information (Algorithm 1, line 26). The recipients of a PUB depend on the changes with earlier triggers;
5. finish: the node sends CONF to the senders of finished messages (Algorithm 1, lines 27 to 29). Then it sends the
   messages of all phases, in the order of rule R36.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from udfs.delta import bypass
from udfs.delta.forwarding import answer_senders, confirm, forward
from udfs.delta.joining import handle_joins
from udfs.delta.messages import MESSAGES
from udfs.delta.recovery import handle_faults
from udfs.delta.state import JoinState, NodeTables, Path, Processed, ViewLink
from udfs.delta.turn import Turn, leave
from udfs.delta.view import paths_from
from udfs.nodes.calls import JoinCall
from udfs.nodes.context import Context
from udfs.nodes.records import Keyed, record
from udfs.nodes.world import RoundDue, World
from udfs.reach import neighbours


class Delta(NodeTables):
    """A node of protocol ``delta``: handles its due events round by round."""

    messages = MESSAGES
    down_status = "FAILED"
    holds_calls = True
    read_by_others: ClassVar = ("topology",)

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the views and paths of the nodes of the initial overlay.

        Nodes that join later get status DETACHED and no view.
        """
        joins = {node: call for node, calls in world.calls.items() for call in calls if isinstance(call, JoinCall)}
        ends = neighbours(link for link in world.links if joins.keys().isdisjoint(link))
        radius = int(world.settings["delta"]) + 1
        for number in world.nodes:
            node: NodeTables = world.program(number)
            join = joins.get(number)
            if join is not None:
                join_point = -1 if join.join_point is None else join.join_point
                node.join[join_point] = JoinState(join_point, join.source_seq, is_asked=False, status="DETACHED")
                world.context(number).status("DETACHED")
                continue
            world.context(number).status("VALID_JOINED")
            _set_initial_view(node, number, ends, radius)

    def is_connected(self, peer: int) -> bool:
        """Returns whether this node has a connection to `peer`. The failure detector watches connected peers."""
        if peer in self.peer:
            return self.peer[peer].status != "FAILED"
        path, join = self.path.get(peer), self.own_join
        is_waiting = join is not None and join.status == "DETACHED" and join.is_asked and join.join_point == peer
        return is_waiting or (path is not None and path.distance == 1)

    def on_round(self, due: RoundDue, ctx: Context) -> None:
        """Handles all due events of a round in five phases: faults, confirm, join, forward, finish."""
        turn = Turn(self, ctx, due, int(ctx.settings["delta"]))
        bypass.fill_inbox(turn)
        if turn.is_disturbed:
            handle_faults(turn)
        if "CONF" in turn.inbox:
            confirm(turn)
        handle_joins(turn)
        forward(turn)
        if turn.finished:
            answer_senders(turn)
        if turn.broken:
            bypass.report(turn)
        leave(turn)


def _set_initial_view(node: NodeTables, number: int, ends: Mapping[int, Collection[int]], radius: int) -> None:
    """Sets the view and the paths of node `number` of the initial overlay. `ends` has the neighbours of each node."""
    near = paths_from(number, ends, radius)
    links = sorted({(one, other) for one in near for other in ends.get(one, ()) if one < other and other in near})
    node.topology = Keyed((link, ViewLink(*link, is_marked=False)) for link in links)
    node.path = Keyed(
        (target, Path(target, len(way) - 1, way, way[1] if len(way) > 1 else target))
        for target, way in sorted(near.items())
    )


@record(key="source,source_seq,recipient")
class ProcessingRow(Processed):
    """A recipient of a message in a node's ProcessingList, with the responsible node."""

    recipient: Annotated[int, "a member of Γ_N^m other than N"]
    path: Annotated[tuple[int, ...] | None, "P(N, recipient), if N accepted the message as Guided"]
    responsible: Annotated[int | None, "next hop on the path to the recipient; null: no node on the path is up"]
    is_confirmed: Annotated[bool, "whether the responsible node has confirmed"]
    is_reopened: Annotated[bool, "whether the recipient must confirm again, because it lost the message in a crash"]


def processing_rows(message: pa.Table) -> pa.Table:
    """Returns a row (`ProcessingRow`) for each recipient of the messages in ProcessingLists.

    `message` has rows of `udfs.delta.state.Processing`. Both tables have ``run_id`` and ``node_id``.
    """
    lists = message["recipients"].combine_chunks()
    row, entry = message.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    value = pc.struct_field(entry, "value")
    of_recipient = {field.name: pc.struct_field(value, field.name) for field in value.type}
    of_message = {name: row[name] for name in row.column_names if name != "recipients"}
    return pa.table({**of_message, "recipient": pc.struct_field(entry, "key"), **of_recipient})
