"""A topic before the first round, and the draws that its arbitrary parts come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from udfs.nodes.context import Context
from udfs.nodes.world import World
from udfs.skipring.labels import MAX_BITS, ZERO, Label
from udfs.skipring.state import Contact, Subscription
from udfs.skipring.trie import Publication, publication_key

T = TypeVar("T")
_LONGEST = 2 * MAX_BITS


class Draws:
    """A row of draws of one node before the first round."""

    def __init__(self, ctx: Context) -> None:
        """Starts the row."""
        self._ctx = ctx
        self._count = 0

    def share(self) -> float:
        """Returns a number in [0, 1)."""
        self._count += 1
        return self._ctx.draw("start", self._count)

    def below(self, bound: int) -> int:
        """Returns a whole number below a bound."""
        return int(self.share() * bound)

    def is_in(self, probability: float) -> bool:
        """Returns true with a probability."""
        return self.share() < probability

    def one_of(self, given: Sequence[T]) -> T:
        """Returns one of some values."""
        return given[self.below(len(given))]

    def shuffled(self, given: Sequence[T]) -> list[T]:
        """Returns values in a drawn order."""
        return [one for _, _, one in sorted((self.share(), place, one) for place, one in enumerate(given))]


@dataclass
class Scene:
    """A topic before the first round.

    Attributes:
        world: The run.
        topic: The topic.
        members: Its subscribers, in the order of their labels.
        supervisor: Its supervisor.
        draws: Where draws come from.
        share: The share of nodes whose labels, edges or slots are arbitrary, where they are.
        is_far: Whether all labels that are drawn are long ones: action (ii) hardly ever comes then.
        numbers: The numbers of publications from before the start: 0, -1, ..., unique over topics (rule K20).
        published: The publications from before the start, by number.
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

    def is_hit(self) -> bool:
        """Returns whether something of a node becomes arbitrary."""
        return self.draws.is_in(self.share)

    @property
    def everybody(self) -> list[int]:
        """All nodes, supervisors included."""
        return list(self.world.nodes)

    @property
    def nodes(self) -> list[int]:
        """All nodes that could subscribe."""
        return [node for node, info in self.world.nodes.items() if info.role != "supervisor"]

    def own(self, node: int) -> Subscription:
        """Returns a node's state of the topic."""
        kept: dict[str, Subscription] = self.world.program(node).subscription
        return kept.setdefault(self.topic, Subscription(self.topic))

    def label(self) -> Label:
        """Returns a label; where not all are long, a short one is as likely as any. One in 16 is invalid (rule K21)."""
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
        """Returns a publication from before the start: an old one, or one that no trie has."""
        if self.published and self.draws.is_in(1 / 2):
            return self.draws.one_of(list(self.published.values()))
        return self.publish(self.draws.one_of(self.everybody))

    def publish(self, source: int) -> Publication:
        """Returns a new publication of a node, from before the start."""
        number = next(self.numbers)
        key = publication_key(self.topic, source, number, int(self.world.settings["key_bits"]))
        self.published[number] = Publication(key, source, number, -1)
        return self.published[number]

    def label_or_none(self) -> Label | None:
        """Returns a label; where not all are long, sometimes none."""
        return None if not self.is_far and self.draws.is_in(1 / 4) else self.label()

    def contact(self) -> Contact | None:
        """Returns any node with any label, or none."""
        return None if self.draws.is_in(1 / 4) else Contact(self.draws.one_of(self.everybody), self.label())
