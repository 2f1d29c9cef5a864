"""Guarantees that every protocol is held against (report CSRG-570, section 4.2 and Theorem 1).

They read the views ``matching`` (which publications satisfy which subscriptions) and ``expected_delivery`` (who has to
get which publication: whose subscription stood when it was published, and who stayed up). A protocol without
confirmations promises nothing, so it may break them; that is what they are to show.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.audit import FOUND, REPEATED, UNWANTED, Audit, Evidence

EXPECTED = """
with first as (
  select run_id, subscriber, source, source_seq, min(round) as delivered_round
  from delivery
  group by run_id, subscriber, source, source_seq
)
select e.run_id, e.subscriber as node_id, e.source, e.source_seq, e.publication_round, p.confirmed_round,
  d.delivered_round, t.confirms_delivery
from expected_delivery e
join publication p on p.run_id = e.run_id and p.source = e.source and p.source_seq = e.source_seq
join run r on r.run_id = e.run_id
join protocol t on t.name = r.protocol
left join first d on d.run_id = e.run_id and d.subscriber = e.subscriber
  and d.source = e.source and d.source_seq = e.source_seq
"""
"""The expected deliveries, with the round of the first that happened; null: none did."""


OUT_OF_ORDER = """
with first as (
  select run_id, subscriber, source, source_seq, min(round) as round
  from delivery
  group by run_id, subscriber, source, source_seq
), followed as (
  select *, max(source_seq) over (
    partition by run_id, subscriber, source order by round, source_seq
    rows between unbounded preceding and 1 preceding
  ) as newest
  from first
)
select f.run_id, f.round, f.subscriber as node_id, f.source, f.source_seq,
  concat('delivered in round ', f.round, ', after call ', f.newest, ' of the same source') as detail
from followed f
join run r on r.run_id = f.run_id
join protocol t on t.name = r.protocol
where f.newest > f.source_seq and t.keeps_source_order
"""
"""A publication that came first in a later round than one issued after it; the order within a round is not recorded."""


def _expected(evidence: Evidence) -> DataFrame:
    def make() -> DataFrame:
        marked = evidence.busy_runs().selectExpr("run_id", "true as is_open")
        expected = evidence.sql(EXPECTED).join(marked, "run_id", "left")
        return expected.selectExpr("*", "coalesce(is_open, false) as is_busy").drop("is_open")

    return evidence.keep("expected", make)


def exactly_once(evidence: Evidence) -> DataFrame:
    """Every expected delivery happens exactly once, and no other does.

    One is missing when it cannot happen any more: nothing is in flight and the run is decided, or the source has its
    Conf. Where a Conf says less than that all have a publication, an audit of the protocol's own says who must have it.
    """
    missing = (
        _expected(evidence)
        .where("delivered_round is null and confirms_delivery and (not is_busy or confirmed_round is not null)")
        .withColumnRenamed("publication_round", "round")
        .selectExpr("*", "concat('published in round ', round, ', never delivered') as detail")
        .select(*FOUND)
    )
    return missing.unionByName(evidence.sql(REPEATED)).unionByName(evidence.sql(UNWANTED)).select(*FOUND)


def source_order(evidence: Evidence) -> DataFrame:
    """A subscriber gets the publications of one source in the order in which it issued them, if that is promised."""
    return evidence.sql(OUT_OF_ORDER).select(*FOUND)


def conf_implies_delivered(evidence: Evidence) -> DataFrame:
    """A confirmed publication has been delivered to every expected subscriber; vacuous without such confirmations."""
    delivered = "coalesce(concat('delivered in round ', delivered_round), 'never delivered')"
    return (
        _expected(evidence)
        .where(
            "confirms_delivery and confirmed_round is not null and coalesce(delivered_round > confirmed_round, true)"
        )
        .withColumnRenamed("confirmed_round", "round")
        .selectExpr("*", f"concat('confirmed in round ', round, ', ', {delivered}) as detail")
        .select(*FOUND)
    )


GENERAL = (
    Audit(
        "exactly_once",
        "every matching subscriber gets a publication exactly once, and nobody else",
        exactly_once,
        is_of_deliveries=True,
    ),
    Audit(
        "source_order",
        "a subscriber gets the publications of a source in their order",
        source_order,
        is_of_deliveries=True,
    ),
    Audit(
        "conf_implies_delivered",
        "a publication is confirmed only after every matching subscriber has it",
        conf_implies_delivered,
    ),
)
