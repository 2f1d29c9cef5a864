"""Protocol ``delta``: one round of δ-fault-tolerant publish/subscribe (report, sections 4 to 6).

A round at every node, in this order (with the result of handling messages one by one):

1. faults: nodes recover, failure detectors report, connections open, routing information is transferred;
2. confirm: CONF messages shrink Out; messages that all recipients confirmed are finished (Alg. 1, 19 to 31);
3. join: JOIN_REQUEST, PAR_TOP, PAR_SUB and the marks of J, before any recipient set is computed (rule R6);
4. forward: first copies of J, SUB, UNSUB, PUB and REJOIN, issued calls among them; Γ and Out (Alg. 1, 1 to 18);
5. finish: routing information changes (line 26), CONF to the senders (27 to 29);
6. a PUB is routed by the entries that exist at its turn.

The plan omits steps whose kinds of messages are absent, and phase 1 before the first crash.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pipelines.contract.round import DataflowForm, Round, RoundResult, Start
from pipelines.protocols.delta import DeltaSettings
from pipelines.protocols.delta.messages import BODY, KINDS, PAYLOAD
from pipelines.protocols.delta.phases import faults, forward, joins
from pipelines.protocols.delta.tables import PATH, STATES
from pipelines.protocols.delta.work import Work


class DeltaProtocol(DataflowForm):
    """The protocol as the engine sees it."""

    kinds = KINDS
    payload = PAYLOAD
    body = BODY
    states = STATES

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Returns routing information as it is when the overlay stands, and the nodes that are still to join."""
        return starting_state(start, _radius(start.settings))

    def round(self, round_: Round) -> RoundResult:
        """Makes one round: the phases of the module's summary."""
        work = Work(round_, round_.due.inbox, _radius(round_.settings))
        for phase in PHASES:
            if phase.when(work):
                phase.run(work)
        return work.result


def _radius(settings: Sequence[DeltaSettings]) -> int:
    """Returns how far the views of all runs reach: δ+1 with the largest δ."""
    return 1 + max(setting.delta for setting in settings)


def starting_state(start: Start, radius: int) -> dict[str, DataFrame]:
    """Returns the relations before round 0: full views and no subscriptions at joined nodes, nothing at the others."""
    call = start.calls
    joins = call.where("kind = 'join'").selectExpr(
        "run_id", "node_id", "join_point", "source_seq", "false as is_asked", "'DETACHED' as status"
    )
    setting = start.run.setting.select("run_id", "delta")
    path = start.paths(radius).join(setting, "run_id").where("distance <= delta + 1").select(PATH.columns)
    near = path.select("run_id", "node_id", "target")
    link = start.run.link.where("src < dst").selectExpr("run_id", "src as a", "dst as b")
    topology = (
        link.join(near.withColumnRenamed("target", "a"), ["run_id", "a"])
        .join(near.withColumnRenamed("target", "b"), ["run_id", "node_id", "b"])
        .selectExpr("run_id", "node_id", "a", "b", "false as is_marked")
    )
    status = start.run.node.join(joins.select("run_id", "node_id"), ["run_id", "node_id"], "left_anti")
    return {
        "topology": topology,
        "path": path,
        "join": joins,
        "node_status": status.selectExpr(
            "run_id", "node_id", "cast(0 as bigint) as round", "'VALID_JOINED' as status"
        ).unionByName(joins.selectExpr("run_id", "node_id", "cast(0 as bigint) as round", "status")),
    }


PHASES = (faults.PHASE, forward.CONFIRM, joins.PHASE, forward.FORWARD, forward.FINISH)
"""A round, in this order."""
STEPS = DeltaProtocol()
