"""The guarantees of protocol ``epidemic`` alone, beside the general ones; they hold under every loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, REPEATED, UNWANTED, Audit, Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SETTING = "cast(get_json_object(r.parameters, \"$['protocol.{name}']\") as {kind})"
_BUFFER = _SETTING.format(name="buffer", kind="bigint")

OVERFULL = f"""
select c.run_id, cast(null as bigint) as round, c.node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq,
  concat('the cache holds ', c.n_events, ' events, buffer is ', {_BUFFER}) as detail
from (select run_id, node_id, count(1) as n_events from state_cache group by run_id, node_id) c
join run r on r.run_id = c.run_id
where c.n_events > {_BUFFER}
"""  # noqa: S608 - built of constants
"""No cache holds more events than setting ``buffer``."""

DISCARDED = f"""
with own as (
  select run_id, subscriber as node_id, source, source_seq from delivery
  union
  select run_id, node_id, node_id as source, source_seq from state_tag
), mixed as (
  select distinct c.run_id, c.node_id
  from state_cache c
  join run r on r.run_id = c.run_id
  where not c.is_own and {_SETTING.format(name="eviction", kind="string")} = 'foreign_first'
), crashed as (
  select distinct run_id, node_id from fault_event where kind = 'crash'
)
select o.run_id, cast(null as bigint) as round, o.node_id, o.source, o.source_seq,
  'discarded, although the cache holds an event that the dispatcher neither published nor subscribed to' as detail
from own o
join mixed m on m.run_id = o.run_id and m.node_id = o.node_id
left join crashed x on x.run_id = o.run_id and x.node_id = o.node_id
left join state_cache c on c.run_id = o.run_id and c.node_id = o.node_id
  and c.source = o.source and c.source_seq = o.source_seq
where c.run_id is null and x.run_id is null
"""  # noqa: S608 - built of constants
"""With eviction ``foreign_first`` no own event is discarded while there is a foreign one (section 5).

An event is a dispatcher's own when it published or delivered it; a crash empties caches.
"""


def delivered_once(evidence: Evidence) -> DataFrame:
    """No subscriber gets an event twice, or one that it has no matching subscription for."""
    return evidence.sql(REPEATED).unionByName(evidence.sql(UNWANTED)).select(*FOUND)


AUDITS: tuple[Audit, ...] = (
    Audit(
        "delivered_once", "a subscriber gets each event at most once, and only matching ones, whatever is lost",
        delivered_once, is_unconditional=True,
    ),
    Audit("bounded_cache", "no cache holds more than `buffer` events", OVERFULL, is_unconditional=True),
    Audit(
        "own_events_last", "caches that discard foreign events first keep their own as long as there are others",
        DISCARDED, is_unconditional=True,
    ),
)  # fmt: skip
