"""Flooding: every publication goes over every link, on overlays with cycles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pipelines.contract.audit import Audit, Reader, arrow_rows, sql_files
from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Strict
from pipelines.errors import Problem
from udfs.batches import BEYOND
from udfs.flooding import Flooding
from udfs.reach import flooding_beyond

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SQL = sql_files("pipelines.protocols.flooding.audits")
AUDITS = (
    Audit("reached_everybody", "a publication comes to every node that does not crash", _SQL["reached_everybody"]),
    Audit(
        "floods_all_links", "a node passes a publication on once, over all links but the one it came over",
        _SQL["floods_all_links"], is_unconditional=True,
    ),
    Audit(
        "bounded_hops", "no copy travels over more than `max_hops` links", _SQL["bounded_hops"], is_unconditional=True,
    ),
)  # fmt: skip


GIVEN = """
with nodes as (
  select run_id, array_sort(collect_list(node_id)) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links from link group by run_id
), pairs as (
  select p.run_id, array_sort(collect_set(struct(p.source as src, s.subscriber as dst))) as pairs
  from publication p
  join subscription s on s.run_id = p.run_id
  group by p.run_id
), crashes as (
  select run_id,
    array_sort(collect_list(struct(crash_round as round, node_id, recovery_round is null as is_final))) as crashes
  from node_recovery
  group by run_id
), twice as (
  select distinct run_id from fault_event where kind = 'duplicate'
)
select r.run_id, n.nodes, l.links, p.pairs, c.crashes, t.run_id is not null as has_duplicates,
  cast(get_json_object(r.parameters, "$['protocol.max_hops']") as bigint) as max_hops
from run r
join nodes n on n.run_id = r.run_id
left join links l on l.run_id = r.run_id
left join pairs p on p.run_id = r.run_id
left join crashes c on c.run_id = r.run_id
left join twice t on t.run_id = r.run_id
"""


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs in which less is promised than that everybody gets everything once.

    Args:
        reader: The store.

    Returns:
        ``run_id, round, reason``; one row a run.
    """
    return arrow_rows(reader.sql(GIVEN), flooding_beyond, BEYOND)


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with: it is played with all faults and any overlay.

    Args:
        settings: A `FloodingSettings`.
        overlay: The nodes and their links.
        workload: Its calls.
        faults: Its faults.
    """
    for index in range(len(workload.join)):
        message = "nodes of protocol flooding are linked from the start; leave joins out"
        yield Problem(("workload", "joins", index), message)


class FloodingSettings(Strict):
    """Settings of protocol ``flooding``."""

    name: Literal["flooding"] = "flooding"
    max_hops: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None,
        description="null: nodes remember publications and drop later copies; a number: nodes remember nothing, and a"
        " copy ends after that many links",
    )


PROTOCOL = Protocol(
    name="flooding",
    summary="every publication goes over every link, duplicates are dropped, the overlay may have cycles",
    settings=FloodingSettings,
    program=Flooding,
    audits=AUDITS,
    bound=beyond,
    assumes=frozenset({"no_loss"}),
    draws=False,
    application=("PUB",),
    check=problems,
)
