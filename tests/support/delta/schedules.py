"""Converts random schedules of the sequential program to scenarios, and compares the deliveries of both programs."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from oracles.delta.checker import Checker
from oracles.delta.generator import QUIET, random_schedule
from oracles.delta.network import Network
from oracles.delta.schedule import Schedule

from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import rows

SOMETIMES = {
    "bypasses": "select count(1) from message where kind = 'CON_REQUEST'",
    "resends": "select count(1) from (select 1 from message where kind = 'PUB'"
    " group by run_id, source, source_seq, src, dst having count(1) > 1) twice",
    "duplicates": "select count(1) from message where fate = 'duplicate'",
    "Guided messages": "select count(1) from message where get_json_object(body, '$.guide') is not null",
    "PAR_SUB transfers": "select count(1) from message where kind = 'PAR_SUB' and source_seq is null",
    "crashes while recovering": """select count(1) from (
      select status, lead(status) over (partition by run_id, node_id order by round) as next_status from node_status
    ) step where status = 'RECOVERING' and next_status = 'FAILED'""",
    "joins after a crash": "select count(1) from node_status where status = 'VALID_JOINED' and round > 0",
}
"""Events that failures cause, each with the SQL query that counts them."""
RARELY = {
    "partners lost midway": """with state as (
      select run_id, node_id, status, round as first_round,
        lead(round) over (partition by run_id, node_id order by round) as next_round
      from node_status
    )
    select count(1) from (
      select distinct d.run_id, d.message_id from message d
      join state s on s.run_id = d.run_id and s.node_id = d.dst and s.status = 'RECOVERING'
        and d.due_round > s.first_round and d.due_round <= coalesce(s.next_round, d.due_round)
      join message a on a.run_id = d.run_id and a.kind = 'SYN_REQUEST' and a.src = d.dst
        and a.dst = cast(get_json_object(d.body, '$.peer') as bigint)
        and a.sent_round >= s.first_round and a.due_round < d.due_round
      left join message p on p.run_id = a.run_id and p.kind = 'PAR_SUB' and p.src = a.dst and p.dst = a.src
        and p.sent_round >= a.due_round and p.due_round <= d.due_round
      where d.kind = 'DETECT' and d.fate = 'delivered' and a.fate = 'delivered' and p.src is null
    ) lost""",
    "joins through a bypass": """select count(1) from (
      select distinct m.run_id, m.source from message m
      join node_status s on s.run_id = m.run_id and s.node_id = m.source
      left join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
      where m.kind = 'J' and m.fate = 'delivered' and s.status = 'VALID_JOINED' and s.round > m.due_round
        and l.src is null
    ) joined""",
}
"""Events that occur in few schedules, each with the SQL query that counts them.

"Partners lost midway" counts partners that received a SYN_REQUEST and whose failure was reported before their PAR_SUB
arrived. "Joins through a bypass" counts completed joins with a message J between two nodes that have no link.
"""
LAST_CALL = 60
Delivered = dict[tuple[int, int], list[int]]
"""Maps a pair of subscriber and source to the delivered publications of the source, in the order of delivery."""


def short_schedules(first: int) -> Iterator[int]:
    """Yields the seeds, from ``first``, of schedules whose calls, except those after quiescence, end in `LAST_CALL`."""
    for seed in itertools.count(first):
        calls = random_schedule(random.Random(seed)).calls
        if max(call.round for call in calls) == LAST_CALL + QUIET:
            yield seed


def name_of(node: int) -> str:
    """Returns the name of a node in the scenario."""
    return f"N{node:02d}"


def as_scenario(schedule: Schedule, detector: str) -> dict[str, Any]:
    """Returns a schedule as a scenario; a source's k-th publication in the scenario is its k-th in the schedule."""
    subscriptions: dict[int, dict[str, Any]] = {}
    publications, joins = [], []
    for call in schedule.calls:
        at = {"at": name_of(call.node), "round": call.round}
        if call.kind == "subscribe":
            subscriptions[call.number] = {**at, "where": f"s{call.number} = 1"}
        elif call.kind == "unsubscribe":
            subscriptions[call.number]["until"] = call.round
        elif call.kind == "publish":
            publications.append({**at, "content": {f"s{m}": 1 for m in sorted(call.matches)} or {"none": 1}})
        else:
            joins.append({"node": name_of(call.node), "to": name_of(call.join_point), "round": call.round})
    crashes = [
        {"kind": "crash", "node": name_of(crash.node), "round": crash.round, "until": crash.until}
        for crash in sorted(schedule.crashes, key=lambda crash: (crash.round, crash.node))
    ]
    workload = {"subscriptions": [subscriptions[k] for k in sorted(subscriptions)], "publications": publications}
    return {
        "name": "random",
        "protocol": {
            "name": "delta", "delta": schedule.delta, "detector": detector,
            "detection_rounds": schedule.detection, "par_rows": 8,
        },
        "overlay": {"links": [[name_of(a), name_of(b), rounds] for (a, b), rounds in sorted(schedule.links.items())]},
        "workload": {**workload, "joins": joins},
        "faults": [{k: v for k, v in crash.items() if v is not None} for crash in crashes],
        "time": {"rounds": 20_000},
    }  # fmt: skip


def as_runs(networks: Iterable[Network]) -> list[RunConfig]:
    """Returns the schedules of ``networks`` as runs, with the detector of each network."""
    return [
        RunConfig(place, place, Scenario.model_validate(as_scenario(network.schedule, network.detector)), {})
        for place, network in enumerate(networks)
    ]


def expected(network: Network) -> set[tuple[int, int, int]]:
    """Returns the deliveries that must happen, as (subscriber, source, index among the publications of the source)."""
    checker, places = Checker(network), _places(network)
    found = set()
    for (kind, source, number), confirmed in network.confirmations.items():
        if kind != "publish":
            continue
        issued = network.issued[kind, source, number][0]
        for subscription in checker.calls[kind, source, number].matches:
            subscriber = network.subscriber[subscription]
            stands = checker._is_subscribed(subscription, issued, confirmed)
            if stands and checker._stays_up(subscriber, issued, confirmed):
                found.add((subscriber, source, places[source, number]))
    return found


def played(network: Network) -> Delivered:
    """Returns the deliveries of the sequential program."""
    places, found = _places(network), defaultdict(list)
    for subscriber, source, number, _ in network.deliveries:
        found[subscriber, source].append(places[source, number])
    return found


def _places(network: Network) -> dict[tuple[int, int], int]:
    """Maps (source, call number) of each accepted publication to its index among the publications of the source."""
    accepted: dict[int, list[int]] = defaultdict(list)
    for kind, source, number in network.accepted:
        if kind == "publish":
            accepted[source].append(number)
    return {(source, n): place for source, all_ in accepted.items() for place, n in enumerate(sorted(all_))}


class Places:
    """Converts ids in a store to the node numbers and publication indexes of the sequential program."""

    def __init__(self, store: Store) -> None:
        """Reads the nodes and publications of a store."""
        self.names = {
            (run, node): int(name[1:]) for run, node, name in rows(store, "node", "run_id", "node_id", "name")
        }
        issued: dict[tuple[int, int], list[int]] = defaultdict(list)
        for run, source, seq in rows(store, "publication", "run_id", "source", "source_seq"):
            issued[run, source].append(seq)
        self.places = {(*key, seq): place for key, all_ in issued.items() for place, seq in enumerate(sorted(all_))}

    def of(self, run: int, subscriber: int, source: int, seq: int) -> tuple[int, int, int]:
        """Returns the node numbers of subscriber and source, and the publication's index among those of the source."""
        return self.names[run, subscriber], self.names[run, source], self.places[run, source, seq]


def delivered(store: Store, places: Places) -> dict[int, Delivered]:
    """Returns the deliveries of each run of a store, in the form of `played`."""
    found: dict[int, Delivered] = defaultdict(lambda: defaultdict(list))
    delivery = rows(store, "delivery", "run_id", "round", "source_seq", "subscriber", "source")
    for run, _, seq, subscriber, source in sorted(delivery):
        who, whose, place = places.of(run, subscriber, source, seq)
        found[run][who, whose].append(place)
    return found


def awaited(reader: StoreReader, places: Places) -> dict[int, set[tuple[int, int, int]]]:
    """Returns the expected deliveries of each run of a store, as (subscriber, source, index of the publication)."""
    found: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    for row in reader.sql("select run_id, subscriber, source, source_seq from expected_delivery").collect():
        found[row.run_id].add(places.of(*row))
    return found
