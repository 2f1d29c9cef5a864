"""Reads the history rows that explain the deliveries of publications to subscribers into `facts.RunFacts`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pipelines.protocols import protocol_named
from pipelines.sql.query import StoreReader
from pipelines.why.facts import (
    LINKED,
    UNLINKED,
    Downtime,
    LinkFault,
    MessageFact,
    PublicationFact,
    RunFacts,
    SubscriptionFact,
    Wait,
    or_never,
)

_END = "_end"
_RUN = """
select r.run_id, r.protocol, coalesce(d.latency_rounds, 0) as slowest_rounds
from run r
left join (select run_id, max(latency_rounds) as latency_rounds from delivery group by run_id) d on d.run_id = r.run_id
where r.run_id in ({runs})
"""
_MESSAGE = """
select run_id, message_id, kind, src, dst, sent_round, due_round, fate, source, source_seq, body
from sent_message
where run_id in ({runs}) and (
  (source in ({sources}) and source_seq in ({seqs}))
  or (contains(body, '"subscription_id"') and (source in ({subscribers}) or fate = 'lost_link'))
  or (source is null and (src = dst or fate <> 'delivered' or contains(body, '"publications"')))
)
order by message_id
"""
_OF_PUBLICATION = "run_id in ({runs}) and source in ({sources}) and source_seq in ({seqs})"
_TABLES = {
    "run": _RUN,
    "message": _MESSAGE,
    "link_fault": "select * from fault_event where run_id in ({runs}) and node_id is null",
    "node": "select run_id, node_id, name from node where run_id in ({runs})",
    "link": "select run_id, src, dst, latency_rounds from link where run_id in ({runs})",
    "publication": "select * from publication where run_id in ({runs}) and source in ({sources})",
    "node_recovery": "select * from node_recovery where run_id in ({runs}) order by run_id, node_id, crash_round",
    "node_status": "select * from node_status where run_id in ({runs}) order by run_id, node_id, round, status desc",
    "subscription": "select * from subscription where run_id in ({runs}) and subscriber in ({subscribers})"
    " order by subscription_id",
    **{name: f"select * from {name} where {_OF_PUBLICATION}" for name in ("delivery", "matching", "receiver")},  # noqa: S608 - built of constants
}


def read_facts(
    reader: StoreReader, runs: Collection[int], subscribers: Collection[int], sources: Collection[int],
    seqs: Collection[int],
) -> dict[int, RunFacts]:  # fmt: skip
    """Reads the facts of several runs with one query for each table, and returns them by run id.

    ``runs`` contains ids of runs, ``subscribers`` and ``sources`` contain ids of nodes, and ``seqs`` contains call
    numbers of publications.
    """
    ids = {"runs": runs, "subscribers": subscribers, "sources": sources, "seqs": seqs}
    rows = _rows(reader, _TABLES, **ids) | _protocol_rows(reader, **ids)
    is_finished = reader.is_finished()
    facts = {
        row["run_id"]: RunFacts(
            row["run_id"], protocol.confirms, is_finished, protocol.maintenance, protocol.needs_tree,
            row["slowest_rounds"],
        )
        for row in rows["run"] for protocol in [protocol_named(row["protocol"])]
    }  # fmt: skip
    _fill(facts, rows)
    return facts


def read_overlays(reader: StoreReader, runs: Collection[int]) -> dict[int, RunFacts]:
    """Reads the nodes, links and link changes of ``runs``; the other attributes of the facts are empty."""
    facts = {run_id: RunFacts(run_id, confirms=False, is_finished=True) for run_id in runs}
    _fill(facts, _rows(reader, ("node", "link", "link_fault"), runs=runs))
    return facts


Rows = list[dict[str, Any]]


def _rows(reader: StoreReader, names: Iterable[str], **ids: Collection[int]) -> dict[str, Rows]:
    """Returns the rows of the queries ``names`` of `_TABLES`; ``ids`` has the numbers of each parameter."""
    return {name: reader.sql(_filled(_TABLES[name], ids)).toArrow().to_pylist() for name in names}


def _filled(sql: str, ids: Mapping[str, Collection[int]]) -> str:
    return sql.format(**{name: ", ".join(map(str, sorted(numbers))) for name, numbers in ids.items()})


def _protocol_rows(reader: StoreReader, **ids: Collection[int]) -> dict[str, Rows]:
    """Returns the rows of the queries `Protocol.waits` and `Protocol.waited` of all protocols of the store."""
    where = _filled(_OF_PUBLICATION, ids)
    found: dict[str, Rows] = {"waits": [], "waited": []}
    for name in reader.protocols:
        protocol = protocol_named(name)
        for table, queries in (("waits", protocol.waits.values()), ("waited", filter(None, [protocol.waited]))):
            for sql in queries:
                text = f"select * from ({sql}) w where {where}"  # noqa: S608 - built of numbers
                found[table] += reader.of_protocol(name).sql(text).toArrow().to_pylist()
    return found


def _fill(facts: Mapping[int, RunFacts], rows: Mapping[str, Rows]) -> None:
    """Sets the attributes of ``facts`` whose tables are in ``rows``."""
    for name, take in _TAKE.items():
        for row in rows.get(name, ()):
            take(facts[row["run_id"]], row)
    events, crashes, statuses = (_by_run(rows.get(name, ())) for name in ("link_fault", "node_recovery", "node_status"))
    for run in facts.values():
        run.spread = _spread(run.messages)
        run.link_faults, run.changes = _link_faults(events[run.run_id]), _changes(events[run.run_id])
        run.downs = _downs(crashes[run.run_id], statuses[run.run_id])


def _by_run(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["run_id"]].append(row)
    return found


def _key(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["source"], row["source_seq"]


def _take_waited(run: RunFacts, row: Mapping[str, Any]) -> None:
    crash = None if row["crashed"] is None else (row["crashed"], row["crash_round"])
    wait = Wait(row["node_id"], row["since_round"], row["until_round"], row["reason"], crash)
    run.waited[_key(row)].append(wait)


def _take_message(run: RunFacts, row: Mapping[str, Any]) -> None:
    found = json.loads(row["body"]) if row["body"] else {}
    body = found if isinstance(found, dict) else {}
    message = MessageFact(
        row["message_id"], row["kind"], row["src"], row["dst"], row["sent_round"], row["due_round"], row["fate"], body
    )
    if row["source"] is not None:
        run.messages[_key(row)].append(message)
    elif carried := body.get("publications"):
        for one in carried:
            run.messages[_key(one)].append(message)
    else:
        run.others.append(message)


def _take_publication(run: RunFacts, row: Mapping[str, Any]) -> None:
    key, issued = _key(row), row["issued_round"]
    run.publications[key] = PublicationFact(*key, issued, row["topic"], row["content"], row["confirmed_round"])


def _take_subscription(run: RunFacts, row: Mapping[str, Any]) -> None:
    rounds = row["issued_round"], row["confirmed_round"], row["unsubscribed_round"]
    subscription = SubscriptionFact(row["subscription_id"], row["predicate"], *rounds)
    run.subscriptions[row["subscriber"]].append(subscription)


_TAKE: Mapping[str, Callable[[RunFacts, Mapping[str, Any]], None]] = {
    "message": _take_message,
    "node": lambda run, row: run.names.update({row["node_id"]: row["name"]}),
    "link": lambda run, row: run.links.append((row["src"], row["dst"], row["latency_rounds"])),
    "publication": _take_publication,
    "delivery": lambda run, row: run.deliveries[row["subscriber"], *_key(row)].append((row["round"], row["hops"])),
    "subscription": _take_subscription,
    "matching": lambda run, row: run.matching[_key(row)].add(row["subscription_id"]),
    "receiver": lambda run, row: run.receivers.update({(row["subscriber"], *_key(row)): row["excuse"]}),
    "waits": lambda run, row: run.waits[_key(row)].append((row["node_id"], row["reason"])),
    "waited": _take_waited,
}


def _spread(messages: Mapping[tuple[int, int], list[MessageFact]]) -> dict[tuple[int, int], list[MessageFact]]:
    """Maps each pair of subscriber and subscription id to the messages that propagate the subscription.

    These are the messages of the first call of the subscriber with this id; later calls end the subscription.
    """
    found: dict[tuple[int, int], list[MessageFact]] = {}
    for (source, _), served in sorted(messages.items()):
        named = [message for message in served if message.body.get("subscription_id") is not None]
        if named:
            found.setdefault((source, named[0].body["subscription_id"]), named)
    return found


def _link_faults(events: Sequence[Mapping[str, Any]]) -> list[LinkFault]:
    """Converts rows of table ``fault_event``; a fault ends at the next end event of its kind and link."""
    ends = defaultdict(list)
    for row in sorted(events, key=lambda row: row["round"]):
        ends[row["kind"], row["src"], row["dst"]].append(row["round"])
    found = [
        LinkFault(kind, src, dst, round_, next((end for end in ends[f"{kind}{_END}", src, dst] if end > round_), None))
        for (kind, src, dst), rounds in list(ends.items())
        if not kind.endswith(_END) and kind not in (LINKED, UNLINKED)
        for round_ in rounds
    ]
    return sorted(found, key=lambda fault: (fault.round, fault.kind, fault.src or 0, fault.dst or 0))


def _changes(events: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], list[tuple[int, str]]]:
    """Groups link additions and removals by link; within a round, removals precede additions."""
    found = defaultdict(list)
    for row in sorted(events, key=lambda row: (row["round"], row["kind"] == LINKED)):
        if row["kind"] in (LINKED, UNLINKED):
            found[row["src"], row["dst"]].append((row["round"], row["kind"]))
    return dict(found)


def _downs(crashes: Iterable[Mapping[str, Any]], statuses: Iterable[Mapping[str, Any]]) -> dict[int, list[Downtime]]:
    """Converts rows of view ``node_recovery`` to downtimes by node.

    Without a status between the recovery and the next crash, `Downtime.restored` has no value.
    """
    said = defaultdict(list)
    for row in statuses:
        said[row["node_id"]].append((row["round"], row["status"]))
    found = defaultdict(list)
    for row in crashes:
        node, until, operational = row["node_id"], row["recovery_round"], row["operational_round"]
        end = or_never(row["end_round"] if operational is None else operational + 1)
        after = tuple(pair for pair in said[node] if until is not None and until <= pair[0] < end)
        restored = operational if after else None
        found[node].append(Downtime(node, row["crash_round"], until, row["end_round"], restored, after))
    return dict(found)
