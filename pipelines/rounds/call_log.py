"""The call log (``state_call_log``): the calls that are issued and not yet final.

A publication's row is written once, when it is confirmed, a subscription's when it has ended; the last commit writes
all that are still open.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.tables import CALL_LOG, PUBLICATION, SUBSCRIPTION

_CALL = ["run_id", "source", "source_seq"]
_SUBSCRIPTION = ["run_id", "subscription_id"]
_LOGGED = to_arrow_schema(CALL_LOG.schema)
_CLOSED = pa.array(["subscribe", "unsubscribe", "publish"])
"""The kinds of calls whose rows are written once they are final."""


class CallLog:
    """The calls that are not final.

    Attributes:
        rows: A row a call, columns of table ``state_call_log``.
    """

    def __init__(
        self, call: pa.Table, subscription: pa.Table, publication: pa.Table, *, confirms: bool, rows: pa.Table | None
    ) -> None:  # fmt: skip
        """Takes the calls that may be issued.

        Args:
            call: All calls of the runs, `Inputs.call`.
            subscription: ``run_id, subscription_id, subscriber, predicate``.
            publication: ``run_id, source, source_seq, topic, content, guarantee, keys``.
            confirms: Whether the protocol confirms calls; otherwise a call is final when it is issued.
            rows: The log of the rounds before; None before the first one.
        """
        self._call = call.select(["run_id", "node_id", "source_seq", "kind", "subscription_id"]).rename_columns(
            [*_CALL, "kind", "subscription_id"]
        )
        self._subscription, self._publication = subscription, publication
        self._confirms = confirms
        self.rows = _LOGGED.empty_table() if rows is None else rows.select(_LOGGED.names).cast(_LOGGED)

    def take(self, event: pa.Table | None, *, is_final: bool) -> dict[str, pa.Table]:
        """Takes what became of calls; returns the rows that are final, which leave the log.

        Args:
            event: ``run_id, source, source_seq, round, event``: ``issued`` or ``confirmed``; None: nothing happened.
            is_final: Whether no round follows: all calls are final then.

        Returns:
            Rows of tables ``publication`` and ``subscription``.
        """
        if event is not None:
            self.rows = self._logged(event)
        if event is None and not is_final:
            return {}
        log = self.rows
        done = log if is_final or not self._confirms else log.filter(pc.is_valid(log["confirmed_round"]))
        published, opened, closed = (
            done.filter(pc.equal(done["kind"], kind)) for kind in ("publish", "subscribe", "unsubscribe")
        )
        ending = closed.select([*_SUBSCRIPTION, "issued_round", "confirmed_round"]).rename_columns(
            [*_SUBSCRIPTION, "unsubscribed_round", "ended_round"]
        )
        if not self._confirms:
            ending = ending.set_column(3, "ended_round", ending["unsubscribed_round"])
        subscribed = opened.join(ending, _SUBSCRIPTION, join_type="left outer" if is_final else "inner")
        over = closed.join(subscribed.select(_SUBSCRIPTION), _SUBSCRIPTION, join_type="left semi")
        final = pa.concat_tables(rows.select(_CALL) for rows in (published, subscribed, over))
        # Without a later round no subscription waits for its end; other calls without a confirmation stay.
        rest = log.filter(pc.invert(pc.is_in(log["kind"], _CLOSED))) if is_final else log
        self.rows = rest.join(final, _CALL, join_type="left anti").cast(_LOGGED)
        return {
            PUBLICATION.name: _with(published, self._publication, _CALL, PUBLICATION.columns),
            SUBSCRIPTION.name: _with(subscribed, self._subscription, _SUBSCRIPTION, SUBSCRIPTION.columns),
        }

    def _logged(self, event: pa.Table) -> pa.Table:
        """Returns the log with the issued calls, and with the rounds of confirmations.

        Of other calls than subscriptions and publications the log holds those without a confirmation.
        """
        issued = event.filter(pc.equal(event["event"], "issued")).select([*_CALL, "round"]).join(self._call, _CALL)
        issued = issued.rename_columns({"round": "issued_round"})
        issued = issued.append_column("confirmed_round", pa.nulls(len(issued), pa.int64())).select(_LOGGED.names)
        log = pa.concat_tables([self.rows, issued.cast(_LOGGED)])
        confirmed = event.filter(pc.equal(event["event"], "confirmed")).select([*_CALL, "round"])
        log = log.join(confirmed, _CALL, join_type="left outer")
        confirmed_round = pc.coalesce(log["confirmed_round"], log["round"])
        log = log.set_column(log.schema.get_field_index("confirmed_round"), "confirmed_round", confirmed_round)
        is_kept = pc.is_in(log["kind"], _CLOSED)
        return log.filter(pc.or_(is_kept, pc.is_null(confirmed_round))).select(_LOGGED.names).cast(_LOGGED)


def _with(rows: pa.Table, given: pa.Table, key: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Returns the rows with the columns that `given` has of their keys; a key has one row there."""
    place = given.select(key).append_column("place", pa.array(range(len(given)), pa.int64()))
    found = rows.join(place, list(key), join_type="inner")
    taken = given.take(found["place"])
    return pa.table({name: (found if name in found.column_names else taken)[name] for name in columns})
