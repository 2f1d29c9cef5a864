"""The guarantees of protocol ``ginger`` beside the general ones."""

from __future__ import annotations

from pipelines.contract.audit import Audit
from pipelines.protocols.ginger.audits.bank import balances
from pipelines.protocols.ginger.audits.order import causal_order, total_order
from pipelines.protocols.ginger.audits.quiescent import (
    LEFT_OVER,
    nobody_alone,
    nothing_lost,
    one_tree,
    subscribed,
)

AUDITS = (
    Audit("causal_order", "what a publisher knew of a key item comes before what it published on it", causal_order),
    Audit(
        "total_order", "total-order messages on a key item come in one order, with all else on one side", total_order
    ),
    Audit("balances", "all replicas of a bank have equal balances, and none below zero", balances),
    Audit("nothing_waiting", "when all is quiescent no key item is locked and no message waits", LEFT_OVER),
    Audit("one_tree", "when all is quiescent the brokers that are up are one tree", one_tree),
    Audit("nobody_alone", "whoever is up is taken in by somebody, or is the root of all that is left", nobody_alone),
    Audit("nothing_lost", "what has left all buffers and is lacking somewhere is published again", nothing_lost),
    Audit("subscribed", "subscriptions are confirmed before anything is published on their topic", subscribed),
)
