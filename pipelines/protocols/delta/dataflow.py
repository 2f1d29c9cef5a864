"""Protocol ``delta`` in dataflow form: one round of δ-fault-tolerant publish/subscribe (report, sections 4 to 6).

A round runs the five phases of `udfs.delta.program`, each for all nodes, and writes the rows that the node program
writes. The plan omits steps for message kinds that are not due. Before the first crash it also omits the first phase.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.contract.round import DataflowForm, Round, RoundResult, Start
from pipelines.contract.rows import NODE
from pipelines.protocols.delta import DeltaSettings
from pipelines.protocols.delta.phases import faults, forward, joins
from pipelines.protocols.delta.tables import BODY, PATH, PAYLOAD, STATES
from pipelines.protocols.delta.work import Work


class DeltaProtocol(DataflowForm):
    """The dataflow form of the protocol."""

    payload = PAYLOAD
    body = BODY
    states = STATES

    def start(self, start: Start) -> RoundResult:
        """Returns the relations before round 0: the views of the initial nodes, and the joins of all other nodes."""
        call = start.calls
        joins = call.where("kind = 'join'").selectExpr(
            "run_id", "node_id", "join_point", "source_seq", "false as is_asked", "'DETACHED' as status"
        )
        setting, path = start.run.setting.selectExpr("run_id", "delta"), start.paths(_radius(start.settings))
        path = start.keep("path", path.join(setting, "run_id").where("distance <= delta + 1").selectExpr(*PATH.columns))
        near = path.selectExpr("run_id", "node_id", "target")
        link = start.run.link.where("src < dst").selectExpr("run_id", "src as a", "dst as b")
        topology = (
            link.join(near.withColumnRenamed("target", "a"), ["run_id", "a"])
            .join(near.withColumnRenamed("target", "b"), ["run_id", "node_id", "b"])
            .selectExpr("run_id", "node_id", "a", "b", "false as is_marked")
        )
        joined = start.run.node.join(joins.selectExpr(*NODE), NODE, "left_anti")
        status = joined.selectExpr(*NODE, "'VALID_JOINED' as status").unionByName(joins.selectExpr(*NODE, "status"))
        return RoundResult(
            {"topology": topology, "path": path, "join": joins},
            node_status=status.selectExpr(*NODE, "cast(0 as bigint) as round", "status"),
        )

    def round(self, round_: Round) -> RoundResult:
        """Computes one round. Skips phases without input."""
        work = Work(round_, round_.inbox, _radius(round_.settings))
        if work.is_disturbed:
            faults.handle_faults(work)
        if work.has("CONF"):
            forward.confirm(work)
        joins.collect_copies(work)
        if work.copies:
            forward.forward_copies(work)
        forward.close(work)
        return work.result


def _radius(settings: Sequence[DeltaSettings]) -> int:
    """Returns the largest δ+1 of all runs."""
    return 1 + max(setting.delta for setting in settings)


STEPS = DeltaProtocol()
