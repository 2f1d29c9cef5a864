"""Publications converge: in the end every subscriber has all of them (section 4.2, rule K19)."""

from __future__ import annotations

from pipelines.protocols.skipring.publications import LACKING, NOWHERE

MISSING = f"""
with lacking as (
  {LACKING}
), nowhere as (
  {NOWHERE}
)
select run_id, cast(null as bigint) as round, node_id, source, source_seq,
  concat('lacks it, and tries of topic ', topic, ' are compared since round ', since_round) as detail
from lacking
where is_late
union all
select run_id, issued_round as round, source as node_id, source, source_seq,
  'it has subscribed to the topic, and does not keep what it published' as detail
from nowhere
where is_member
"""  # noqa: S608 - built of constants
"""A publication that some subscriber has comes to all others, if the topic has been legitimate for long enough."""
