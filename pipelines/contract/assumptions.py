"""What a protocol may assume of its network, and how the history tells that it was not so.

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
select run_id, min(sent_round) as round, concat(count(1), ' messages lost on links') as reason
from sent_message
where fate = 'lost_link'
group by run_id
""",
    "no_duplicates": _since_fault("duplicate", "links may bring messages twice"),
    "order": _since_fault("reorder", "messages may overtake others on links"),
}
"""SQL for the runs that break it: ``run_id``, the first ``round`` in which they do, and a ``reason`` in words.

- ``no_loss``: whatever is put on a link arrives, unless its receiver is down. The first message lost breaks it.
- ``no_duplicates``: it arrives once. A message that is sent when or after such a fault began breaks it.
- ``order``: of two messages with the same ends and latency the one that was sent first arrives first. Likewise.
"""
