"""How a client chooses its steering repository, and notices that it fails (sections 4.1, 4.7; rules P12, P14, P27)."""

from __future__ import annotations

from typing import Protocol

from udfs.nodes.calls import SteerCall
from udfs.repository.at import At
from udfs.repository.client_records import PUBLISHER, Steering
from udfs.repository.events import Probe
from udfs.repository.repository_events import Migrate, ProbeAnswer, Refuse


class Answer(Protocol):
    """An answer of a repository to a client."""

    @property
    def origin(self) -> int:
        """The sender."""

    @property
    def designation(self) -> int:
        """The number of the client's designation."""


def start(at: At, role: str) -> None:
    """Looks for a steering repository, unless the client does already."""
    index = at.topic, role
    if index not in at.node.steering:
        at.node.steering[index] = Steering(*index)
        seek(at, at.node.steering[index])


def seek(at: At, row: Steering) -> None:
    """Probes all members of the bundle, again every T_p; the first one to answer is designated (rule P27)."""
    row.is_seeking, row.tries = True, 0
    at.send(Probe, at.bundle.members, row.role)
    at.wake(f"seek {row.role}", at.rounds("publisher_rounds"))


def seek_again(at: At, role: str) -> None:
    """Probes again without an answer; asks brokers, too, because all known repositories may be gone."""
    row = at.node.steering.get((at.topic, role))
    if row is not None and row.is_seeking:
        seek(at, row)
        at.send(Probe, (), row.role)


def on_answer(at: At, m: ProbeAnswer) -> None:
    """Notes the repositories that answered in this round; one that may not steer the client names others."""
    row = at.node.steering.get((at.topic, m.role))
    if row is None or not row.is_seeking:
        return
    if m.is_operational:
        row.answers = (*row.answers, m.origin)
        learn(at, m.members)
    else:
        learn(at, tuple(sorted({*at.bundle.members, *m.members})))


def on_migrate(at: At, m: Migrate) -> None:
    """Leaves a repository that is about to leave (section 4.10), or has ended the designation (rule P25)."""
    row = at.node.steering.get((at.topic, m.role))
    if row is not None and row.designation == m.designation and not row.is_seeking and not row.is_changing:
        seek(at, row)


def on_refuse(at: At, m: Refuse) -> None:
    """Waits for an authorisation: asks again every T_fail (rule P25). A subscriber may still get earlier messages."""
    row = at.node.steering.get((at.topic, m.role))
    if row is not None and hear(at, row, m):
        row.is_refused = True
        row.is_established = row.is_established and row.role != PUBLISHER
        at.ctx.set_timer(f"ask {row.role}", at.number, at.rounds("failure_rounds"))


def call(at: At, call: SteerCall) -> None:
    """Turns to the repository that the application names (section 4: at any time)."""
    for row in at.of(at.node.steering):
        designate(row, call.peer)


def designate(row: Steering, repository: int) -> None:
    """Sets the repository that a client designates at the end of the round."""
    row.repository, row.is_seeking, row.is_changing = repository, False, True


def change(at: At, row: Steering) -> bool:
    """Ends a round: the lowest id among the first answers; returns whether it designates again (rules P12, P27)."""
    if row.is_seeking and row.answers:
        designate(row, min(row.answers))
    row.answers = ()
    is_new = row.is_changing and row.repository is not None
    if is_new:
        row.designation, row.heard_round, row.tries = at.round, at.round, 0
        row.is_changing = row.is_established = row.is_refused = False
    return is_new


def hear(at: At, row: Steering | None, m: Answer) -> bool:
    """Returns whether an answer is from the steering repository, to the designation that stands (rule P12)."""
    if row is None or row.is_changing or row.is_seeking:
        return False
    if (row.repository, row.designation) != (m.origin, m.designation):
        return False
    row.heard_round, row.tries, row.is_refused = at.round, 0, False
    return True


def is_tired(at: At, row: Steering) -> bool:
    """Counts a request without an answer; returns whether these were k, and looks for another one then."""
    row.tries += 1
    if row.tries <= at.rounds("tries"):
        return False
    seek(at, row)
    return True


def learn(at: At, members: tuple[int, ...]) -> None:
    """Takes over the members of the bundle from the steering repository."""
    at.bundle.members = members
