"""The guarantees of protocol ``delta`` alone, beside the general ones."""

from __future__ import annotations

from pipelines.contract.audit import Audit
from pipelines.protocols.delta.audits.consistency import join_consistency, level_1, level_2, recovered_state
from pipelines.protocols.delta.audits.progress import no_operational_skipped, nothing_pending
from pipelines.protocols.delta.audits.time import ends_in_time

AUDITS: tuple[Audit, ...] = (
    Audit(
        "no_operational_skipped",
        "no message goes past a node that is OPERATIONAL, or was before its REJOIN (Key Corollary)",
        no_operational_skipped,
    ),
    Audit("join_consistency", "every node's view holds exactly the links within δ+1 hops (Eq. 1)", join_consistency),
    Audit("level_1", "within δ+1 hops of a subscriber, entries name the subscriber itself", level_1),
    Audit("level_2", "farther away, entries name the node δ+1 hops towards the subscriber", level_2),
    Audit("recovered_state", "a recovered node's view and entries are those of one that never failed", recovered_state),
    Audit(
        "nothing_pending", "when nothing is in flight, nothing waits for a message that never comes", nothing_pending
    ),
    Audit(
        "ends_in_time",
        "some time after the last crash or recovery nodes are OPERATIONAL and calls confirmed",
        ends_in_time,
    ),
)
