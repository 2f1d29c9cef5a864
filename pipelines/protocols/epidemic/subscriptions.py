"""Subscription forwarding on the tree of dispatchers (section 2.1): SUB, UNSUB and the calls of clients.

A dispatcher has told neighbour m of pattern p exactly when its table has p from elsewhere than m. So what it has to say
is the difference between its table before the round and after: SUB where the first entry for a direction came, UNSUB
where the last one went; a pattern is never told twice in a direction.

When a link is replaced, the dispatchers at its ends take it as if they had heard UNSUB of all that they had from there,
and those at the ends of the new link tell each other all that they know.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract.due import LinksDue
from pipelines.contract.ordering import row_number
from pipelines.protocols.epidemic.tables import NODE
from pipelines.protocols.epidemic.work import Work

_ENTRY = [*NODE, "pattern_id"]
_CALLS = ("subscribe", "unsubscribe")
_LINK = ["run_id", "src", "dst"]
_NEXT_HOP = ("run_id", "src as node_id", "dst as next_hop")


def change_table(work: Work) -> None:
    """Handles SUB, UNSUB, subscribe and unsubscribe, and what recovery from crashes and new links ask for.

    Reads routing_entry, client, pattern; writes routing_entry, client; where patterns end, expected and lost.
    """
    recovered, links = work.round.faults.recovered, work.round.faults.links
    if not work.has("SUB", "UNSUB", *_CALLS) and recovered is None and links.gone is None:
        return
    before, client = work.table, work.now("client")
    told = work.round.keep("told", _told(work.inbox, links))
    kept, changed = before, told.select(_ENTRY)
    if links.gone is not None:
        lost = before.join(links.gone.selectExpr(*_NEXT_HOP).hint("shuffle_hash"), [*NODE, "next_hop"], "left_semi")
        lost = work.round.keep("unlinked", lost.select(*_ENTRY, "next_hop"))
        kept = before.join(lost.hint("shuffle_hash"), [*_ENTRY, "next_hop"], "left_anti").select(before.columns)
        changed = changed.unionByName(lost.select(_ENTRY))
    if work.has(*_CALLS) and work.round.due.calls is not None:
        client = work.put("client", _clients(work.round.due.calls, client, work.now("pattern")))
        called = work.round.due.calls.where("kind in ('subscribe', 'unsubscribe')")
        changed = changed.unionByName(_patterns_of(called, work.now("pattern")))
    if recovered is not None:
        changed = changed.unionByName(
            client.join(recovered.select(NODE).hint("shuffle_hash"), NODE, "left_semi").select(_ENTRY)
        )
    changed = work.round.keep("changed", changed.distinct())
    after = work.put("routing_entry", _table(kept, told, _present(client, work.round.faults.down)))
    if work.has("unsubscribe"):
        _forget(work, changed)
    new = _untold(links, recovered)
    news = _news(changed, before, after, links)
    if new is not None:
        news = work.round.keep("news", news).unionByName(_retold(after, new)).distinct()
    work.send(
        news.join(work.setting("now"), "run_id").selectExpr(
            "run_id", "cast(0 as bigint) as trigger", "pattern_id as rank", "kind", "node_id as src", "dst",
            "now as sent_round", "cast(null as bigint) as source",
            "cast(null as bigint) as source_seq", "pattern_id",
        ),
        "pattern_id",
    )  # fmt: skip
    work.table = after


def _told(inbox: DataFrame, links: LinksDue) -> DataFrame:
    """Returns what each neighbour said last of a pattern: ENTRY, ``next_hop, is_wanted``."""
    if links.may_change:
        inbox = inbox.join(links.now.select("run_id", "src", "dst").hint("shuffle_hash"), _LINK, "left_semi")
    last = f"{row_number('news of a pattern', 'run_id, dst, pattern_id, src', 'message_id desc')} as age"
    news = inbox.where("kind in ('SUB', 'UNSUB')").selectExpr(
        "run_id", "dst as node_id", "pattern_id", "src as next_hop", "kind = 'SUB' as is_wanted", last
    )
    return news.where("age = 1").drop("age")


def _patterns_of(call: DataFrame, pattern: DataFrame) -> DataFrame:
    return pattern.join(call.select(*NODE, "subscription_id").hint("shuffle_hash"), [*NODE, "subscription_id"]).select(
        _ENTRY
    )


def _clients(call: DataFrame, client: DataFrame, pattern: DataFrame) -> DataFrame:
    """Returns the subscriptions that stand after the calls."""
    key = [*NODE, "subscription_id"]
    begun = call.where("kind = 'subscribe'").select(key)
    ended = call.where("kind = 'unsubscribe'").select(key)
    added = pattern.join(begun.hint("shuffle_hash"), key, "left_semi").select(client.columns)
    return client.unionByName(added).join(ended.hint("shuffle_hash"), key, "left_anti").select(client.columns)


def _present(client: DataFrame, down: DataFrame | None) -> DataFrame:
    """Returns the patterns of local clients as entries of the tables, of dispatchers that are up."""
    if down is not None:
        client = client.join(down.select(NODE).hint("shuffle_hash"), NODE, "left_anti")
    return client.selectExpr(*_ENTRY, "node_id as next_hop").distinct()


def _table(before: DataFrame, told: DataFrame, local: DataFrame) -> DataFrame:
    kept = before.where("next_hop <> node_id").join(
        told.select(*_ENTRY, "next_hop").hint("shuffle_hash"), [*_ENTRY, "next_hop"], "left_anti"
    )
    return (
        kept.unionByName(told.where("is_wanted").select(*_ENTRY, "next_hop")).unionByName(local).select(before.columns)
    )


def _forget(work: Work, changed: DataFrame) -> None:
    """Unsubscribing clears LostBuffer for the pattern, and what was expected next (rule E10)."""
    local = work.now("routing_entry").where("next_hop = node_id").select(_ENTRY)
    ended = work.round.keep("ended", changed.join(local, _ENTRY, "left_anti"))
    for name in ("expected", "lost"):
        relation = work.now(name)
        work.put(name, relation.join(ended.hint("shuffle_hash"), _ENTRY, "left_anti").select(relation.columns))


def _vias(table: DataFrame, changed: DataFrame, name: str) -> DataFrame:
    of = table.join(changed.hint("shuffle_hash"), _ENTRY, "left_semi")
    return of.groupBy(_ENTRY).agg({"next_hop": "collect_set"}).toDF(*_ENTRY, name)


def _news(changed: DataFrame, before: DataFrame, after: DataFrame, links: LinksDue) -> DataFrame:
    """Returns what changed patterns mean for each neighbour that was one before: ENTRY, ``dst, kind``."""
    link = links.now.select(_LINK)
    if links.come is not None:
        link = link.join(links.come.hint("shuffle_hash"), _LINK, "left_anti")
    both = changed.join(_vias(before, changed, "befores"), _ENTRY, "left").join(
        _vias(after, changed, "afters"), _ENTRY, "left"
    )
    neighbour = link.selectExpr("run_id", "src as node_id", "dst")
    knew, knows = (
        f"coalesce(exists({next_hops}, next_hop -> next_hop <> dst), false)" for next_hops in ("befores", "afters")
    )  # fmt: skip
    told = both.hint("shuffle_hash").join(neighbour, NODE).selectExpr(
        *_ENTRY, "dst", f"{knew} as knew", f"{knows} as knows"
    )  # fmt: skip
    return told.where("knew <> knows").selectExpr(*_ENTRY, "dst", "case when knows then 'SUB' else 'UNSUB' end as kind")


def _untold(links: LinksDue, recovered: DataFrame | None) -> DataFrame | None:
    """Returns the directed links over which all is told: to dispatchers that are back, and over new links.

    A dispatcher that is back has no table (rule E14).
    """
    found = [] if links.come is None else [links.come.select(_LINK)]
    if recovered is not None:
        back = recovered.selectExpr("run_id", "node_id as dst")
        found.append(links.now.join(back.hint("shuffle_hash"), ["run_id", "dst"], "left_semi").select(_LINK))
    return reduce(DataFrame.unionByName, found).distinct() if found else None


def _retold(after: DataFrame, link: DataFrame) -> DataFrame:
    """Returns the patterns that are told again over some links."""
    neighbour = link.selectExpr("run_id", "src as node_id", "dst")
    known = after.join(neighbour.hint("shuffle_hash"), NODE).where("next_hop <> dst")
    return known.selectExpr(*_ENTRY, "dst", "'SUB' as kind").distinct()
