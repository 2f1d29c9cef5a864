"""Meshes, heartbeats and gossip do what the specification says, and cost what closed forms say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest

from pipelines.protocols.gossipsub import GossipSubSettings
from udfs.gossipsub import GossipSub, is_outbound
from udfs.nodes.context import Context
from udfs.nodes.local import LocalNetwork
from udfs.nodes.network import HistoryRows, Strike
from udfs.nodes.world import Flight, NodeInfo

TOPIC = "t"
HEARTBEAT = 20
LATE = 10 * HEARTBEAT
"""A round in which the meshes of nodes that have subscribed in round 0 have settled."""
LONG = 60 * HEARTBEAT
NO_MESH = {"d": 0, "d_lo": 0, "d_hi": 0, "d_out": 0}
ALL = tuple(range(1000))


def network(
    of: nx.Graph, *, latency: int = 1, subscribers: Collection[int] | None = None, strike: Strike | None = None,
    program: type[GossipSub] = GossipSub, **settings: Any,
) -> LocalNetwork:  # fmt: skip
    """Returns a network whose nodes, or some of them, subscribe in round 0; nobody relays unless settings say so."""
    seed = settings.pop("seed", 0)
    given = GossipSubSettings(**{"relay": False, "heartbeat_rounds": HEARTBEAT, **settings}).model_dump()
    nodes = [NodeInfo(node, f"N{node}", "broker") for node in sorted(of)]
    links = {(a, b): of.edges[a, b].get("latency", latency) for a, b in of.edges}
    made = LocalNetwork(program, nodes=nodes, links=links, settings={**given, "seed": seed}, strike=strike)
    for node in sorted(of) if subscribers is None else subscribers:
        made.call(node, "subscribe", 0, subscription_id=node, topic=TOPIC)
    return made


def published(made: LocalNetwork, at: int = 0, round_: int = LATE, *others: int) -> HistoryRows:
    """Returns the rows of a network in which nodes publish in a round."""
    for node in (at, *others):
        made.call(node, "publish", round_, topic=TOPIC, matches=ALL)
    return made.play(LONG)


def mesh(made: LocalNetwork) -> dict[int, set[int]]:
    """Returns the mesh of each node."""
    return {node: set(one.topic_of(TOPIC).mesh) for node, one in made.up.items()}


def sent(rows: HistoryRows, kind: str) -> list[Flight]:
    return [one for one in rows.handled if one.kind == kind]


def latencies(rows: HistoryRows) -> dict[int, int]:
    assert len({node for node, _, _ in rows.delivered}) == len(rows.delivered)
    return {node: one.latency_rounds for node, _, one in rows.delivered}


def loses(src: int | None, dst: int, *kinds: str) -> Strike:
    """Returns a fault of links: messages of some kinds to a node, or from one to it, are lost."""

    def strike(flights: list[Flight]) -> list[Flight]:
        return [
            one._replace(fate="lost_link") if one.dst == dst and one.kind in kinds and src in (None, one.src) else one
            for one in flights
        ]

    return strike


@pytest.mark.parametrize("seed", range(12))
def test_where_the_mesh_is_the_overlay_copies_are_those_of_flooding(seed: int) -> None:
    """No node has more than D_lo neighbours: 2|E| - (n - 1) copies, and latency is depth."""
    of = nx.random_regular_graph(4, 8 + seed, seed=seed)
    made = network(of, latency=3, flood_publish=False, seed=seed)
    rows = published(made)
    assert mesh(made) == {node: set(of[node]) for node in of}
    n, n_links = len(of), of.number_of_edges()
    fates = Counter(one.fate for one in sent(rows, "PUB"))
    assert fates == {"delivered": n - 1, "duplicate": 2 * n_links - 2 * (n - 1)}
    assert latencies(rows) == {node: 3 * depth for node, depth in nx.single_source_shortest_path_length(of, 0).items()}
    assert sent(rows, "IHAVE") == []


@pytest.mark.parametrize("is_flooded", [False, True], ids=["mesh", "flood publishing"])
@pytest.mark.parametrize("seed", range(8))
def test_eager_copies_on_a_part_of_the_overlay(seed: int, is_flooded: bool) -> None:
    """With mesh M of m links, a publisher with d neighbours of which k are in its mesh.

    Over the mesh alone: 2m - (n - 1). With flood publishing all d get it from the publisher: 2m - (n - 1) + 2(d - k).
    """
    of = nx.random_regular_graph(14, 40, seed=seed)
    made = network(of, flood_publish=is_flooded, seed=seed)
    rows = published(made)
    found = nx.Graph([(node, peer) for node, peers in mesh(made).items() for peer in peers])
    assert all(set(found[node]) == peers for node, peers in mesh(made).items())
    extra = 2 * (14 - len(found[0])) if is_flooded else 0
    assert len(sent(rows, "PUB")) == 2 * found.number_of_edges() - (len(of) - 1) + extra
    if is_flooded:
        found.add_edges_from((0, peer) for peer in of[0])
    assert latencies(rows) == nx.single_source_shortest_path_length(found, 0)


@pytest.mark.parametrize("seed", range(6))
def test_mesh_degrees_stay_within_their_bounds(seed: int) -> None:
    """D_lo to D_hi at all nodes, D_out of them outbound, and a node passes on at most D_hi - 1 copies."""
    of = nx.random_regular_graph(18, 60, seed=seed)
    made = network(of, seed=seed)
    rows = published(made)
    for node, peers in mesh(made).items():
        assert 4 <= len(peers) <= 12
        assert sum(is_outbound(node, peer) for peer in peers) >= 2
    passed_on = Counter(one.src for one in sent(rows, "PUB") if one.src != 0)
    assert max(passed_on.values()) <= 12 - 1
    assert made.next_round is None


def test_of_two_ends_one_has_opened_the_connection() -> None:
    for a in range(20):
        for b in range(20):
            assert a == b or is_outbound(a, b) != is_outbound(b, a)
    assert {sum(is_outbound(a, b) for b in range(20) if a != b) for a in range(20)} <= {9, 10}


def test_gossip_alone_takes_a_heartbeat_and_three_ways_a_hop() -> None:
    """Without any mesh: IHAVE at the heartbeat, IWANT, REPLY."""
    made = network(nx.path_graph(4), latency=2, flood_publish=False, **NO_MESH)
    rows = published(made)
    assert sent(rows, "PUB") == sent(rows, "GRAFT") == []
    rounds = {node: round_ for node, round_, _ in rows.delivered}
    assert rounds[0] == LATE
    for node in (1, 2, 3):
        first = min(one.sent_round for one in sent(rows, "IHAVE") if (one.src, one.dst) == (node - 1, node))
        assert rounds[node - 1] < first <= rounds[node - 1] + HEARTBEAT
        assert rounds[node] == first + 3 * 2
    assert {one.hops for _, _, one in rows.delivered} == {0, 1, 2, 3}


def test_a_publication_is_gossiped_about_in_history_gossip_heartbeats() -> None:
    rows = published(network(nx.path_graph(2), flood_publish=False, **NO_MESH))
    rounds = [one.sent_round for one in sent(rows, "IHAVE") if one.src == 0]
    assert [later - earlier for earlier, later in pairwise(rounds)] == [HEARTBEAT] * 2
    assert len(sent(rows, "IWANT")) == len(sent(rows, "REPLY")) == 1


def test_what_the_mesh_loses_gossip_brings() -> None:
    """Every PUB to node 9 is lost; neighbours outside its mesh tell it."""
    of = nx.random_regular_graph(10, 20, seed=3)
    made = network(of, flood_publish=False, strike=loses(None, 9, "PUB"))
    rows = published(made)
    assert len(latencies(rows)) == 20
    (reply,) = [one for one in sent(rows, "REPLY") if one.dst == 9 and one.fate is not None][:1]
    assert reply.src not in mesh(made)[9]
    assert 0 < latencies(rows)[9] <= HEARTBEAT + 10
    assert {one.fate for one in sent(rows, "PUB") if one.dst == 9} == {"lost_link"}


def test_a_lost_reply_is_asked_for_again_at_the_next_heartbeat() -> None:
    lost = list[Flight]()

    def strike(flights: list[Flight]) -> list[Flight]:
        lost.extend(one for one in flights if one.kind == "REPLY" and len(lost) < 1)
        return [one._replace(fate="lost_link") if one in lost else one for one in flights]

    rows = published(network(nx.path_graph(2), flood_publish=False, strike=strike, **NO_MESH))
    assert [one.fate for one in sent(rows, "REPLY")] == ["lost_link", "delivered"]
    assert latencies(rows)[1] > HEARTBEAT


def test_the_cache_ends_after_history_length_heartbeats() -> None:
    """The way there and back takes longer than the cache lasts: nothing answers the IWANT."""
    settings = {"history_length": 2, "history_gossip": 1, "flood_publish": False, **NO_MESH}
    slow = published(network(nx.path_graph(2), latency=HEARTBEAT, **settings))
    assert len(sent(slow, "IWANT")) == 1
    assert sent(slow, "REPLY") == []
    fast = published(network(nx.path_graph(2), latency=HEARTBEAT // 2 - 1, **settings))
    assert len(sent(fast, "REPLY")) == 1


def test_a_full_mesh_refuses_inbound_grafts_and_prunes_outbound_ones_at_the_heartbeat() -> None:
    """The hub of a star: its mesh never has more than D_hi inbound neighbours, and D after its heartbeat."""
    of = nx.star_graph(30)
    made = network(of, subscribers=[0], d_out=2)
    for leaf in range(1, 31):
        made.call(leaf, "subscribe", 5, subscription_id=leaf, topic=TOPIC)
    rows = made.play(6)
    inbound = [leaf for leaf in range(1, 31) if not is_outbound(0, leaf)]
    assert len(mesh(made)[0]) == 12 + sum(is_outbound(0, leaf) for leaf in range(13, 31))
    refused = {one.dst for one in made.in_flight if one.kind == "PRUNE"}
    assert refused == {leaf for leaf in inbound if leaf > 12}
    rows = made.play(LATE)
    after = mesh(made)[0]
    assert len(after) == 6
    assert sum(is_outbound(0, leaf) for leaf in after) >= 2
    pruned = {one.dst for one in sent(rows, "PRUNE") if one.src == 0}
    assert pruned == set(range(1, 31)) - after
    for leaf in pruned:
        assert made.node(leaf).topic_of(TOPIC).mesh == set()


def test_nobody_grafts_within_the_backoff() -> None:
    """A leaf that was refused asks again after the backoff and one heartbeat, and is refused again."""
    made = network(nx.star_graph(20), prune_backoff=3, d=2, d_lo=1, d_hi=2, d_out=0)
    rows = made.play(LONG)
    hub = mesh(made)[0]
    (leaf, *_) = (one for one in range(1, 21) if one not in hub and not is_outbound(0, one))
    asked = [one.sent_round for one in sent(rows, "GRAFT") if (one.src, one.dst) == (leaf, 0)]
    refused = [one.due_round for one in sent(rows, "PRUNE") if (one.src, one.dst) == (0, leaf)]
    assert len(asked) > 5
    for told, again in zip(refused, asked[1:], strict=False):
        assert told + 4 * HEARTBEAT <= again < told + 5 * HEARTBEAT


def test_a_graft_within_the_backoff_is_pruned_and_extends_it() -> None:
    class Hasty(GossipSub):
        """Grafts again at once where it was pruned."""

        def on_prune(self, m: Any, src: int, ctx: Context) -> None:
            super().on_prune(m, src, ctx)
            if ctx.round < LATE:
                self._graft(self.topic_of(TOPIC), [src], ctx)

    settings = {"d": 1, "d_lo": 1, "d_hi": 1, "d_out": 0, "prune_backoff": 2, "unsubscribe_backoff": 1}
    made = network(nx.path_graph(2), program=Hasty, **settings)
    made.call(0, "unsubscribe", 40, subscription_id=0)
    made.call(0, "subscribe", 41, subscription_id=2, topic=TOPIC)
    rows = made.play(81)
    pruned = [one.sent_round for one in sent(rows, "PRUNE") if one.src == 0]
    assert pruned[:3] == [40, 42, 44]
    assert made.node(0).topic_of(TOPIC).backoff[1] == pruned[-1] + 2 * HEARTBEAT


def test_leaving_prunes_the_mesh_and_rejoining_waits_for_the_unsubscribe_backoff() -> None:
    made = network(nx.path_graph(3), unsubscribe_backoff=3)
    made.call(1, "unsubscribe", 50, subscription_id=1)
    made.call(1, "subscribe", 52, subscription_id=9, topic=TOPIC)
    rows = made.play(60)
    assert {(one.dst, one.sent_round) for one in sent(rows, "PRUNE")} == {(0, 50), (2, 50)}
    assert [one.message.is_joined for one in sent(rows, "ANNOUNCE") if one.src == 1 and one.dst == 0] == [
        True, False, True
    ]  # fmt: skip
    assert mesh(made) == {0: set(), 1: set(), 2: set()}
    later = made.play(LONG)
    assert min(one.sent_round for one in sent(later, "GRAFT")) >= 50 + 4 * HEARTBEAT
    assert mesh(made) == {0: {1}, 1: {0, 2}, 2: {1}}


def test_rejoining_grafts_no_neighbour_of_the_fanout_within_its_backoff() -> None:
    """Node 1 leaves in round 50 and publishes in round 51, so its fanout has the two neighbours that it has pruned."""
    made = network(nx.path_graph(3), unsubscribe_backoff=3, flood_publish=False)
    made.call(1, "unsubscribe", 50, subscription_id=1)
    made.call(1, "publish", 51, topic=TOPIC, matches=ALL)
    made.call(1, "subscribe", 52, subscription_id=9, topic=TOPIC)
    made.play(51)
    assert made.node(1).topic_of(TOPIC).fanout == {0, 2}
    rows = made.play(LONG)
    assert min(one.sent_round for one in sent(rows, "GRAFT")) >= 50 + 4 * HEARTBEAT
    assert mesh(made) == {0: {1}, 1: {0, 2}, 2: {1}}


def test_a_publisher_that_has_not_joined_keeps_a_fanout() -> None:
    """D neighbours, the same for each publication, until fanout_ttl heartbeats after the last one."""
    of = nx.star_graph(20)
    made = network(of, subscribers=range(1, 21), flood_publish=False, fanout_ttl=4, relay=False)
    for round_ in (LATE, LATE + 30):
        made.call(0, "publish", round_, topic=TOPIC, matches=ALL)
    rows = made.play(LATE + 31)
    by_round = {
        round_: {one.dst for one in [*sent(rows, "PUB"), *made.in_flight] if one.sent_round == round_}
        for round_ in (LATE, LATE + 30)
    }
    assert len(by_round[LATE]) == 6
    assert by_round[LATE] == by_round[LATE + 30] == made.node(0).topic_of(TOPIC).fanout
    made.play(LATE + 30 + 3 * HEARTBEAT)
    assert made.node(0).topic_of(TOPIC).fanout
    made.play(LATE + 30 + 5 * HEARTBEAT)
    assert not made.node(0).topic_of(TOPIC).fanout


def test_who_joins_grafts_its_fanout_first() -> None:
    made = network(nx.star_graph(20), subscribers=range(1, 21), flood_publish=False)
    made.call(0, "publish", LATE, topic=TOPIC, matches=ALL)
    made.call(0, "subscribe", LATE + 5, subscription_id=0, topic=TOPIC)
    made.play(LATE + 4)
    fanout = set(made.node(0).topic_of(TOPIC).fanout)
    made.play(LATE + 5)
    assert mesh(made)[0] == fanout
    assert len(fanout) == 6


def test_flood_publishing_uses_no_fanout_and_no_gossip() -> None:
    made = network(nx.star_graph(20), subscribers=range(1, 21))
    rows = published(made)
    assert len(sent(rows, "PUB")) == 20
    assert sent(rows, "IHAVE") == []
    assert not made.node(0).topic_of(TOPIC).fanout


def test_gossip_goes_to_d_lazy_neighbours_or_to_a_share_of_them() -> None:
    few = published(network(nx.complete_graph(16), **NO_MESH))
    many = published(network(nx.complete_graph(61), **NO_MESH))
    for rows, n in ((few, 6), (many, 60 // 4)):
        by_round = Counter((one.src, one.sent_round) for one in sent(rows, "IHAVE"))
        assert set(by_round.values()) == {n}


def test_brokers_relay_and_clients_do_not() -> None:
    """The client in the middle gets nothing that it has not subscribed to."""
    of = nx.path_graph(4)
    nodes = [NodeInfo(node, f"N{node}", "client" if node in (0, 3) else "broker") for node in of]
    given = GossipSubSettings(heartbeat_rounds=HEARTBEAT).model_dump()
    made = LocalNetwork(GossipSub, nodes=nodes, links=dict.fromkeys(of.edges, 1), settings={**given, "seed": 0})
    made.call(0, "subscribe", 0, subscription_id=0, topic=TOPIC)
    made.call(2, "publish", LATE, topic=TOPIC, matches=(0,))
    rows = made.play(LONG)
    assert [(node, round_) for node, round_, _ in rows.delivered] == [(0, LATE + 2)]
    assert {(one.src, one.dst) for one in sent(rows, "PUB")} == {(2, 1), (1, 0)}
    assert mesh(made) == {0: {1}, 1: {0, 2}, 2: {1}, 3: set()}


def test_neighbours_forget_who_crashes_and_graft_who_recovers() -> None:
    of = nx.cycle_graph(5)
    made = network(of, detection_rounds=3)
    made.crash(2, LATE, LATE + 100)
    rows = made.play(LATE + 50)
    assert mesh(made) == {0: {1, 4}, 1: {0}, 3: {4}, 4: {0, 3}}
    assert 2 not in made.node(1).topic_of(TOPIC).peers
    rows = made.play(LONG)
    assert mesh(made) == {node: set(of[node]) for node in of}
    assert len(sent(rows, "HELLO")) == 2
    assert set(made.node(2).subscription) == {2}


def test_who_is_back_before_its_crash_is_detected_is_taken_as_new() -> None:
    of = nx.cycle_graph(5)
    made = network(of, detection_rounds=40, latency=3)
    made.crash(2, LATE, LATE + 2)
    rows = made.play(LONG)
    assert mesh(made) == {node: set(of[node]) for node in of}
    assert {one.fate for one in sent(rows, "NODE_DOWN")} <= {"lost_crash"}


@pytest.mark.parametrize("seed", range(4))
def test_heartbeats_with_nothing_to_do_are_left_out(seed: int) -> None:
    """A program whose heartbeat is never left out has the same messages and deliveries."""

    class Restless(GossipSub):
        """Has a heartbeat in every interval."""

        def on_round_end(self, ctx: Context) -> None:
            topic = self.topic_of("idle")
            topic.fanout, topic.fanout_end = {-1}, ctx.round + 1
            super().on_round_end(ctx)
            topic.fanout = set()

    rows = list[HistoryRows]()
    beats = list[int]()
    draw = random.Random(seed)
    of = nx.random_regular_graph(9, 20, seed=seed)
    calls = [(draw.randrange(20), draw.randrange(30, 300)) for _ in range(6)]
    for program in (GossipSub, Restless):
        made = network(of, program=program, d=3, d_lo=2, d_hi=4, d_out=1, flood_publish=False, seed=seed, d_lazy=1)
        for at, round_ in calls:
            made.call(at, "publish", round_, topic=TOPIC, matches=ALL)
        made.crash(4, 100, 160)
        rows.append(made.play(LONG))
        beats.append(sum(map(len, made.timers.values())))
    keys = [[one[:7] for one in of_program.handled] for of_program in rows]
    assert keys[0] == keys[1]
    assert rows[0].delivered == rows[1].delivered
    assert beats[0] < beats[1] == 20


def test_a_publication_is_forgotten_after_seen_ttl_heartbeats() -> None:
    """Its caches are empty then, and a copy that comes later is delivered again."""
    copies = list[Flight]()

    def strike(flights: list[Flight]) -> list[Flight]:
        copies.extend(one for one in flights if one.kind == "PUB")
        late = [one._replace(message_id=one.message_id + 1, due_round=one.due_round + 6 * HEARTBEAT) for one in copies]
        return [*flights, *(late if any(one.kind == "PUB" for one in flights) else ())]

    made = network(nx.path_graph(2), seen_ttl=6, history_length=5, strike=strike)
    rows = published(made)
    assert [(node, round_) for node, round_, _ in rows.delivered] == [
        (0, LATE), (1, LATE + 1), (1, LATE + 1 + 6 * HEARTBEAT)
    ]  # fmt: skip
