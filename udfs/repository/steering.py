"""A client's choice of its steering repository, and the detection of its failure (4.1, 4.7; rules P12, P14, P27)."""

from __future__ import annotations

from typing import Protocol

from udfs.nodes.calls import SteerCall
from udfs.repository.at import At
from udfs.repository.client_records import PUBLISHER, Steering
from udfs.repository.events import Probe
from udfs.repository.repository_events import Migrate, ProbeAnswer, Refuse


class Answer(Protocol):
    """An answer of a repository to a designation."""

    @property
    def origin(self) -> int:
        """Id of the repository."""

    @property
    def designation(self) -> int:
        """The number of the client's designation."""


def start(at: At, role: str) -> None:
    """Starts to seek a steering repository in `role`, unless the client has or seeks one."""
    index = at.topic, role
    if index not in at.node.steering:
        at.node.steering[index] = Steering(*index)
        seek(at, at.node.steering[index])


def seek(at: At, row: Steering) -> None:
    """Probes all members of the bundle, and starts the timer T_p; the first answer is designated (rule P27)."""
    row.is_seeking, row.tries = True, 0
    at.send(Probe, at.bundle.members, row.role)
    at.wake(f"seek {row.role}", at.rounds("publisher_rounds"))


def seek_again(at: At, role: str) -> None:
    """Timer T_p: repeats the probes, also as a discovery, because all known members may have left (rule P33)."""
    row = at.node.steering.get((at.topic, role))
    if row is not None and row.is_seeking:
        seek(at, row)
        at.send(Probe, (), row.role)


def on_answer(at: At, m: ProbeAnswer) -> None:
    """R2C-Probe: records an operational repository, or the members that another one names."""
    row = at.node.steering.get((at.topic, m.role))
    if row is None or not row.is_seeking:
        return
    if m.is_operational:
        row.answers = (*row.answers, m.origin)
        learn(at, m.members)
    else:
        learn(at, tuple(sorted({*at.bundle.members, *m.members})))


def on_migrate(at: At, m: Migrate) -> None:
    """R2C-Migrate (section 4.10; rule P25): seeks another repository."""
    row = at.node.steering.get((at.topic, m.role))
    if row is not None and row.designation == m.designation and not row.is_seeking and not row.is_changing:
        seek(at, row)


def on_refuse(at: At, m: Refuse) -> None:
    """Refuse (rule P25): asks again every T_fail.

    A publisher queues its messages from now on; a subscriber may still get earlier ones.
    """
    row = at.node.steering.get((at.topic, m.role))
    if row is not None and hear(at, row, m):
        row.is_refused = True
        row.is_established = row.is_established and row.role != PUBLISHER
        at.ctx.set_timer(f"ask {row.role}", at.number, at.rounds("failure_rounds"))


def call(at: At, call: SteerCall) -> None:
    """Call ``steer``: designates the repository that the application names (section 4)."""
    for row in at.of(at.node.steering):
        designate(row, call.peer)


def designate(row: Steering, repository: int) -> None:
    """Sets the repository that the client designates at the end of the round."""
    row.repository, row.is_seeking, row.is_changing = repository, False, True


def change(at: At, row: Steering) -> bool:
    """Chooses a repository at the end of the round; returns whether the client starts a designation (P12, P27)."""
    if row.is_seeking and row.answers:
        designate(row, min(row.answers))
    row.answers = ()
    is_new = row.is_changing and row.repository is not None
    if is_new:
        row.designation, row.heard_round, row.tries = at.round, at.round, 0
        row.is_changing = row.is_established = row.is_refused = False
    return is_new


def hear(at: At, row: Steering | None, m: Answer) -> bool:
    """Returns whether `m` answers the current designation (rule P12), and records that the repository was heard."""
    if row is None or row.is_changing or row.is_seeking:
        return False
    if (row.repository, row.designation) != (m.origin, m.designation):
        return False
    row.heard_round, row.tries, row.is_refused = at.round, 0, False
    return True


def is_tired(at: At, row: Steering) -> bool:
    """Counts a request; returns whether it was the k-th without an answer, and then seeks another repository."""
    row.tries += 1
    if row.tries <= at.rounds("tries"):
        return False
    seek(at, row)
    return True


def learn(at: At, members: tuple[int, ...]) -> None:
    """Sets the members of the bundle that the client knows."""
    at.bundle.members = members
