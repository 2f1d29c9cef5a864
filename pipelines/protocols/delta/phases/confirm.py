"""Phase 2 of a round: CONF messages shrink Out; what all recipients confirmed is finished (Alg. 1, 19 to 31)."""

from __future__ import annotations

from pipelines.protocols.delta.steps import confirmations
from pipelines.protocols.delta.work import Phase, Work, names


def _confirm(work: Work) -> None:
    """Phase 2: reads inbox and processing; writes processing, finished."""
    confirmation = confirmations.received_confirmations(work.inbox)
    processing = work.now("processing")
    moved = work.keep("progress", confirmations.progress(processing, confirmation))
    if not work.is_empty(moved):
        work.finished.append(moved.where("is_finished").select(confirmations.FINISHED))
        work.change("processing", confirmations.after_confirmations(processing, moved))


PHASE = Phase("confirm", lambda work: work.has("CONF"), _confirm, reads=names("processing"), writes=names("processing"))
