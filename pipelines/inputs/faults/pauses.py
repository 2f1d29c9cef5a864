"""From pauses of nodes to the times for which they pause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pipelines.inputs.faults.timeline import Outage, Timeline


def pause_times(pauses: Sequence[Outage], crashes: Sequence[Outage], horizon: int) -> list[Outage]:
    """Returns the times for which nodes are up and pause, in order of (start, node).

    Times of a node that overlap or touch are one. A node that is down does not pause, and a crash ends its pause: what
    waits for the node is lost then.

    Args:
        pauses: As they are wanted.
        crashes: The down times of all nodes; those of a node are apart.
        horizon: No pause begins after this round.
    """
    timeline, down = Timeline(), defaultdict(list)
    for pause in pauses:
        if pause.start <= horizon:
            timeline.add(pause)
    for crash in crashes:
        down[crash.node].append(crash)
    return [time for pause in timeline.outages() for time in _while_up(pause, down[pause.node])]


def _while_up(pause: Outage, crashes: Sequence[Outage]) -> Iterator[Outage]:
    """Yields the part of a pause before its first crash."""
    start = max([pause.start, *(crash.end for crash in crashes if crash.start <= pause.start < crash.end)])
    end = min([pause.end, *(crash.start for crash in crashes if crash.start > pause.start)])
    if start < end:
        yield Outage(pause.node, start, end)
