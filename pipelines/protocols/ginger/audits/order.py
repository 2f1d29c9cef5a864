"""Causal order, and total order with its barrier, by topic and key item (section 3.2).

Table ``delivered`` has the order of deliveries at each client; a publication comes after the deliveries of its round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ITEM = """
with first as (
  select run_id, node_id, topic, source, source_seq, min(position) as position
  from state_delivered
  group by run_id, node_id, topic, source, source_seq
), item as (
  select f.run_id, f.node_id, f.topic, f.source, f.source_seq, f.position, p.guarantee, explode(p.keys) as key_item
  from first f
  join publication p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq
)"""

TOTAL_ORDER = f"""{_ITEM}, ranked as (
  select *, count_if(guarantee = 'total') over (
    partition by run_id, node_id, topic, key_item order by position rows between unbounded preceding and 1 preceding
  ) as n_before
  from item
), compared as (
  select run_id, topic, key_item, source, source_seq, min(struct(n_before, node_id)) as least,
    max(struct(n_before, node_id)) as most
  from ranked
  group by run_id, topic, key_item, source, source_seq
)
select c.run_id, cast(null as bigint) as round, c.most.node_id as node_id, c.source, c.source_seq,
  concat('key item ', c.key_item, ' of topic ', c.topic, ': delivered after ', c.most.n_before,
    ' total-order messages, at ', n.name, ' after ', c.least.n_before) as detail
from compared c
join node n on n.run_id = c.run_id and n.node_id = c.least.node_id
where c.least.n_before < c.most.n_before
"""  # noqa: S608 - built of constants
"""A message on different sides of a total-order message at different clients.

All is in one order, with its barrier, if every message comes after equally many total-order messages everywhere: for
these that number is their position in the order.
"""

CAUSAL_ORDER = f"""{_ITEM}, published as (
  select run_id, source as node_id, topic, source, source_seq, (issued_round + 1) * 1048576 - 1 as position,
    explode(keys) as key_item
  from publication
), log as (
  select run_id, node_id, topic, key_item, source, source_seq, position, 0 as is_own from item
  union all
  select run_id, node_id, topic, key_item, source, source_seq, position, 1 as is_own from published
), followed as (
  select l.run_id, l.node_id as publisher, l.topic, l.key_item, l.source, l.source_seq, l.is_own,
    i.node_id, i.position,
    max(i.position) over (
      partition by l.run_id, l.node_id, l.topic, l.key_item, i.node_id order by l.position, l.is_own, l.source_seq
      rows between unbounded preceding and 1 preceding
    ) as last_before
  from log l
  join item i on i.run_id = l.run_id and i.topic = l.topic and i.key_item = l.key_item
    and i.source = l.source and i.source_seq = l.source_seq
)
select f.run_id, cast(null as bigint) as round, f.node_id, f.source, f.source_seq,
  concat('key item ', f.key_item, ' of topic ', f.topic, ': delivered before ', n.name, ' ', b.source_seq,
    ', which its publisher knew') as detail
from followed f
join item b on b.run_id = f.run_id and b.node_id = f.node_id and b.topic = f.topic and b.key_item = f.key_item
  and b.position = f.last_before
join node n on n.run_id = b.run_id and n.node_id = b.source
where f.is_own = 1 and f.last_before > f.position
"""  # noqa: S608 - built of constants
"""A message delivered before one that its publisher had published or delivered before it, on a shared key item."""


def total_order(evidence: Evidence) -> DataFrame:
    """Total-order messages on a key item come in one order, and whatever shares it is on one side of each of them."""
    return evidence.sql(TOTAL_ORDER).select(*FOUND)


def causal_order(evidence: Evidence) -> DataFrame:
    """What a publisher knew of a key item when it published comes before what it published, everywhere."""
    return evidence.sql(CAUSAL_ORDER).select(*FOUND)
