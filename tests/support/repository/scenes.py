"""Scenarios of protocol repository: brokers b1 - b2 - b3, repositories at the first two, a publisher, three clients."""

from __future__ import annotations

from typing import Any

from pipelines.testing import scenario

NEWS = "news"
TIMERS = {
    "publisher_rounds": 12, "failure_rounds": 60, "acknowledge_rounds": 6, "wait_rounds": 8, "nak_rounds": 10,
    "rectify_rounds": 25, "idle_rounds": 40, "assist_rounds": 60, "gossip_rounds": 8, "fetch_rounds": 10,
}  # fmt: skip
SUBSCRIBERS = ("s1", "s2", "s3")


def chain(**parts: Any) -> dict[str, Any]:
    """Returns brokers b1 - b2 - b3, repositories at the first two, p and s1 at b1, s2 at b2, s3 at b3.

    Args:
        parts: Parts of a scenario. `published` has rounds in which p publishes, or names and rounds; `subscribed` the
            rounds of clients that do not subscribe in round 1.
    """
    published = [one if isinstance(one, tuple) else ("p", one) for one in parts.pop("published")]
    rounds_of = dict.fromkeys(SUBSCRIBERS, 1) | parts.pop("subscribed", {})
    subscribed = [{"at": name, "round": round_, "topic": NEWS} for name, round_ in rounds_of.items()]
    return scenario(
        protocol={"name": "repository", **TIMERS, **parts.pop("settings", {})},
        overlay={
            "links": [["b1", "b2"], ["b2", "b3"]],
            "servers": [{"name": "r1", "at": "b1"}, {"name": "r2", "at": "b2"}],
            "clients": [
                {"name": name, "at": at} for name, at in (("p", "b1"), ("s1", "b1"), ("s2", "b2"), ("s3", "b3"))
            ],
        },
        workload={
            "subscriptions": subscribed,
            "publications": [{"at": at, "round": round_, "topic": NEWS} for at, round_ in published],
            "calls": parts.pop("calls", []),
        },
        time={"rounds": parts.pop("rounds")},
        **parts,
    )


def lost(begin: int, end: int | None, src: str, dst: str, *kinds: str) -> dict[str, Any]:
    """Returns a fault: all that is sent from one node to another is lost for a while, or all of some kinds."""
    found = {"kind": "loss", "round": begin, "rate": 1.0, "links": [[src, dst]], "direction": "forward"}
    return found | ({"kinds": list(kinds)} if kinds else {}) | ({} if end is None else {"until": end})


def down(name: str, begin: int, end: int | None = None) -> dict[str, Any]:
    """Returns a fault: a node crashes, and is up again in another round, if it is."""
    return {"kind": "crash", "node": name, "round": begin} | ({} if end is None else {"until": end})


def calls(kind: str, name: str, round_: int, **of_call: Any) -> dict[str, Any]:
    """Returns a call."""
    return {"at": name, "round": round_, "kind": kind, **of_call}
