"""Flooding: every publication goes over every link, on overlays with cycles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pipelines.contract.audit import Audit, Evidence, Reader, arrow_rows
from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Strict
from pipelines.errors import Problem
from udfs.batches import BEYOND
from udfs.flooding import Flooding
from udfs.reach import flooding_beyond

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_HOPS = "cast(get_json_object(r.parameters, \"$['protocol.max_hops']\") as bigint)"

NOT_REACHED = f"""
select p.run_id, p.issued_round as round, n.node_id, p.source, p.source_seq, 'never came to this node' as detail
from publication p
join run r on r.run_id = p.run_id and {_MAX_HOPS} is null
join node n on n.run_id = p.run_id
left join (select distinct run_id, node_id from fault_event where kind = 'crash') c
  on c.run_id = p.run_id and c.node_id = n.node_id
left join state_seen s on s.run_id = p.run_id and s.node_id = n.node_id
  and s.source = p.source and s.source_seq = p.source_seq
where s.source is null and c.run_id is null
"""  # noqa: S608 - built of constants

WRONG_LINKS = """
with degree as (
  select run_id, src as node_id, count(1) as n_links from link group by run_id, src
), sent as (
  select run_id, src as node_id, source, source_seq, count(distinct dst) as n_sent
  from sent_message
  where kind = 'PUB'
  group by run_id, src, source, source_seq
)
select s.run_id, s.round, s.node_id, s.source, s.source_seq,
  concat('sent over ', coalesce(t.n_sent, 0), ' of ', d.n_links, ' links; the copy came over ',
    case when s.node_id = s.source then 0 else 1 end) as detail
from state_seen s
join degree d on d.run_id = s.run_id and d.node_id = s.node_id
left join sent t on t.run_id = s.run_id and t.node_id = s.node_id
  and t.source = s.source and t.source_seq = s.source_seq
where coalesce(t.n_sent, 0) <> d.n_links - case when s.node_id = s.source then 0 else 1 end
"""

TOO_FAR = f"""
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('goes over link ', get_json_object(m.body, '$.hops'), ' of its way, max_hops is ', {_MAX_HOPS}) as detail
from sent_message m
join run r on r.run_id = m.run_id
where m.kind = 'PUB' and cast(get_json_object(m.body, '$.hops') as bigint) > {_MAX_HOPS}
"""  # noqa: S608 - built of constants


def reached_everybody(evidence: Evidence) -> DataFrame:
    """In a run that has settled each publication has come to every node that did not crash."""
    return evidence.sql(NOT_REACHED).join(evidence.busy_runs(), "run_id", "left_anti")


AUDITS = (
    Audit("reached_everybody", "a publication comes to every node that does not crash", reached_everybody),
    Audit(
        "floods_all_links", "a node passes a publication on once, over all links but the one it came over",
        WRONG_LINKS, is_unconditional=True,
    ),
    Audit("bounded_hops", "no copy travels over more than `max_hops` links", TOO_FAR, is_unconditional=True),
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
