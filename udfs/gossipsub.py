"""Protocol ``gossipsub``: libp2p's pubsub over topic meshes, specification v1.1 without scores (rules S1 to S20).

The README of the protocol defines the terms and the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.hashing import xxhash64
from udfs.nodes.program import SeenPublication, SubscribingNode, keyed
from udfs.nodes.records import message, record
from udfs.nodes.world import World


class MessageId(NamedTuple):
    """The id of a publication: its publisher, and the number of the publish call among the publisher's calls."""

    source: int
    source_seq: int


@record(key="topic")
class GossipTopic:
    """A topic that a node has joined, or that a neighbour has announced to the node."""

    topic: Annotated[str, "name of the topic"]
    is_joined: Annotated[bool, "whether the node has joined the topic"]
    peers: Annotated[set[int], "neighbours that have announced the topic"]
    mesh: Annotated[set[int], "neighbours in the node's mesh of the topic"]
    fanout: Annotated[set[int], "neighbours that get the node's publications while the node has not joined the topic"]
    fanout_end: Annotated[int, "round in which the fanout ends; a publication of the node on the topic postpones it"]
    backoff: Annotated[
        dict[int, int], "backoff of neighbours: for each, the first round in which the node may graft it again"
    ]

    def forget(self, peer: int) -> None:
        """Removes neighbour `peer`, which has left the topic or crashed. The backoff of the neighbour stays."""
        for peers in (self.peers, self.mesh, self.fanout):
            peers.discard(peer)

    def leave_mesh(self, peer: int, until: int) -> None:
        """Removes neighbour `peer` from the mesh.

        The neighbour may not be grafted again before round `until` (backoff).
        """
        self.mesh.discard(peer)
        self.backoff[peer] = max(self.backoff.get(peer, 0), until)


@record(key="topic")
class Relayed:
    """A topic that a node has joined as a relay, without a subscription."""

    topic: Annotated[str, "name of the topic"]


@message("HELLO")
class Hello:
    """The announcement of a node to its neighbours that it has recovered."""

    topics: Annotated[tuple[str, ...], "topics that the sender has joined"]


@message()
class OfTopic:
    """The base class of messages about a topic."""

    topic: Annotated[str, "name of the topic"]


@message("ANNOUNCE")
class Announce(OfTopic):
    """The announcement that the sender joins or leaves a topic."""

    is_joined: Annotated[bool, "true: the sender joins; false: the sender leaves"]


@message("GRAFT")
class Graft(OfTopic):
    """The notice that the sender has added the receiver to the sender's mesh."""


@message("PRUNE")
class Prune(OfTopic):
    """The notice that the sender has removed the receiver from the sender's mesh, or rejects a GRAFT."""

    backoff_rounds: Annotated[int, "rounds in which neither node grafts the other"]


@message("IHAVE")
class IHave(OfTopic):
    """The ids of recent publications in the sender's cache (gossip)."""

    ids: Annotated[tuple[MessageId, ...], "ids of the publications"]


@message("IWANT")
class IWant:
    """A request for publications that the sender lacks."""

    ids: Annotated[tuple[MessageId, ...], "ids of the publications"]


@message("PUB", hidden="issued_round,matches")
class TopicCopy:
    """A copy of a publication that a node pushes to its mesh, its fanout or all peers."""

    source: Annotated[int, "id of the publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    hops: Annotated[int, "number of links from the publisher to the receiver"]
    topic: Annotated[str, "topic of the publication"]
    issued_round: Annotated[int, "round of the publish call"]
    matches: Annotated[tuple[int, ...], "ids of the subscriptions whose predicate the publication satisfies"]


@message("REPLY", hidden="issued_round,matches")
class Reply(TopicCopy):
    """A copy of a publication that answers an IWANT."""


@record(key="source,source_seq")
class Cached:
    """A publication in the message cache."""

    source: Annotated[int, "id of the publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    age: Annotated[int, "number of heartbeats of the node since the publication arrived"]
    publication: Annotated[TopicCopy, "the first copy of the publication"]


def is_outbound(node: int, peer: int) -> bool:
    """Returns whether `node` opened the connection to `peer`.

    The node with the lower id opened the connection if the sum of the two ids is even, and the other node otherwise.
    """
    return (node < peer) == ((node + peer) % 2 == 0)


class GossipSub(SubscribingNode):
    """A node of the overlay: a peer in the terms of libp2p."""

    messages = (Hello, Announce, Graft, Prune, IHave, IWant, TopicCopy, Reply)
    relayed = keyed(Relayed, is_durable=True)
    topic = keyed(GossipTopic)
    seen = keyed(SeenPublication)
    cached = keyed(Cached)

    @classmethod
    def start(cls, world: World) -> None:
        """Connects all neighbours. Each relay joins all topics, and its neighbours record the relay as a peer (S2)."""
        topics = sorted({call.topic for of_node in world.calls.values() for call in of_node if call.topic is not None})
        relays = {at for at, node in world.nodes.items() if world.settings["relay"] and node.role == "broker"}
        for at in world.nodes:
            program, ctx = world.program(at), world.context(at)
            for peer in ctx.neighbours:
                _watch(peer, ctx)
            for name in topics:
                topic = program.topic_of(name)
                topic.peers = relays & ctx.neighbours.keys()
                if at in relays:
                    program.relayed[name] = Relayed(name)
                    program.join(topic, ctx)
            program.on_round_end(ctx)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Adds a subscription. With its first subscription on a topic the node announces and joins the topic (S3)."""
        super().call_subscribe(call, ctx)
        topic = self.topic_of(str(call.topic))
        if not topic.is_joined:
            _send(Announce(topic.topic, is_joined=True), ctx.neighbours, ctx)
            self.join(topic, ctx)

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Removes a subscription. With its last subscription on a topic a node leaves the topic (rule S4)."""
        ended = self.subscription.get(call.subscription_id)
        super().call_unsubscribe(call, ctx)
        if ended is not None and ended.topic not in self._wanted_topics():
            topic = self.topic_of(str(ended.topic))
            topic.is_joined = False
            self._prune(topic, sorted(topic.mesh), "unsubscribe_backoff", ctx)
            _send(Announce(topic.topic, is_joined=False), ctx.neighbours, ctx)

    def join(self, topic: GossipTopic, ctx: Context) -> None:
        """Joins a topic: grafts D peers that have no backoff. Peers in the fanout come first (rules S3 and S11)."""
        topic.is_joined = True
        candidates, d = self._candidates(topic, ctx), ctx.settings["d"]
        self._graft(topic, _drawn("join", topic, candidates & topic.fanout, d, ctx), ctx)
        self._graft(topic, _drawn("join", topic, candidates - topic.fanout, d - len(topic.mesh), ctx), ctx)
        topic.fanout = set()

    def on_announce(self, m: Announce, src: int, ctx: Context) -> None:
        """ANNOUNCE: adds the sender to the peers of the topic, or removes the sender from them."""
        topic = self.topic_of(m.topic)
        if m.is_joined:
            topic.peers.add(src)
        else:
            topic.forget(src)

    def on_recover(self, ctx: Context) -> None:
        """Connects to all neighbours again, and joins the topics of the node's subscriptions (rule S5)."""
        for peer in ctx.neighbours:
            _watch(peer, ctx)
        for name in self._wanted_topics():
            self.topic_of(name).is_joined = True
        _send(Hello(self._wanted_topics()), ctx.neighbours, ctx)

    def on_hello(self, m: Hello, src: int, ctx: Context) -> None:
        """HELLO: treats the recovered sender as a new neighbour, and announces this node's topics to it (rule S5)."""
        self.on_down(src, ctx)
        _watch(src, ctx)
        for name in m.topics:
            self.topic_of(name).peers.add(src)
        for name in self._wanted_topics():
            ctx.send(src, Announce(name, is_joined=True))

    def on_down(self, peer: int, ctx: Context) -> None:
        """Crash report: removes the crashed neighbour `peer` from all topics (rule S5)."""
        for topic in self.topic.values():
            topic.forget(peer)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Sends the publication to all peers of the topic, to the mesh, or to the fanout (rules S6 to S8)."""
        topic = self.topic_of(str(call.topic))
        m = TopicCopy(ctx.node, call.source_seq, 0, topic.topic, call.round, call.matches)
        self._take(m, topic, ctx)
        to = topic.peers if ctx.settings["flood_publish"] else topic.mesh
        if not (topic.is_joined or ctx.settings["flood_publish"]):
            to = topic.fanout = topic.fanout or set(_drawn("fanout", topic, topic.peers, ctx.settings["d"], ctx))
            topic.fanout_end = ctx.round + ctx.settings["fanout_ttl"] * ctx.settings["heartbeat_rounds"]
        _send(_onward(m), sorted(to), ctx)

    def on_pub(self, m: TopicCopy, src: int, ctx: Context) -> None:
        """PUB, REPLY: delivers and caches a new publication, and forwards it over the mesh (rule S9)."""
        topic = self.topic_of(m.topic)
        if self._has_seen((m.source, m.source_seq), ctx):
            ctx.drop()
        elif topic.is_joined:
            self._take(m, topic, ctx)
            _send(_onward(m), sorted(topic.mesh - {src, m.source}), ctx)

    on_reply = on_pub

    def _take(self, m: TopicCopy, topic: GossipTopic, ctx: Context) -> None:
        self.seen[m.source, m.source_seq] = SeenPublication(m.source, m.source_seq, ctx.round)
        if topic.is_joined or not ctx.settings["flood_publish"]:
            self.cached[m.source, m.source_seq] = Cached(m.source, m.source_seq, 0, m)
        if self.is_subscribed(m.matches):
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)

    def on_ihave(self, m: IHave, src: int, ctx: Context) -> None:
        """IHAVE: requests the listed publications that the node lacks, if it has joined the topic (rule S15)."""
        lacking = tuple(one for one in m.ids if not self._has_seen(one, ctx))
        if lacking and self.topic_of(m.topic).is_joined:
            ctx.send(src, IWant(lacking))

    def on_iwant(self, m: IWant, src: int, ctx: Context) -> None:
        """IWANT: answers with a REPLY for each requested publication that is in the cache (rule S16)."""
        for key in m.ids:
            if key in self.cached:
                ctx.send(src, _onward(self.cached[key].publication, Reply))

    def on_graft(self, m: Graft, src: int, ctx: Context) -> None:
        """GRAFT: adds the sender to the mesh, or rejects the sender with a PRUNE (rule S10)."""
        topic = self.topic_of(m.topic)
        if not topic.is_joined or src in topic.mesh:
            return
        may_enter = len(topic.mesh) < ctx.settings["d_hi"] or is_outbound(ctx.node, src)
        if topic.backoff.get(src, 0) > ctx.round or not may_enter:
            self._prune(topic, [src], "prune_backoff", ctx)
        else:
            topic.mesh.add(src)

    def on_prune(self, m: Prune, src: int, ctx: Context) -> None:
        """PRUNE: removes the sender from the mesh, and sets the sender's backoff (rule S11)."""
        self.topic_of(m.topic).leave_mesh(src, ctx.round + m.backoff_rounds)

    def _graft(self, topic: GossipTopic, peers: Iterable[int], ctx: Context) -> None:
        chosen = sorted(peers)
        topic.mesh.update(chosen)
        _send(Graft(topic.topic), chosen, ctx)

    def _prune(self, topic: GossipTopic, peers: Iterable[int], backoff: str, ctx: Context) -> None:
        rounds = ctx.settings[backoff] * ctx.settings["heartbeat_rounds"]
        for peer in peers:
            topic.leave_mesh(peer, ctx.round + rounds)
            ctx.send(peer, Prune(topic.topic, rounds))

    def _candidates(self, topic: GossipTopic, ctx: Context) -> set[int]:
        """Returns the peers outside the mesh that the node may graft in this round (see `_graft_round`)."""
        return {peer for peer in topic.peers - topic.mesh if _graft_round(topic, peer, ctx) <= ctx.round}

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Does nothing: `on_round_end` runs the heartbeat, after all events of the round."""

    def _heartbeat(self, ctx: Context) -> None:
        """Repairs meshes and fanouts, sends gossip, and drops old publications from the cache (S12 to S14, S17)."""
        for topic in self.topic.values():
            if topic.is_joined:
                self._repair_mesh(topic, ctx)
                self._gossip(topic, topic.mesh, ctx)
            elif ctx.round >= topic.fanout_end:
                topic.fanout = set()
            elif topic.fanout:
                others, n_lacking = topic.peers - topic.fanout, ctx.settings["d"] - len(topic.fanout)
                topic.fanout.update(_drawn("fanout", topic, others, n_lacking, ctx))
                self._gossip(topic, topic.fanout, ctx)
        for cached in self.cached.values():
            cached.age += 1
        self.cached = {key: at for key, at in self.cached.items() if at.age < ctx.settings["history_length"]}
        self.seen = {key: at for key, at in self.seen.items() if self._has_seen(key, ctx)}

    def _repair_mesh(self, topic: GossipTopic, ctx: Context) -> None:
        """Grafts or prunes neighbours until the mesh has about D neighbours, at least D_out of them outbound (S12)."""
        d, d_lo, d_hi, d_out = (ctx.settings[name] for name in ("d", "d_lo", "d_hi", "d_out"))
        if len(topic.mesh) < d_lo:
            self._graft(topic, _drawn("graft", topic, self._candidates(topic, ctx), d - len(topic.mesh), ctx), ctx)
        if len(topic.mesh) > d_hi:
            order = _drawn("prune", topic, topic.mesh, len(topic.mesh), ctx)
            outbound = [peer for peer in order if is_outbound(ctx.node, peer)][:d_out]
            others = [peer for peer in order if peer not in outbound]
            self._prune(topic, sorted(others[d - len(outbound) :]), "prune_backoff", ctx)
        n_lacking = d_out - sum(is_outbound(ctx.node, peer) for peer in topic.mesh)
        if len(topic.mesh) >= d_lo and n_lacking > 0:
            outbound = [peer for peer in self._candidates(topic, ctx) if is_outbound(ctx.node, peer)]
            self._graft(topic, _drawn("outbound", topic, outbound, n_lacking, ctx), ctx)

    def _gossip(self, topic: GossipTopic, pushed: set[int], ctx: Context) -> None:
        """Sends IHAVE to randomly chosen peers outside `pushed`, the peers that get publications themselves (rule S14).

        The number of receivers is D_lazy, or ``gossip_factor`` times the number of possible receivers if that is more.
        """
        newest = (one for one in self.cached.values() if one.age < ctx.settings["history_gossip"])
        ids = tuple(MessageId(one.source, one.source_seq) for one in newest if one.publication.topic == topic.topic)
        if ids:
            others = topic.peers - pushed
            n_told = max(ctx.settings["d_lazy"], int(ctx.settings["gossip_factor"] * len(others)))
            _send(IHave(topic.topic, ids), sorted(_drawn("gossip", topic, others, n_told, ctx)), ctx)

    def on_round_end(self, ctx: Context) -> None:
        """Runs the heartbeat if it is due. Sets the timer to the next heartbeat that has an effect (rule S18)."""
        phase, interval = xxhash64(ctx.settings["seed"], ctx.node), ctx.settings["heartbeat_rounds"]
        if (phase - ctx.round) % interval == 0:
            self._heartbeat(ctx)
        works = [0] if self.cached else [at for topic in self.topic.values() for at in _effective_rounds(topic, ctx)]
        ctx.cancel_timer("heartbeat")
        if works:
            first = max(min(works), ctx.round + 1)
            ctx.set_timer("heartbeat", rounds=first + (phase - first) % interval - ctx.round)

    def topic_of(self, name: str) -> GossipTopic:
        """Returns the node's state of topic `name`, and creates the state if necessary."""
        return self.topic.setdefault(name, GossipTopic(name, False, set(), set(), set(), 0, {}))

    def _wanted_topics(self) -> tuple[str, ...]:
        return tuple(sorted({str(one.topic) for one in self.subscription.values()} | {*self.relayed}))

    def _has_seen(self, key: tuple[int, int], ctx: Context) -> bool:
        found, ttl = self.seen.get(key), ctx.settings["seen_ttl"] * ctx.settings["heartbeat_rounds"]
        return found is not None and ctx.round < found.round + ttl


def _effective_rounds(topic: GossipTopic, ctx: Context) -> Iterator[int]:
    """Yields the first round in which a heartbeat has an effect, for each possible change of the mesh or fanout.

    A round of 0 stands for the next heartbeat.
    """
    d, d_lo, d_hi, d_out = (ctx.settings[name] for name in ("d", "d_lo", "d_hi", "d_out"))
    if topic.is_joined:
        lacks_outbound = sum(is_outbound(ctx.node, peer) for peer in topic.mesh) < d_out
        if len(topic.mesh) > d_hi:
            yield 0
        for peer in topic.peers - topic.mesh:
            if len(topic.mesh) < d_lo or (lacks_outbound and is_outbound(ctx.node, peer)):
                yield _graft_round(topic, peer, ctx)
    elif topic.fanout:
        can_grow = len(topic.fanout) < d and topic.peers - topic.fanout
        yield 0 if can_grow else topic.fanout_end


def _graft_round(topic: GossipTopic, peer: int, ctx: Context) -> int:
    """Returns the first round in which `peer` may be grafted: one heartbeat interval after the end of its backoff.

    Returns -1 if `peer` has no backoff.
    """
    return topic.backoff[peer] + int(ctx.settings["heartbeat_rounds"]) if peer in topic.backoff else -1


def _drawn(purpose: str, topic: GossipTopic, among: Iterable[int], count: int, ctx: Context) -> list[int]:
    """Returns up to `count` peers of `among`, drawn at random. Draws for different purposes are independent."""
    return sorted(among, key=lambda peer: (ctx.draw(f"{purpose} {topic.topic}", peer), peer))[: max(0, count)]


def _onward(m: TopicCopy, kind: type[TopicCopy] = TopicCopy) -> TopicCopy:
    return kind(m.source, m.source_seq, m.hops + 1, m.topic, m.issued_round, m.matches)


def _watch(peer: int, ctx: Context) -> None:
    """Watches neighbour `peer`. Its failure report arrives after its last messages, even on an asymmetric link (S5)."""
    ctx.watch(peer, max(ctx.neighbours[peer], ctx.run.links[peer, ctx.node]))


def _send(m: object, to: Iterable[int], ctx: Context) -> None:
    for peer in to:
        ctx.send(peer, m)
