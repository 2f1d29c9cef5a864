"""What is due in a round: crashes, recoveries, and links that change."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class CrashesDue:
    """What the crash schedule says of a round; None: nobody.

    Attributes:
        crashed: Nodes that crash in the round: ``run_id, node_id, incarnation, round``.
        recovered: Nodes that come back in it, with the incarnation that they have from now on.
        down: Nodes that are down after it, with the incarnation that crashed, and ``until``: null for good.
        begun: Runs in which a node has crashed by now: ``run_id``; None where that is so in all, or never in any.
    """

    crashed: DataFrame | None
    recovered: DataFrame | None
    down: DataFrame | None
    begun: DataFrame | None


@dataclass(frozen=True)
class LinksDue:
    """The links of a round.

    Attributes:
        now: The directed links that there are: ``run_id, src, dst``, and more.
        gone: Those that are links no more from this round on: ``run_id, src, dst``; None: none.
        come: Those that are links from this round on; None: none.
        may_change: Whether links of any run are ever replaced.
    """

    now: DataFrame
    gone: DataFrame | None
    come: DataFrame | None
    may_change: bool
