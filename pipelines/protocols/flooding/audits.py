"""The guarantees of protocol ``flooding`` beside the general ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Audit, Evidence

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
