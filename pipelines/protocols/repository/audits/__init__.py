"""The guarantees of protocol ``repository`` beside the general ones, one SQL file each."""

from __future__ import annotations

from pipelines.contract.audit import Audit, sql_files

_SQL = sql_files("pipelines.protocols.repository.audits")
UNDECIDED = _SQL["undecided"]
RELATIONS = {name: _SQL[name] for name in ("ordered_delivery", "placed_delivery")}
AUDITS = (
    Audit(
        "stored_delivered",
        "an authorised subscriber gets every stored message that it asks for",
        _SQL["stored_delivered"],
        is_dated=True,
    ),
    Audit(
        "subscription_confirmed",
        "an authorised client's subscription is confirmed",
        _SQL["subscription_confirmed"],
    ),
    Audit(
        "starts_at_cut",
        "a subscription gets nothing that was stored before it",
        _SQL["starts_at_cut"],
        is_of_deliveries=True,
    ),
    Audit(
        "publisher_order",
        "messages of one life of a publisher are delivered in their order",
        _SQL["publisher_order"],
        is_of_deliveries=True,
    ),
    Audit(
        "repository_order",
        "a subscriber delivers in the order of its repository",
        _SQL["repository_order"],
        is_of_deliveries=True,
    ),
    Audit(
        "all_or_none",
        "deliveries are stored and announced before, and go to all or none",
        _SQL["all_or_none"],
        is_dated=True,
    ),
    Audit(
        "stored_once",
        "a repository stores messages once, in order and without gaps",
        _SQL["stored_once"],
    ),
    Audit(
        "kept_until_stable",
        "a publisher drops no copy that a member of the bundle lacks",
        _SQL["kept_until_stable"],
    ),
    Audit(
        "sync_passes_nothing",
        "a sync passes no message that its subscriber has not delivered",
        _SQL["sync_passes_nothing"],
        is_dated=True,
    ),
    Audit(
        "asked_to_steer",
        "a repository steers only clients that have asked it",
        _SQL["asked_to_steer"],
    ),
    Audit(
        "authorised_only",
        "nobody unauthorised publishes anything or gets anything",
        _SQL["authorised_only"],
        is_of_deliveries=True,
    ),
    Audit(
        "nothing_pending",
        "nothing waits in a run that has settled",
        _SQL["nothing_pending"],
    ),
)
