"""A client's choice of a steering repository, and the detection of that repository's failure (sections 4.1, 4.7).

Rules P12, P14 and P27.
"""

from __future__ import annotations

from udfs.nodes.calls import SteerCall
from udfs.repository import events
from udfs.repository.at import At
from udfs.repository.records import PUBLISHER, Steering

Answer = events.Designated | events.SubscriberRetransmit | events.Refuse
"""An event in which a repository answers a client; it has the designation of the client."""


def start(at: At, role: str) -> None:
    """Starts a client's search for a steering repository in role `role`, unless the client has or seeks one."""
    index = at.topic, role
    if index not in at.node.steering:
        at.node.steering[index] = Steering(*index)
        seek(at, at.node.steering[index])


def seek(at: At, row: Steering) -> None:
    """Sends C2R-Probe to all members of the bundle. The client designates the first one that answers (rule P27)."""
    row.is_seeking, row.tries = True, 0
    at.send(events.Probe, at.bundle.members, row.role, row.designation)
    at.wake(f"seek {row.role}", at.rounds("publisher_rounds"))


def seek_again(at: At, role: str) -> None:
    """Timer T_p: repeats the probes, and sends them to all repositories, as all known members may have left (P33)."""
    row = at.node.steering.get((at.topic, role))
    if row is not None and row.is_seeking:
        seek(at, row)
        at.send(events.Probe, (), row.role, row.designation)


def on_answer(at: At, m: events.ProbeAnswer) -> None:
    """R2C-Probe: updates the client's list of known members.

    If the sender is operational, the members in its answer replace the list. The client may designate the sender at the
    end of the round (`apply_choice`). If the sender is not operational, the members are added to the list.

    Answers to probes of earlier searches are ignored. A client may give up a search before a distant repository can
    answer. The late answer of this repository would then always precede the answer of the nearest repository.
    """
    row = at.node.steering.get((at.topic, m.role))
    if row is None or not row.is_seeking or m.designation != row.designation:
        return
    if m.is_operational:
        row.answers = (*row.answers, m.origin)
        at.bundle.members = m.members
    else:
        at.bundle.members = tuple(sorted({*at.bundle.members, *m.members}))


def on_migrate(at: At, m: events.Migrate) -> None:
    """R2C-Migrate (section 4.10; rule P25): seeks another steering repository."""
    row = at.node.steering.get((at.topic, m.role))
    if row is not None and row.designation == m.designation and not row.is_seeking and not row.is_changing:
        seek(at, row)


def on_refuse(at: At, m: events.Refuse) -> None:
    """Refuse (rule P25): records the refusal, and sets the timer for repeated requests to T_fail.

    A refused publisher queues new messages until the repository admits it. A refused subscriber still receives the
    messages that precede the cut of its deregistration.
    """
    row = at.node.steering.get((at.topic, m.role))
    if row is not None and accept_answer(at, row, m):
        row.is_refused = True
        row.is_established = row.is_established and row.role != PUBLISHER
        at.ctx.set_timer(f"ask {row.role}", at.number, at.rounds("failure_rounds"))


def call(at: At, call: SteerCall) -> None:
    """Handles call ``steer`` (section 4): chooses repository `call.peer` in each role of the client."""
    for row in at.of(at.node.steering):
        designate(row, call.peer)
    at.ctx.confirm(call.source_seq)


def designate(row: Steering, repository: int) -> None:
    """Chooses `repository`. The designation starts at the end of the round (`apply_choice`)."""
    row.repository, row.is_seeking, row.is_changing = repository, False, True


def apply_choice(at: At, row: Steering) -> bool:
    """Starts a new designation at the end of the round, if the client has chosen a repository (rules P12, P27).

    A client that seeks a repository chooses, of the operational repositories that answered its probes in this round,
    the one with the lowest id. Call ``steer`` also chooses a repository. Returns whether a new designation starts.
    """
    if row.is_seeking and row.answers:
        designate(row, min(row.answers))
    row.answers = ()
    is_new = row.is_changing and row.repository is not None
    if is_new:
        row.designation, row.heard_round, row.tries = at.round, at.round, 0
        row.is_changing = row.is_established = row.is_refused = False
    return is_new


def accept_answer(at: At, row: Steering | None, m: Answer) -> bool:
    """Returns whether `m` comes from the designated repository of `row`, and has the current designation (rule P12).

    The result is False without a `row`, and while the client seeks or changes its repository. If the result is True,
    also records the round of the event, clears the refusal, and sets the number of unanswered requests to 0.
    """
    if row is None or row.is_changing or row.is_seeking:
        return False
    if (row.repository, row.designation) != (m.origin, m.designation):
        return False
    row.heard_round, row.tries, row.is_refused = at.round, 0, False
    return True


def has_given_up(at: At, row: Steering) -> bool:
    """Counts an unanswered request. After more than k requests, seeks another repository, and returns True."""
    row.tries += 1
    if row.tries <= at.rounds("tries"):
        return False
    seek(at, row)
    return True
