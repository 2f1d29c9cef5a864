"""What brokers send at the turns of messages (section 3.5)."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import outbox
from pipelines.protocols.ginger.steps.rows import PAYLOAD, TOPIC

_GOES = """case what
    when 'passed' then relationship = 'client' or neighbour <> sender
    when 'locked' then relationship = 'child' and neighbour <> sender
    when 'sent' then relationship = 'parent'
    else relationship = 'client' or sender is null or neighbour <> sender end"""
"""Whether a neighbour in the sub-tree gets a message at a turn."""
_KIND = """case
    when what = 'processed' and relationship <> 'client' then 'TotalProcessed'
    when what = 'sent' and came_from = 'above' then 'TotalAck'
    else 'Metadata' end"""


def sent_onward(turn: DataFrame, branch: DataFrame) -> DataFrame:
    """Returns the outbox of brokers at the turns of messages.

    A message passes to the neighbours in the sub-tree; one in total order goes down when it locks its key items, and up
    when all below have locked them; when it is processed clients get it, then brokers the news.

    Args:
        turn: TURN.
        branch: *branch*.
    """
    to = branch.join(turn.hint("shuffle_hash"), TOPIC).where(_GOES)
    return outbox(
        to, PAYLOAD, trigger="trigger", kind=_KIND, src="node_id", dst="neighbour", sent_round="round",
        rank="2 * rank + case when what = 'processed' and relationship <> 'client' then 1 else 0 end",
        source="source", source_seq="source_seq", topic="topic", guarantee="guarantee", keys="keys",
        issued_round="issued_round", hops="hops + 1", covered="case what when 'sent' then covered else array() end",
    )  # fmt: skip
