"""The guarantees of protocol ``repository`` beside the general ones."""

from __future__ import annotations

from pipelines.contract.audit import Audit
from pipelines.protocols.repository.audits.authorisation import authorised_only
from pipelines.protocols.repository.audits.delivery import EARLY, MISSING, UNCONFIRMED
from pipelines.protocols.repository.audits.order import OF_PUBLISHERS, OF_REPOSITORIES, all_or_none
from pipelines.protocols.repository.audits.pending import WAITING
from pipelines.protocols.repository.audits.steering import UNASKED
from pipelines.protocols.repository.audits.storage import DROPPED, stored_once
from pipelines.protocols.repository.audits.syncs import PASSED

AUDITS = (
    Audit(
        "stored_delivered", "an authorised subscriber gets every stored message that it asks for", MISSING,
        is_dated=True,
    ),
    Audit("subscription_confirmed", "an authorised client's subscription is confirmed", UNCONFIRMED),
    Audit("starts_at_cut", "a subscription gets nothing that was stored before it", EARLY,
          is_of_deliveries=True),
    Audit("publisher_order", "messages of one life of a publisher are delivered in their order", OF_PUBLISHERS,
          is_of_deliveries=True),
    Audit("repository_order", "a subscriber delivers in the order of its repository", OF_REPOSITORIES,
          is_of_deliveries=True),
    Audit("all_or_none", "deliveries are stored and announced before, and go to all or none", all_or_none,
          is_dated=True),
    Audit("stored_once", "a repository stores messages once, in order and without gaps", stored_once),
    Audit("kept_until_stable", "a publisher drops no copy that a member of the bundle lacks", DROPPED),
    Audit(
        "sync_passes_nothing", "a sync passes no message that its subscriber has not delivered", PASSED,
        is_dated=True,
    ),
    Audit("asked_to_steer", "a repository steers only clients that have asked it", UNASKED),
    Audit("authorised_only", "nobody unauthorised publishes anything or gets anything", authorised_only,
          is_of_deliveries=True),
    Audit("nothing_pending", "nothing waits in a run that has settled", WAITING),
)  # fmt: skip
