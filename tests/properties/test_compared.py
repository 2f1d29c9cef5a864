"""Six protocols on the same small work: each keeps what it promises, and breaks what the theory says it must.

Six brokers in a line, clients at N1, N2 and N6, repositories at N1 and N6. N3 and N4 have no clients, so they may fail
for all protocols. Every run is in one store.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.result import Result

BROKERS = [f"N{number}" for number in range(1, 7)]
CLIENTS = {"C1": "N1", "C2": "N2", "C3": "N6"}
SERVERS = {"R1": "N1", "R2": "N6"}
STEERED = {"C1": "R1", "C2": "R1", "C3": "R2"}
"""The repository of each client: the nearest one."""
TREE = nx.Graph([*pairwise(BROKERS), *CLIENTS.items(), *SERVERS.items()])

ALONE = (36, "C1", "causal"), (54, "C1", "total")
"""Publications that have the network to themselves."""
MEANWHILE = (
    (72, "C1", "causal"), (73, "C3", "total"), (74, "C1", "causal"), (75, "C2", "causal"), (76, "C3", "causal"),
    (78, "C1", "total"), (80, "C2", "causal"), (82, "C3", "causal"), (84, "C1", "causal"),
)  # fmt: skip
AFTERWARDS = (94, "C1", "causal"), (95, "C2", "causal"), (96, "C3", "causal")
"""They tell subscribers what they lack."""
CALLS = [*ALONE, *MEANWHILE, *AFTERWARDS]
WANTED = len(CALLS) * len(CLIENTS)

NONE, CRASH, BREAK, LOSS, DISORDER = "none", "crash", "break", "loss", "disorder"
FAULTS = {
    NONE: [],
    CRASH: [{"kind": "crash", "node": "N3", "round": 75, "until": 88}],
    BREAK: [{"kind": "crash", "node": node, "round": 75} for node in ("N3", "N4")],
    LOSS: [{"kind": "loss", "rate": 0.3, "round": 72, "until": 90}],
    DISORDER: [
        {"kind": "duplicate", "rate": 0.2, "round": 72, "until": 90},
        {"kind": "delay", "reorder": True, "rate": 0.2, "rounds": [1, 8], "round": 72, "until": 90},
    ],
}
PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "forwarding": {"name": "forwarding"},
    "delta": {"name": "delta", "delta": 1},
    "delta 2": {"name": "delta", "delta": 2},
    "epidemic": {"name": "epidemic"},
    "ginger": {"name": "ginger", "timer_rounds": 20},
    "skipring": {"name": "skipring"},
    "repository": {"name": "repository"},
}
SCENARIO: Mapping[str, Any] = {
    "name": "compared_small",
    "protocol": {"name": "forwarding"},
    "overlay": {
        "links": [list(link) for link in pairwise(BROKERS)],
        "servers": [{"name": name, "at": at} for name, at in SERVERS.items()],
        "clients": [{"name": name, "at": at} for name, at in CLIENTS.items()],
    },
    "workload": {
        "subscriptions": {"generate": {"kind": "topics", "topics": 1, "nodes": "clients"}},
        "publications": [
            {"at": at, "round": round_, "topic": "topic1", "guarantee": order, "keys": ["k"]}
            for round_, at, order in CALLS
        ],
    },
    "time": {"rounds": 220},
    "runs": {"seeds": [1], "grid": {"protocol": [*PROTOCOLS.values()], "faults": [*FAULTS.values()]}},
}


@pytest.fixture(scope="module")
def result(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    sail.activate()
    with rt.run(SCENARIO, sail.spark, tmp_path_factory.mktemp("compared") / "store") as found:
        yield found


@pytest.fixture(scope="module")
def rows(result: Result) -> Mapping[tuple[str, str], Any]:
    """View `comparison` by protocol and faults."""
    faults = {json.dumps(value, sort_keys=True): name for name, value in FAULTS.items()}
    found = {}
    for row in result.table("comparison").collect():
        chosen = json.loads(row.parameters)
        name = "delta 2" if chosen.get("protocol.delta") == PROTOCOLS["delta 2"]["delta"] else row.protocol
        found[name, faults[json.dumps(chosen["faults"], sort_keys=True)]] = row
    assert set(found) == {(name, fault) for name in PROTOCOLS for fault in FAULTS}
    return found


def crossed(at: str, to: Collection[str]) -> int:
    """Returns the links of the union of the ways from a node to others."""
    ways = (nx.shortest_path(TREE, at, other) for other in to)
    return len({frozenset(link) for way in ways for link in pairwise(way)})


# What theory promises


def test_every_protocol_keeps_what_its_audits_promise(result: Result, rows: Mapping[tuple[str, str], Any]) -> None:
    """Repositories wait longer for what may still come than these runs go on."""
    assert result.sql("select * from violation where not excused").collect() == []
    told = {key: row.verdict for key, row in rows.items()}
    assert told == {key: "unknown" if key == ("repository", BREAK) else "valid" for key in rows}
    for row in rows.values():
        assert not row.within_bound or row.n_wanted_delivered == row.n_wanted == WANTED
        assert row.n_duplicates == 0 or not row.within_bound


def test_what_each_protocol_promises_to_bear(rows: Mapping[tuple[str, str], Any]) -> None:
    beyond = {
        "forwarding": {CRASH, BREAK, LOSS, DISORDER}, "delta": {BREAK, LOSS, DISORDER}, "delta 2": {LOSS, DISORDER},
        "epidemic": {CRASH, BREAK, LOSS, DISORDER}, "ginger": {LOSS, DISORDER}, "skipring": set(),
        "repository": {BREAK},
    }  # fmt: skip
    for (name, fault), row in rows.items():
        assert row.within_bound is (fault not in beyond[name]), (name, fault)


def test_all_is_delivered_where_nothing_fails(rows: Mapping[tuple[str, str], Any]) -> None:
    for name in PROTOCOLS:
        assert rows[name, NONE].wanted_ratio == 1
        assert rows[name, NONE].settling_rounds is None


def test_forwarding_loses_under_crashes_and_under_loss(rows: Mapping[tuple[str, str], Any]) -> None:
    for fault in (CRASH, BREAK, LOSS):
        assert rows["forwarding", fault].wanted_ratio < 1
        assert rows["forwarding", fault].n_source_order_broken == 0


def test_one_crash_more_than_delta_breaks_delta(rows: Mapping[tuple[str, str], Any]) -> None:
    assert rows["delta", CRASH].wanted_ratio == 1
    assert rows["delta", BREAK].wanted_ratio < 1
    assert rows["delta 2", BREAK].wanted_ratio == 1
    assert rows["delta 2", BREAK].latency_rounds_max > rows["delta 2", NONE].latency_rounds_max
    assert rows["delta", LOSS].wanted_ratio < 1


def test_epidemic_recovers_what_links_lose_and_loses_order(rows: Mapping[tuple[str, str], Any]) -> None:
    """Gossip needs a way: nothing gets past a dispatcher that is gone for good."""
    lossy = rows["epidemic", LOSS]
    assert lossy.wanted_ratio == 1 > rows["forwarding", LOSS].wanted_ratio
    assert lossy.n_source_order_broken > 0
    assert lossy.recovery_per_delivery > 0 == rows["epidemic", NONE].recovery_per_delivery
    assert rows["epidemic", NONE].n_source_order_broken == 0
    assert rows["epidemic", BREAK].wanted_ratio == rows["forwarding", BREAK].wanted_ratio < 1


def test_ginger_keeps_the_orders_that_are_asked_for_while_brokers_fail(rows: Mapping[tuple[str, str], Any]) -> None:
    """All publications share a key item, so they are in causal order, in which those in total order have a place."""
    for fault in (NONE, CRASH, BREAK):
        row = rows["ginger", fault]
        assert (row.wanted_ratio, row.n_source_order_broken, row.n_causal_order_broken) == (1, 0, 0), fault
        assert (row.n_asked_causal_broken, row.n_asked_total_broken) == (0, 0), fault
    assert rows["delta", NONE].n_asked_total_broken > 0
    assert rows["ginger", LOSS].wanted_ratio < 1


def test_who_looks_for_duplicates_and_who_restores_an_order(rows: Mapping[tuple[str, str], Any]) -> None:
    """On links that bring messages twice and late. Skip rings have no order to restore."""
    twice = {name for name in PROTOCOLS if rows[name, DISORDER].n_duplicates}
    assert twice == {"forwarding", "ginger"}
    assert rows["repository", DISORDER].wanted_ratio == rows["skipring", DISORDER].wanted_ratio == 1
    in_order = {name for name in PROTOCOLS if not rows[name, DISORDER].n_source_order_broken}
    assert in_order >= {"delta", "delta 2", "repository"}


def test_brokers_do_not_matter_to_a_skip_ring(rows: Mapping[tuple[str, str], Any]) -> None:
    """It has none. Tries bring what links lose, in no order."""
    own = ("wanted_ratio", "n_messages", "latency_rounds_max", "n_source_order_broken")
    for fault in (CRASH, BREAK):
        assert [rows["skipring", fault][name] for name in own] == [rows["skipring", NONE][name] for name in own]
    assert rows["skipring", LOSS].wanted_ratio == 1
    assert rows["skipring", LOSS].latency_rounds_max > rows["skipring", NONE].latency_rounds_max


def test_repositories_deliver_after_crashes_and_loss_in_the_order_of_sources(
    rows: Mapping[tuple[str, str], Any],
) -> None:
    for fault in (CRASH, LOSS):
        row = rows["repository", fault]
        assert (row.wanted_ratio, row.n_source_order_broken) == (1, 0)
        assert row.latency_rounds_max > rows["repository", NONE].latency_rounds_max
    assert rows["repository", BREAK].wanted_ratio < 1


# What a delivery costs where nothing fails


@pytest.mark.parametrize("name", ["forwarding", "delta", "delta 2", "epidemic", "ginger", "skipring"])
def test_application_messages_for_a_delivery(rows: Mapping[tuple[str, str], Any], name: str) -> None:
    """Links of the union of ways; Ginger: all members of its tree, the publisher too (G5); 3n - 5 on a ring (K12)."""
    tree = TREE.subgraph([*BROKERS, *CLIENTS])
    expected = {
        "ginger": len(CALLS) * (1 + tree.number_of_edges()),
        "skipring": len(CALLS) * (3 * len(CLIENTS) - 5),
    }.get(name, sum(crossed(at, CLIENTS) for _, at, _ in CALLS))
    assert rows[name, NONE].application_per_delivery == pytest.approx(expected / WANTED)


def test_all_messages_for_a_delivery(rows: Mapping[tuple[str, str], Any]) -> None:
    """A SUB crosses all links; of equal patterns `epidemic` sends one a link and direction. delta confirms all."""
    n_links = TREE.subgraph([*BROKERS, *CLIENTS]).number_of_edges()
    published = sum(crossed(at, CLIENTS) for _, at, _ in CALLS)
    expected = {
        "forwarding": published + len(CLIENTS) * n_links,
        "delta": 2 * (published + len(CLIENTS) * n_links),
        "delta 2": 2 * (published + len(CLIENTS) * n_links),
        "epidemic": published + 2 * n_links,
    }
    assert {name: rows[name, NONE].n_messages for name in expected} == expected


def sent(result: Result, protocol: str, first: int, last: int) -> dict[str, int]:
    """Returns how many messages of each kind are sent in some rounds of the run in which nothing fails."""
    found = result.sql(f"""
select m.kind, count(1) as n
from sent_message m
join (select min(run_id) as run_id from run where protocol = '{protocol}') r on r.run_id = m.run_id
where m.src <> m.dst and m.sent_round between {first} and {last}
group by m.kind
""").collect()
    return {row.kind: row.n for row in found}


def test_a_publication_in_total_order_goes_up_and_down_the_tree(result: Result) -> None:
    """Root N1 is where it enters: TotalAck comes back over every link between brokers, TotalProcessed goes out."""
    n_links = len(BROKERS) - 1
    expected = {"Metadata": 1 + n_links + len(CLIENTS), "TotalAck": n_links, "TotalProcessed": n_links}
    (_, _, _), (round_, _, _) = ALONE
    found = sent(result, "ginger", round_, MEANWHILE[0][0] - 1)
    assert {kind: found[kind] for kind in expected} == expected


def test_a_publication_that_repositories_store(result: Result) -> None:
    """Over multicast links: sections 3 and 4."""
    (round_, at, _), (next_round, _, _) = ALONE
    expected = {
        "Message": crossed(at, [*CLIENTS, *SERVERS]),
        "P2R-Order": crossed(at, SERVERS),
        "R2P-ACK": crossed(STEERED[at], [at]),
        "R2S*-Persistent": sum(
            crossed(server, [client for client, of in STEERED.items() if of == server]) for server in SERVERS
        ),
        "S2R-ACK": sum(crossed(client, SERVERS) for client in CLIENTS),
        "R2S-Sync": sum(crossed(server, [client]) for client, server in STEERED.items()),
    }
    found = sent(result, "repository", round_, next_round - 1)
    assert {kind: found[kind] for kind in expected} == expected
