"""What a protocol may assume of its network, and how the history shows that it was not so.

A protocol names its assumptions (`contract.Protocol.assumes`). A run in which one of them is broken is beyond the
protocol's bound: it is run and audited all the same, and its violations are excused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Assumption = Literal["no_loss", "no_duplicates", "order"]


def _since_fault(kind: str, reason: str) -> str:
    return f"""
select e.run_id, min(m.sent_round) as round, '{reason}' as reason
from fault_event e
join sent_message m on m.run_id = e.run_id and m.src <> m.dst and m.sent_round >= e.round
where e.kind = '{kind}'
group by e.run_id
"""  # noqa: S608 - built of constants


ASSUMPTIONS: Mapping[Assumption, str] = {
    "no_loss": """
with fault as (
  select run_id, min(round) as first_round
  from fault_event
  where kind not in ('crash', 'recovery', 'pause', 'pause_end')
  group by run_id
)
select m.run_id, min(m.sent_round) as round, concat(count(1), ' messages lost on links') as reason
from sent_message m
join run r on r.run_id = m.run_id
left join fault f on f.run_id = m.run_id
where m.fate = 'lost_link' and (m.sent_round >= f.first_round
  or cast(get_json_object(r.parameters, "$['protocol.out_of_band_loss']") as double) > 0)
group by m.run_id
""",
    "no_duplicates": _since_fault("duplicate", "links may bring messages twice"),
    "order": _since_fault("reorder", "messages may overtake others on links"),
}
"""SQL for the runs that break it: ``run_id``, the first ``round`` in which they do, and a ``reason`` in words.

- ``no_loss``: whatever is put on a link arrives, unless its receiver is down. The first message lost breaks it, if the
  scenario has links lose any (a fault, or a setting): who drops messages and says that they were lost is not excused.
- ``no_duplicates``: it arrives once. A message that is sent when or after such a fault began breaks it.
- ``order``: of two messages with the same ends and latency the one that was sent first arrives first. Likewise.
"""
