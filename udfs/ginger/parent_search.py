"""The search for a new parent: brokers and clients alike (sections 4.2.3 and 4.2.4)."""

from __future__ import annotations

from udfs.ginger import messages as ms
from udfs.ginger.role import Role
from udfs.ginger.tree import belongs

MAX_PASSES = 20
"""Times that a node asks all brokers of its view before it gives up (rule G26)."""
TIMER = "parent"
"""Runs out when a broker that was asked has not answered in time, or when a pause is over (Alg. 8)."""


class ParentSearch:
    """The search of one node: it asks one broker after the other."""

    def __init__(self, role: Role) -> None:
        """Searches for a node."""
        self._role = role
        self._node = role.node
        self._own = role.node.repair

    def seek(self) -> None:
        """Asks the next broker; one after the other, then with breakDegree, then after a pause all over again."""
        own, live = self._own, self._role.candidates()
        left = [broker for broker in live if broker not in own.declined]
        if left:
            self.ask(left[0])
        elif not live or own.n_passes >= MAX_PASSES:
            self._node.ctx.status("ISOLATED")
        elif not own.break_degree:
            own.break_degree, own.declined = True, []
            self._role.seek()
        else:
            own.n_passes, own.break_degree, own.declined, own.asked = own.n_passes + 1, False, [], None
            self._await(None, self._node.setting("timer_rounds"))

    def ask(self, broker: int) -> None:
        """Sends a ParentRequest; a broker that does not answer in time has failed."""
        self._own.asked, self._own.is_promised = broker, False
        self._node.send(broker, self._role.request())
        self._await(broker, self._node.patience(broker))

    def _await(self, broker: int | None, rounds: int) -> None:
        self._own.awaited = broker
        self._node.ctx.set_timer(TIMER, rounds=rounds)

    def on_response(self, m: ms.ParentResponse, src: int) -> None:
        """A broker accepts, or the next is asked; one that joins sub-trees first is asked again (rule G25)."""
        own = self._own
        if src != own.asked:
            return
        if m.answer == ms.JOINING:
            own.is_promised = True
            self._await(src, self._node.patience(src))
            return
        own.asked = None
        if m.answer == ms.ACCEPTED:
            self._node.set_parent(src)
            own.break_degree, own.n_passes, own.declined = False, 0, []
            self._role.attached()
            return
        if m.answer == ms.BACK:
            self._role.came_back(src)
        else:
            self.declined(src)
        self._role.seek()

    def declined(self, broker: int) -> None:
        """Asks others first."""
        self._own.declined.append(broker)

    def on_timer(self) -> None:
        """A broker that was asked does not answer: it failed; or it is time to ask all once more."""
        own, partner = self._own, self._own.awaited
        if own.is_level:
            return
        if partner is None:
            if self._node.parent is None:
                self._role.seek()
        elif partner in self._node.state.parked:
            return
        elif partner == self._node.parent:
            self._role.neighbour_down(partner)
        elif partner == own.asked and own.is_promised:
            self.ask(partner)
        elif partner == own.asked:
            own.asked = None
            self.declined(partner)
            self._role.lost(partner)
            self._role.seek()

    def on_tree_view_update(self, m: ms.TreeViewUpdate, src: int) -> None:
        """The parent tells what it sees; a step down, and what is near enough, is the node's own view (Alg. 2).

        What it sees is up, also if it had failed before.
        """
        if src != self._node.parent:
            return
        self._own.dead -= {seen.broker for seen in m.seen}
        rounds, most, view = self._node.rounds_to(src), self._node.setting("max_hops"), []
        for other, up, down, latency in m.seen:
            if other != self._node.id and belongs(up, down + 1, most):
                view.append((other, up, down + 1))
                self._node.latency.setdefault(other, latency + rounds)
        self._node.see(view)
        self._role.view_changed()
