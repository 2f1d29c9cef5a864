"""The initial state of a run: empty, legitimate, or corrupted by draws from the run's seed (section 1.1).

Setting ``start`` names the part of a legitimate state to corrupt, a key of `CORRUPTIONS`. With ``arbitrary`` all parts
are corrupted. Every node knows the supervisors, so the graph of nodes is weakly connected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from udfs.nodes.calls import SubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.world import World
from udfs.skipring import messages as ms
from udfs.skipring.labels import MAX_BITS, ZERO, Label, chain, label_of
from udfs.skipring.messages import send
from udfs.skipring.state import (
    Contact,
    Crashed,
    Database,
    Interest,
    Neighbour,
    Subscription,
    Supervisor,
    point_of,
    responsible,
    sides,
    topic_of,
)
from udfs.skipring.supervisor import configuration
from udfs.skipring.trie import NodeHash, Publication, Root, Trie, TrieNode, publication_key

T = TypeVar("T")
_LONGEST = 2 * MAX_BITS


class Draws:
    """A sequence of random draws before the first round. It depends on the run's seed and on a node."""

    def __init__(self, ctx: Context) -> None:
        """Starts the sequence of the node that `ctx` belongs to."""
        self._ctx = ctx
        self._count = 0

    def share(self) -> float:
        """Returns a random number in [0, 1)."""
        self._count += 1
        return self._ctx.draw("start", self._count)

    def below(self, bound: int) -> int:
        """Returns a random integer in [0, `bound`)."""
        return int(self.share() * bound)

    def is_in(self, probability: float) -> bool:
        """Returns True with probability `probability`."""
        return self.share() < probability

    def one_of(self, given: Sequence[T]) -> T:
        """Returns a random element of `given`."""
        return given[self.below(len(given))]

    def shuffled(self, given: Sequence[T]) -> list[T]:
        """Returns the elements of `given` in a random order."""
        return [one for _, _, one in sorted((self.share(), index, one) for index, one in enumerate(given))]


@dataclass
class Scene:
    """A topic before the first round, and the random draws that corrupt its state.

    Attributes:
        world: The nodes and settings of the run.
        members: The topic's subscribers, in the order of their labels.
        share: The share of nodes whose label, edges or slots are corrupted.
        is_far: Whether all random labels are long. A subscriber with a long label rarely requests its configuration by
            action (ii).
        numbers: The numbers 0, -1, ... of the publications of the initial state. All topics share them (rule K20).
        published: The publications of the initial state, by number.
    """

    world: World
    topic: str
    members: Sequence[int]
    supervisor: int
    draws: Draws
    share: float
    is_far: bool
    numbers: Iterator[int]
    published: dict[int, Publication] = field(default_factory=dict)

    @property
    def everybody(self) -> list[int]:
        """Ids of all nodes, supervisors included."""
        return list(self.world.nodes)

    def node(self) -> int:
        """Returns the id of a random node."""
        return self.draws.one_of(self.everybody)

    @property
    def nodes(self) -> list[int]:
        """Ids of all nodes except supervisors."""
        return [node for node, info in self.world.nodes.items() if info.role != "supervisor"]

    def own(self, node: int) -> Subscription:
        """Returns the state that `node` has for the topic, and creates it if necessary."""
        kept: dict[str, Subscription] = self.world.program(node).subscription
        return kept.setdefault(self.topic, Subscription(self.topic))

    def label(self) -> Label:
        """Returns a random label, which is invalid with probability 1/16 (rule K21).

        Unless all labels are long, half of the labels have at most four digits.
        """
        if self.draws.is_in(1 / 16):
            return self._invalid_label()
        most = int(self.world.settings["max_label_bits"])
        if self.is_far:
            bits = most - self.draws.below(most // 2)
        else:
            bits = 1 + self.draws.below(most if self.draws.is_in(1 / 2) else 4)
        return ZERO if bits == 1 and self.draws.is_in(1 / 2) else Label(bits, self.draws.below(1 << (bits - 1)) * 2 + 1)

    def _invalid_label(self) -> Label:
        """Returns a label with too many digits, or with a trailing zero."""
        if self.draws.is_in(1 / 2):
            return Label(MAX_BITS + 1 + self.draws.below(_LONGEST - MAX_BITS), self.draws.below(1 << 30) * 2 + 1)
        bits = 2 + self.draws.below(8)
        return Label(bits, self.draws.below(1 << (bits - 1)) * 2)

    def publication(self) -> Publication:
        """Returns a random publication of the initial state: one of `published`, or a new one that is in no trie."""
        if self.published and self.draws.is_in(1 / 2):
            return self.draws.one_of(list(self.published.values()))
        return self.publish(self.node())

    def publish(self, source: int) -> Publication:
        """Returns a new publication of `source` for the initial state, and adds it to `published`."""
        number = next(self.numbers)
        key = publication_key(self.topic, source, number, int(self.world.settings["key_bits"]))
        self.published[number] = Publication(key, source, number, -1)
        return self.published[number]

    def label_or_none(self) -> Label | None:
        """Returns a random label, or None with probability 1/4. If all labels are long, the result is never None."""
        return None if not self.is_far and self.draws.is_in(1 / 4) else self.label()

    def contact(self) -> Contact | None:
        """Returns a random node with a random label, or None with probability 1/4."""
        return None if self.draws.is_in(1 / 4) else Contact(self.node(), self.label())


_MESSAGES_PER_NODE = 3
_SLOTS = 4
_LONGEST_KEY = 6


def labels(scene: Scene) -> None:
    """Replaces the labels of randomly chosen nodes by random labels or None. The nodes need not be subscribers."""
    for node in scene.nodes:
        if scene.draws.is_in(scene.share):
            scene.own(node).label = scene.label_or_none()


def edges(scene: Scene) -> None:
    """Replaces randomly chosen ring edges of nodes by edges to any node with any label, or by None."""
    for node in scene.nodes:
        own = scene.own(node)
        own.left, own.right, own.ring = (
            _edge(scene) if scene.draws.is_in(scene.share) else one for one in (own.left, own.right, own.ring)
        )


def _edge(scene: Scene) -> Neighbour | None:
    contact = scene.contact()
    limit = 2 * int(scene.world.settings["silence_intervals"])
    return None if contact is None else Neighbour(contact.node, contact.label, scene.draws.below(limit))


def shortcuts(scene: Scene) -> None:
    """Replaces all slots of random nodes by slots with random labels. A new slot contains a random node or is empty."""
    for node in scene.nodes:
        if scene.draws.is_in(scene.share):
            drawn = {scene.label(): scene.contact() for _ in range(scene.draws.below(_SLOTS + 1))}
            scene.own(node).short = {label: one.node if one else None for label, one in sorted(drawn.items())}


def database(scene: Scene) -> None:
    """Corrupts the supervisor's database in the four ways of section 3.1, or empties it.

    Also adds databases of the topic at other nodes, and false crash records at supervisors.
    """
    held = scene.world.program(scene.supervisor).database[scene.topic]
    kept = {} if scene.draws.is_in(1 / 3) else held.entries
    entries: dict[Label, int | None] = {}
    for label, node in kept.items():
        fate = scene.draws.below(6)
        if fate == 0:
            continue
        entries[scene.label() if fate == 1 else label] = None if fate == 2 else node
        if fate == 3:
            entries[scene.label()] = node
        elif fate == 4:
            entries[Label(label.bits + 1, label.numerator << 1)] = scene.node()
    held.entries = dict(scene.draws.shuffled(list(entries.items())))
    held.next = scene.draws.below(2 * len(entries) + 2) - 1
    for node in scene.everybody:
        if node != scene.supervisor and scene.draws.is_in(1 / 4):
            entries = {scene.label(): scene.node() for _ in range(1 + scene.draws.below(3))}
            databases: dict[str, Database] = scene.world.program(node).database
            databases[scene.topic] = Database(scene.topic, scene.draws.below(4) - 1, entries)
    for supervisor in scene.world.program(scene.supervisor).supervisor:
        crashed: dict[int, Crashed] = scene.world.program(supervisor).crashed
        for node in scene.everybody:
            if scene.draws.is_in(1 / 4):
                crashed[node] = Crashed(node)


def messages(scene: Scene) -> None:
    """Sends stale messages with random contents. Their number is 0, 1, 2 or 3 times the number of nodes.

    Half of the requests go to the topic's supervisor. All other messages go to random nodes.
    """
    nodes = scene.everybody
    for _ in range(scene.draws.below(_MESSAGES_PER_NODE + 1) * len(nodes)):
        kind = scene.draws.one_of(list(_STALE))
        is_served = kind in ms.REQUESTS and scene.draws.is_in(1 / 2)
        dst = scene.supervisor if is_served else scene.draws.one_of(nodes)
        send(scene.world.context(scene.draws.one_of(nodes)), dst, _STALE[kind](scene))


def _set_data(scene: Scene) -> ms.SetData:
    label = scene.label_or_none()
    before, after = (None, None) if label is None else (scene.contact(), scene.contact())
    return ms.SetData(scene.topic, before, label, after, "request")


def _introduce(scene: Scene) -> ms.Introduce:
    node, flag = scene.node(), scene.draws.one_of((ms.LIN, ms.CYC, ms.COR))
    return ms.Introduce(scene.topic, node, scene.label(), scene.label_or_none(), flag)


def _key(scene: Scene) -> str:
    return "".join(str(scene.draws.below(2)) for _ in range(scene.draws.below(_LONGEST_KEY + 1)))


def _node_hash(scene: Scene) -> NodeHash:
    return NodeHash(_key(scene), f"{scene.draws.below(1 << 32):x}")


def _stale_publication(scene: Scene) -> Publication:
    """Returns a publication whose key may equal that of another publication, or have the wrong length (rule K22)."""
    one = replace(scene.publication(), hops=scene.draws.below(8))
    fate = scene.draws.below(4)
    if fate == 0:
        return replace(one, key=_key(scene))
    if fate == 1:
        return replace(one, key=scene.draws.one_of((one.key[:-1], one.key + "0", one.key + "1")))
    return replace(one, key=scene.publication().key) if fate == 2 else one


def tries(scene: Scene) -> None:
    """Corrupts hashes, children and roots of tries, and adds leaves with wrong keys (rule K22)."""
    for node in scene.everybody:
        program = scene.world.program(node)
        nodes: dict[tuple[str, str], TrieNode] = program.trie_node
        held = [one for (topic, _), one in sorted(nodes.items()) if topic == scene.topic]
        for one in held:
            fate = scene.draws.below(12)
            if fate == 0:
                one.hash = _node_hash(scene).hash or ""
            elif fate == 1 and one.publication is None:
                one.zero = scene.draws.one_of((None, one.one, one.label, _key(scene)))
            elif fate == 2 and one.publication is None:
                del nodes[scene.topic, one.label]
        if scene.draws.is_in(1 / 4):
            wrong = _stale_publication(scene)
            leaf = TrieNode(scene.topic, wrong.key, _node_hash(scene).hash or "", publication=wrong, via="start")
            nodes.setdefault((scene.topic, wrong.key), leaf)
        if held and scene.draws.is_in(1 / 8):
            program.trie_root[scene.topic] = Root(scene.topic, scene.draws.one_of((*(one.label for one in held), "01")))


_STALE: Mapping[type, Callable[[Scene], Any]] = {
    ms.Subscribe: lambda scene: ms.Subscribe(scene.topic),
    ms.Unsubscribe: lambda scene: ms.Unsubscribe(scene.topic),
    ms.GetConfiguration: lambda scene: ms.GetConfiguration(scene.topic, "label"),
    ms.RequestFor: lambda scene: ms.RequestFor(scene.topic, scene.node()),
    ms.SetData: _set_data,
    ms.Remove: lambda scene: ms.Remove(scene.topic, scene.node()),
    ms.Introduce: _introduce,
    ms.IntroduceShortcut: lambda scene: ms.IntroduceShortcut(scene.topic, scene.node(), scene.label()),
    ms.CheckTrie: lambda scene: ms.CheckTrie(scene.topic, (_node_hash(scene),)),
    ms.PublishNew: lambda scene: ms.PublishNew(scene.topic, *astuple(_stale_publication(scene))),
    ms.Publish: lambda scene: ms.Publish(
        scene.topic, tuple(_stale_publication(scene) for _ in range(scene.draws.below(4)))
    ),
    ms.CheckAndPublish: lambda scene: ms.CheckAndPublish(scene.topic, _node_hash(scene), _key(scene)),
}
CORRUPTIONS: Mapping[str, Callable[[Scene], None]] = {
    one.__name__: one for one in (labels, edges, shortcuts, database, messages, tries)
}
"""The corruptions by the values of setting ``start``."""


TIMEOUT = "Timeout"
EMPTY, ARBITRARY, TRIES = "empty", "arbitrary", "tries"


def begin(world: World) -> None:
    """Sets the state of all nodes before the first round, and draws the round of each node's first Timeout.

    Raises:
        ValueError: No node has role ``supervisor``.
    """
    nodes = world.nodes.items()
    supervisors = [Supervisor(node, point_of(one.name)) for node, one in nodes if one.role == "supervisor"]
    if not supervisors:
        raise ValueError("a skip ring needs a node of role supervisor, and the overlay has none")
    interval = int(world.settings["timeout_interval"])
    for node in world.nodes:
        world.program(node).supervisor = {one.node: one for one in supervisors}
        ctx = world.context(node)
        ctx.set_timer(TIMEOUT, 0, 1 + int(ctx.draw("phase") * interval))
    for one in supervisors:
        for node, info in nodes:
            if info.role != "supervisor":
                world.context(one.node).watch(node)
    if world.settings["start"] != EMPTY:
        _begin_topics(world, supervisors)


def _begin_topics(world: World, supervisors: Sequence[Supervisor]) -> None:
    draws, numbers = Draws(world.context(supervisors[0].node)), count(0, -1)
    for topic, members in _subscribers(world).items():
        order, supervisor = draws.shuffled(members), responsible(topic, supervisors)
        share, is_far = draws.one_of((1 / 2, 1.0)), draws.is_in(1 / 3)
        scene = Scene(world, topic, order, supervisor, draws, share, is_far, numbers)
        _record(scene)
        start = str(world.settings["start"])
        _publish_stored(scene, is_everywhere=start not in (ARBITRARY, TRIES))
        for name, corrupt in CORRUPTIONS.items():
            if start in (name, ARBITRARY):
                corrupt(scene)


def _subscribers(world: World) -> dict[str, list[int]]:
    """Returns the initial subscribers of each topic, and adds their subscriptions to the state of the nodes."""
    until = world.settings.get("start_until")
    found: dict[str, list[int]] = {}
    for node, calls in sorted(world.calls.items()):
        interests: dict[int, Interest] = {}
        for call in calls:
            if not isinstance(call, SubscribeCall) or (until is not None and call.round > until):
                continue
            if all(call.topic != one.topic for one in interests.values()):
                interests[call.subscription_id] = Interest(call.subscription_id, topic_of(call))
        world.program(node).interest = interests
        for one in interests.values():
            found.setdefault(one.topic, []).append(node)
    return dict(sorted(found.items()))


def _record(scene: Scene) -> None:
    """Builds the legitimate state: fills the database, and sets labels, edges and slots according to SR(n)."""
    entries: dict[Label, int | None] = {label_of(index): node for index, node in enumerate(scene.members)}
    databases: dict[str, Database] = scene.world.program(scene.supervisor).database
    databases[scene.topic] = Database(scene.topic, -1, entries)
    for index, node in enumerate(scene.members):
        own, label = scene.own(node), label_of(index)
        own.wants, own.label = True, label
        beside = configuration(entries, label)
        short = {slot for one in beside if one is not None for slot in chain(label, one.label)}
        own.short = {slot: entries[slot] for slot in sorted(short)}
        own.left, own.right, own.ring = (
            None if one is None else Neighbour(one.node, one.label) for one in sides((label.value, node), *beside)
        )


def _publish_stored(scene: Scene, *, is_everywhere: bool) -> None:
    """Stores publications of the initial state: at all subscribers if `is_everywhere`, else at a random subset."""
    settings = scene.world.settings
    for _ in range(int(settings["start_publications"]) if scene.members else 0):
        publication = scene.publish(scene.draws.one_of(scene.members))
        holder = scene.draws.one_of(scene.members)
        for node in scene.members:
            if is_everywhere or node == holder or scene.draws.is_in(0.5):
                program = scene.world.program(node)
                trie = Trie(scene.topic, program.trie_node, program.trie_root, int(settings["hash_bits"]))
                trie.insert(publication, "start")
