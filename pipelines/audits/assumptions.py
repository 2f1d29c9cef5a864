"""What a protocol may assume of its network, and how the history tells that it was not so.

A protocol names its assumptions (`contract.ProtocolModule.assumes`). A run in which one of them is broken is beyond the
protocol's bound: it is run and audited all the same, and its violations are excused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Assumption = Literal["no_loss"]

ASSUMPTIONS: Mapping[Assumption, str] = {
    "no_loss": """
select run_id, min(sent_round) as round, concat(count(1), ' messages lost on links') as reason
from sent_message
where fate = 'lost_link'
group by run_id
""",
}
"""SQL for the runs that break it: ``run_id``, the first ``round`` in which they do, and a ``reason`` in words.

``no_loss``: whatever is put on a link arrives, unless its receiver is down; the first message lost breaks it.
"""
