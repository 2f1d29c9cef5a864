"""The intermediate results of a round of protocol ``delta`` (`Work`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from pipelines.contract.round import Round, RoundResult
from pipelines.protocols.delta.tables import SENT


@dataclass
class Work:
    """The intermediate results of a round, which the phases share.

    Attributes:
        round: The input of the round.
        inbox: The due messages, except messages for an earlier incarnation of their receiver.
        radius: The largest δ+1 of the runs.
        result: The result of the round.
        outbox: The messages to send.
        finished: The messages whose processing ends in this round (see `steps.confirmations`).
        added: The routing entries that joining nodes receive in PAR_SUB, with the ``trigger`` of PAR_SUB.
        broken: The connections to crashed peers (see `connections.broken_connections`).
        resent: The rows of ProcessingList to resend, with ``now_round`` (see `copies.resent_copies`).
        asked: The receivers of SYN_REQUEST in this round: ``run_id, node_id, peer``.
        copies: The copies to forward (see `steps.copies`).
        again: The publications whose recipients are computed again (see `recovery.under_way`).
        accepted: The join requests that join points accept in this round (see `steps.join`).
        alone: The recovered nodes that issue no REJOIN, because no node is reachable: ``run_id, node_id, trigger,
            round``.
        events: Rows of ``call_event``.
        statuses: Rows of ``node_status``.
        fates: Rows of ``fate``.
    """

    round: Round
    inbox: DataFrame
    radius: int
    result: RoundResult = field(default_factory=RoundResult)
    outbox: list[DataFrame] = field(default_factory=list)
    finished: list[DataFrame] = field(default_factory=list)
    added: list[DataFrame] = field(default_factory=list)
    broken: list[DataFrame] = field(default_factory=list)
    resent: list[DataFrame] = field(default_factory=list)
    asked: list[DataFrame] = field(default_factory=list)
    copies: list[DataFrame] = field(default_factory=list)
    again: list[DataFrame] = field(default_factory=list)
    accepted: list[DataFrame] = field(default_factory=list)
    alone: list[DataFrame] = field(default_factory=list)
    events: list[DataFrame] = field(default_factory=list)
    statuses: list[DataFrame] = field(default_factory=list)
    fates: list[DataFrame] = field(default_factory=list)

    def now(self, name: str) -> DataFrame:
        """Returns the current rows of relation `name`."""
        added = self.result.added.get(name)
        rows = self.result.state.get(name, self.round.state[name])
        return rows if added is None else rows.unionByName(added)

    def put(self, name: str, frame: DataFrame) -> DataFrame:
        """Sets relation `name` to `frame`, and materialises it for later steps. Returns the materialised frame."""
        kept = self.keep(name, frame)
        self.change(name, kept)
        return kept

    def change(self, name: str, frame: DataFrame) -> None:
        """Sets relation `name` to `frame` without materialising it."""
        self.result.state[name] = frame
        self.result.added.pop(name, None)

    def add(self, name: str, frame: DataFrame) -> None:
        """Adds the rows of `frame` to relation `name` without materialising them."""
        state, added = self.result.state, self.result.added
        to = state if name in state else added
        to[name] = to[name].unionByName(frame) if name in to else frame

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Materialises `frame` for several steps, and returns it. All frames with one `name` have the same columns."""
        return self.round.keep(name, frame)

    def is_empty(self, frame: DataFrame) -> bool:
        """Returns whether a materialised frame is known to have no rows."""
        return self.round.keep.is_empty(frame)

    def finish(self, name: str, frame: DataFrame) -> DataFrame:
        """Materialises `frame` under `name`, and appends it to `finished` unless it is empty and not the first."""
        finished = self.keep(name, frame)
        if not (self.finished and self.is_empty(finished)):
            self.finished.append(finished)
        return finished

    def send(self, row: DataFrame) -> None:
        """Adds messages (`tables.to_send`) to the outbox."""
        # Planning a union takes much longer than planning its parts one after the other.
        self.outbox.append(self.keep("sent", row) if self.is_disturbed else row)

    def has(self, *kinds: str) -> bool:
        """Returns whether a message or call of one of the kinds `kinds` is due."""
        return not self.round.kinds.isdisjoint(kinds)

    @property
    def setting(self) -> DataFrame:
        """The settings of the runs."""
        return self.round.run.setting

    @property
    def detectors(self) -> set[str]:
        """The duplicate detectors that the runs use."""
        return {setting.detector for setting in self.round.settings}

    @property
    def round_column(self) -> str:
        """The SQL expression of column ``round``: the number of the current round."""
        return f"cast({self.round.number} as bigint) as round"

    @property
    def may_send_subscriptions(self) -> bool:
        """Whether a node may send SUB or UNSUB in this round."""
        return self.has(*SENT, "JOIN_REQUEST") or self.may_release_calls or self.is_disturbed

    @property
    def is_recovering(self) -> bool:
        """Whether a node of any run may be RECOVERING or REJOINING."""
        facts = self.round.facts
        counts = facts["status"]["recovering"], facts["synch"]["synchs"], facts["syn_request"]["syn_requests"]
        waiting = any(count > 0 for count in counts)
        return waiting or self.round.faults.recovered is not None or self.has("SYN_REQUEST")

    @property
    def is_disturbed(self) -> bool:
        """Whether a crash may affect this round: a node is down or has recovered, or relation peer has rows."""
        crashes = self.round.faults
        happening = crashes.down is not None or crashes.recovered is not None or self.has("DETECT")
        return happening or self.round.facts["peer"]["peers"] > 0 or self.round.facts["status"]["returned"] > 0

    @property
    def may_fail(self) -> bool:
        """Whether a node may start to suspect another node in this round."""
        told = self.has("DETECT") or (self.round.facts["join"]["joiners"] > 0 and self.has("JOIN_REQUEST", "STATUS"))
        return told and self.is_disturbed

    @property
    def may_change_entries(self) -> bool:
        """Whether the SUBS_SET of any node may change in this round."""
        finishing = self.has("CONF") and self.round.facts["processing"]["routing"] > 0
        return self.has(*SENT, "PAR_SUB") or self.may_release_calls or finishing or self.is_disturbed

    @property
    def may_end_subscriptions(self) -> bool:
        """Whether an UNSUB may be finished in this round."""
        ending = self.has("UNSUB", "unsubscribe") or self.round.facts["processing"]["ending"] > 0
        return ending or self.may_release_calls or self.is_disturbed

    @property
    def may_finish_joins(self) -> bool:
        """Whether the J of any node may be finished in this round."""
        return self.has("J") or ((self.has("CONF") or self.may_fail) and self.round.facts["processing"]["joining"] > 0)

    @property
    def may_release_calls(self) -> bool:
        """Whether waiting calls may be issued in this round."""
        return self.round.facts["call"]["calls"] > 0 and (self.may_finish_joins or self.is_disturbed)
