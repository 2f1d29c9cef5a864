"""`Inputs`: the input tables of all runs of an experiment, as Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.forms import NTH
from pipelines.contract.run_inputs import Faults


@dataclass(frozen=True)
class Inputs(Faults):
    """The input tables of all runs. Each table has ``run_id`` and the columns below. `Faults` documents fault tables.

    Attributes:
        node: ``node_id, name, role``; one row per node.
        link: ``src, dst, latency_rounds``; two rows per link, one for each direction.
        call: ``node_id, source_seq, round, kind, subscription_id, join_point, topic, guarantee, keys, peer, role``; one
            row per call.
        subscription: ``subscription_id, subscriber, predicate``; one row per subscription.
        publication: ``source, source_seq, topic, content, guarantee, keys``; one row per publication.
        predicate: ``subscription_id, attribute, op, number, whole, text``; one row per comparison.
        attribute: ``source, source_seq, round, attribute, number, whole, text``; one row per attribute of a
            publication.
    """

    node: pa.Table
    link: pa.Table
    call: pa.Table
    subscription: pa.Table
    publication: pa.Table
    predicate: pa.Table
    attribute: pa.Table

    def of_runs(self, first: int, last: int) -> Inputs:
        """Returns the inputs of the runs with ids from ``first`` to ``last``, inclusive."""
        chosen = (pc.field("run_id") >= first) & (pc.field("run_id") <= last)
        return Inputs(**{name: getattr(self, name).filter(chosen) for name in self.__dataclass_fields__})

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return int(pc.count_distinct(self.node["run_id"]).as_py())

    @property
    def n_state_rows(self) -> int:
        """Upper estimate of the state rows of all runs, from the mean size of the runs."""
        numbers = (len(self.node), len(self.link) // 2, len(self.subscription), len(self.call))
        return self.n_runs * n_state_rows(*(-(-number // self.n_runs) for number in numbers))

    @property
    def control_calls(self) -> pa.Table:
        """All calls except subscriptions, unsubscriptions and publications; ``peer`` of a join is its join point."""
        other = pc.is_in(self.call["kind"], pa.array(["subscribe", "unsubscribe", "publish"]))
        rows = self.call.filter(pc.invert(other))
        peer = pc.coalesce(rows["peer"], rows["join_point"])
        rows = rows.set_column(rows.column_names.index("peer"), "peer", peer)
        return rows.select(["run_id", "node_id", "source_seq", "round", "kind", "topic", "peer", "role"])

    @property
    def faults(self) -> list[str]:
        """Names of the fault types that occur in the runs; joins count as a fault type."""
        n_joins = pc.sum(pc.equal(self.call["kind"], "join")).as_py() or 0
        counts = {
            "crashes": len(self.crash), "joins": n_joins, "link faults": len(self.link_fault) + len(self.side),
            NTH: len(self.nth_fault), "pauses": len(self.pause), "replaced links": len(self.replacement),
        }  # fmt: skip
        return [name for name, count in counts.items() if count]

    @property
    def most_nodes(self) -> int:
        """Number of nodes of the largest run."""
        n_nodes = self.node.group_by("run_id").aggregate([("node_id", "count")])
        return pc.max(n_nodes["node_id_count"]).as_py() or 0

    def scheduled_round(self, horizon: int) -> int:
        """Returns the last round with a call, a recovery, or the beginning of a fault; at most ``horizon``."""
        begins = pc.invert(pc.ends_with(self.fault_event["kind"], pattern="_end"))
        rounds = [
            self.call["round"], self.crash["round"], self.crash["end_round"], self.fault_event.filter(begins)["round"],
        ]  # fmt: skip
        return min(horizon, max((pc.max(column).as_py() or 0 for column in rounds), default=0))

    @property
    def latency(self) -> int | None:
        """The common latency of all links in ``link``, in rounds; None if latencies differ or no link exists."""
        found = pc.unique(self.link["latency_rounds"])
        return found[0].as_py() if len(found) == 1 else None


def n_state_rows(n_nodes: int, n_links: int, n_subscriptions: int, n_calls: int) -> int:
    """Returns an upper estimate of the state rows of a run. It assumes that each node stores each subscription.

    ``n_links`` is the number of undirected links. ``n_calls`` is the number of all calls, including subscriptions.
    """
    return n_nodes * (n_subscriptions + 1) + 2 * n_links + n_calls
