"""What the protocol cannot run with: calls at the wrong nodes, topics without repositories, names of other roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.contract.predicate import topics_of
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.errors import Problem, nearest

Place = tuple[str | int, ...]
_SUBSCRIPTIONS: Place = ("workload", "subscriptions")
_PUBLICATIONS: Place = ("workload", "publications")
_CALLS: Place = ("workload", "calls")
_SHOWN = 5
_AT_CLIENTS = ("steer", "register", "deregister")


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with, each problem at its place.

    Args:
        settings: A `RepositorySettings`.
        overlay: Brokers with repositories and clients.
        workload: Its calls.
        faults: Its faults; the protocol bears all kinds.
    """
    found = [*_server_problems(settings, overlay), *_topic_problems(settings, overlay)]
    yield from found
    yield from _subscription_problems(overlay, workload)
    yield from _publication_problems(overlay, workload)
    for index in range(len(workload.join)):
        message = "nobody joins the overlay with protocol repository; a repository does with workload.calls, kind: join"
        yield Problem(("workload", "joins", index), message)
    if not found:
        yield from _call_problems(settings, overlay, workload)
        yield from _unserved(settings, overlay, workload)


def _servers(overlay: Overlay) -> Sequence[str]:
    return overlay.names[overlay.n_brokers : overlay.first_client]


def _clients(overlay: Overlay) -> Sequence[str]:
    return overlay.names[overlay.first_client :]


def _named(place: Place, name: str, role: str, names: Sequence[str]) -> Iterator[Problem]:
    """Yields a problem where a name is not among those of a role."""
    if name not in names:
        some = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        allowed = f"allowed: one of {some}" if names else f"the overlay has no {role}"
        yield Problem(place, f"{name!r} is no {role};{nearest(name, names[:2000])} {allowed}")


def _server_problems(settings: Any, overlay: Overlay) -> Iterator[Problem]:  # noqa: ANN401
    if not overlay.n_servers and not settings.baseline:
        message = "protocol repository needs repositories; add overlay.servers, or set protocol.baseline: true"
        yield Problem(("overlay",), message)
    size, n_servers = settings.bundle_size, overlay.n_servers
    if size is not None and (settings.bundles or settings.baseline):
        other = "protocol.bundles says" if settings.bundles else "with protocol.baseline nobody is a repository:"
        yield Problem(("protocol", "bundle_size"), f"{other} which repositories serve topics; leave one of the two out")
    elif size is not None and n_servers and size >= n_servers:
        allowed = f"allowed: fewer than {n_servers}, or leave it out (null in a grid), and all serve all topics"
        yield Problem(("protocol", "bundle_size"), f"the overlay has no more than {n_servers} servers; {allowed}")
    for index, bundle in enumerate(settings.bundles):
        for place, name in enumerate(bundle.repositories or ()):
            yield from _named(("protocol", "bundles", index, "repositories", place), name, "server", _servers(overlay))


def _topic_problems(settings: Any, overlay: Overlay) -> Iterator[Problem]:  # noqa: ANN401
    for topic, rules in settings.topics.items():
        place: Place = ("protocol", "topics", topic)
        yield from _named((*place, "owner"), rules.owner, "client", _clients(overlay))
        for key in ("publishers", "subscribers"):
            for index, name in enumerate(getattr(rules, key)):
                yield from _named((*place, key, index), name, "client", _clients(overlay))


def _subscription_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    topics = topics_of(workload.subscription["predicate"], is_alone=False).to_pylist()
    has_topics = workload.publication["topic"].null_count < len(workload.publication)
    for index, (row, topic) in enumerate(zip(workload.subscription.to_pylist(), topics, strict=True)):
        yield from _named((*_SUBSCRIPTIONS, index, "at"), overlay.names[row["node_id"]], "client", _clients(overlay))
        if topic is None and (has_topics or "topic" in row["predicate"]):
            message = f"{row['predicate']} asks for no topic by its name, and repositories serve topics"
            allowed = "allowed: topic: a name, or publications and subscriptions without topics"
            yield Problem((*_SUBSCRIPTIONS, index), f"{message}; {allowed}")


def _publication_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    for index, node in enumerate(workload.publication["node_id"].to_pylist()):
        yield from _named((*_PUBLICATIONS, index, "at"), overlay.names[node], "client", _clients(overlay))


def _call_problems(settings: Any, overlay: Overlay, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    first: dict[tuple[int, str], int] = {}
    for index, row in enumerate(workload.other_call.to_pylist()):
        place, kind, at = (*_CALLS, index), row["kind"], overlay.names[row["node_id"]]
        role, names = ("client", _clients(overlay)) if kind in _AT_CLIENTS else ("server", _servers(overlay))
        yield from _named((*place, "at"), at, role, names)
        if kind == "steer":
            served = [overlay.names[node] for node in sorted(_serving(settings, overlay, row["topic"] or ""))]
            yield from _named((*place, "peer"), overlay.names[row["peer"]], "server of the topic", served)
        elif kind in ("join", "leave"):
            before = first.setdefault((row["node_id"], kind), index)
            if before != index:
                message = f"{at!r} calls {kind} already by entry {before}; allowed: once"
                yield Problem((*place, "kind"), message)
        elif kind == "remove":
            others = [name for name in _servers(overlay) if name != at]
            yield from _named((*place, "peer"), overlay.names[row["peer"]], "other server", others)
        else:
            yield from _registration_problems(settings, overlay, row, place)
    yield from _early_leaves(overlay, workload)


def _registration_problems(settings: Any, overlay: Overlay, row: dict[str, Any], place: Place) -> Iterator[Problem]:  # noqa: ANN401
    yield from _named((*place, "peer"), overlay.names[row["peer"]], "client", _clients(overlay))
    rules = settings.topics.get(row["topic"] or "")
    if rules is None:
        message = f"topic {row['topic'] or ''!r} is open to everybody; add it to protocol.topics with its owner"
        yield Problem((*place, "topic"), message)
    elif rules.owner != overlay.names[row["node_id"]]:
        yield Problem((*place, "at"), f"{rules.owner!r} owns topic {row['topic'] or ''!r}, and registers its clients")


def _early_leaves(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    rows = workload.other_call.to_pylist()
    joins = {row["node_id"]: row["round"] for row in rows if row["kind"] == "join"}
    for index, row in enumerate(rows):
        joined = joins.get(row["node_id"])
        if row["kind"] == "leave" and joined is not None and row["round"] <= joined:
            message = f"{overlay.names[row['node_id']]!r} leaves in round {row['round']}, and joins in round {joined}"
            yield Problem((*_CALLS, index, "round"), f"{message}; allowed: {joined + 1} or later")


def _serving(settings: Any, overlay: Overlay, topic: str) -> set[int]:  # noqa: ANN401
    """Returns the repositories that serve a topic at any time."""
    everybody = set(range(overlay.n_brokers, overlay.first_client))
    if not settings.bundles:
        return everybody if settings.bundle_size is None else {*sorted(everybody)[: settings.bundle_size]}
    named = {one for bundle in settings.bundles for one in bundle.topics or ()}
    ids = {name: node for node, name in enumerate(overlay.names)}
    found: set[int] = set()
    for bundle in settings.bundles:
        if topic in (bundle.topics or ()) or (not bundle.topics and topic not in named):
            found |= everybody if bundle.repositories is None else {ids[name] for name in bundle.repositories}
    return found


def _unserved(settings: Any, overlay: Overlay, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    """Yields the topics that no repository serves from the start."""
    if settings.baseline:
        return
    calls = workload.other_call.to_pylist()
    later = {row["node_id"] for row in calls if row["kind"] == "join"}
    used = [
        *topics_of(workload.subscription["predicate"], is_alone=False).to_pylist(),
        *workload.publication["topic"].to_pylist(),
    ]
    for topic in sorted({topic or "" for topic in used}):
        if not _serving(settings, overlay, topic) - later:
            message = f"no repository serves topic {topic!r} from the start"
            allowed = "allowed: a bundle for it, with a repository that does not join later"
            yield Problem(("protocol", "bundles"), f"{message}; {allowed}")
