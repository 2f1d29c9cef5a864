"""Protocol ``epidemic``: one round of content-based publish/subscribe with epidemic recovery of lost events.

Phases of a round, each for all dispatchers at once:

1. **unicast** (`_hear`): requests and replies that the out-of-band channel loses;
2. **subscription tables** (`subscriptions`): SUB and UNSUB, calls of clients, dispatchers that are back;
3. **events** (`events`): EVENT, REPLY and publications: deliveries, forwarding;
4. **memory**: caches (`caching`), LostBuffer and Routes (`losses`);
5. **gossip** (`gossip`): GOSSIP and REQUEST are answered and passed on;
6. **gossip rounds** (`initiate`): begin, with what the dispatcher knows by then.

Within a phase a dispatcher handles messages in the order of their ids, and calls after them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract import draws_sql
from pipelines.contract.assumptions import Assumption
from pipelines.contract.round import DataflowProtocol, Round, RoundResult, Start
from pipelines.contract.rows import issued
from pipelines.protocols.epidemic import caching, events, gossip, initiate, losses, subscriptions
from pipelines.protocols.epidemic.audits import AUDITS
from pipelines.protocols.epidemic.bound import BOUND
from pipelines.protocols.epidemic.tables import BODY, DISPATCHER, KINDS, PATTERN, PAYLOAD, STATES
from pipelines.protocols.epidemic.work import Work

_UNICAST_DRAW = draws_sql.uniform(
    "epidemic.unicast", "src", "dst", "due_round", "coalesce(source, -1)", "coalesce(source_seq, -1)"
)  # fmt: skip
_PHASE = draws_sql.uniform("epidemic.phase", "node_id")


class EpidemicProtocol(DataflowProtocol):
    """The protocol as the engine sees it."""

    kinds = KINDS
    payload = PAYLOAD
    body = BODY
    states = STATES
    audits = AUDITS
    bound = BOUND
    assumes: frozenset[Assumption] = frozenset({"no_loss", "order"})

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Names the patterns of the scenario and sets the gossip timers; nothing is known of anybody's yet."""
        setting = start.run.setting.select("run_id", "seed", "gossip_rounds")
        timer = start.run.node.join(setting, "run_id").selectExpr(
            "run_id", "node_id", "gossip_rounds as interval_rounds",
            f"cast(floor({_PHASE} * gossip_rounds) as bigint) as next_round", "cast(null as bigint) as push_end_round",
            "cast(null as bigint) as lost_end_round", "cast(0 as bigint) as n_cached", "false as is_busy",
        )  # fmt: skip
        pattern = _patterns(start.run.subscription, start.calls)
        return {"pattern": pattern, "dispatcher": timer.select(DISPATCHER.columns)}

    def round(self, round_: Round) -> RoundResult:
        """Makes one round."""
        clock = round_.keep("clock", round_.run.setting.selectExpr("*", f"cast({round_.number} as bigint) as now"))
        work = Work(round_, round_.due.inbox, round_.state["routing_entry"], clock)
        _hear(work)
        subscriptions.change_table(work)
        events.take(work)
        if work.strategies != {"none"}:
            caching.store(work)
            if work.pulls:
                losses.detect(work)
                losses.record_routes(work)
            gossip.handle(work)
            initiate.start(work)
        if round_.due.calls is not None:
            work.result.call_event = issued(round_.due.calls)
        return work.close()


def _patterns(subscription: DataFrame, call: DataFrame) -> DataFrame:
    """Returns relation pattern: subscriptions with the same predicate have the same event pattern."""
    issued = call.where("kind = 'subscribe'").selectExpr("run_id", "subscription_id", "round as issued_round")
    first = call.where("kind = 'publish'").groupBy("run_id").agg({"round": "min"}).toDF("run_id", "first_round")
    known = subscription.join(issued, ["run_id", "subscription_id"]).join(first, "run_id", "left")
    return known.selectExpr(
        "run_id", "subscriber as node_id", "subscription_id",
        "min(subscription_id) over (partition by run_id, predicate) as pattern_id",
        "coalesce(issued_round < first_round, true) as is_initial",
    ).select(PATTERN.columns)  # fmt: skip


def _hear(work: Work) -> None:
    """Drops the requests and replies that the unicast loses (setting ``out_of_band_loss``)."""
    if not work.has("REQUEST", "REPLY") or not any(setting.out_of_band_loss for setting in work.round.settings):
        return
    drawn = work.inbox.join(work.setting("seed", "out_of_band_loss"), "run_id").selectExpr(
        *work.inbox.columns,
        f"kind in ('REQUEST', 'REPLY') and {_UNICAST_DRAW} < out_of_band_loss as is_lost",
    )  # fmt: skip
    heard = work.round.keep("heard", drawn)
    work.fates.append(heard.where("is_lost").selectExpr("run_id", "message_id", "'lost_link' as fate"))
    work.inbox = heard.where("not is_lost").drop("is_lost")


PROTOCOL = EpidemicProtocol()
