"""Servers and other calls that must be rejected, and scenarios that protocol repository must reject."""

from __future__ import annotations

from support.malformed.case import HEAD, LINKS, refused as _case, refused_when_built as _build

_SERVERS = LINKS[:-2] + ", servers: "
_CALLS = LINKS + "workload: {calls: ["
WRONG_SERVERS = (
    _case("a server at an unknown broker", _SERVERS + "[{name: R, at: §D}]}\n", "the overlay has no broker 'D'"),
    _case("a server called like a broker", _SERVERS + "[{name: §A, at: B}]}\n", "'A' is a broker", "no broker has"),
    _case(
        "a client called like a server", _SERVERS + "[{name: R, at: A}], clients: [{name: §R, at: B}]}\n",
        "'R' is a server already", "each name once",
    ),
    _case("a count of servers at all brokers", _SERVERS + "{generate: {at: all, count: §2}}}\n", "at: central"),
    _case("servers nowhere", _SERVERS + "{generate: {at: §[]}}}\n", "one or more"),
    _case("a call of an unknown kind", _CALLS + "{at: A, round: 1, kind: §steal}]}\n", "'steal'", "steer"),
    _case("a call without a round", _CALLS + "§{at: A, kind: leave}]}\n", "'round'"),
    _case("a registration without a role", _CALLS + "§{at: A, round: 1, kind: register, peer: B}]}\n", "'role'"),
    _case(
        "a registration as an owner", _CALLS + "{at: A, round: 1, kind: register, peer: B, role: §owner}]}\n",
        "publisher, subscriber",
    ),
    _case("a leave with a peer", _CALLS + "{at: A, round: 1, kind: leave, §peer: B}]}\n", "no key 'peer'"),
    _case("a removal without a peer", _CALLS + "§{at: A, round: 1, kind: remove}]}\n", "'peer'"),
    _case("a call of an unknown node", _CALLS + "{at: §D, round: 1, kind: leave}]}\n", "'D'"),
    _case("a call about an unknown node", _CALLS + "{at: A, round: 1, kind: steer, peer: §D}]}\n", "'D'"),
    _case(
        "epidemic: the shortest interval above the longest", LINKS.replace(
            "{name: delta}", "§{name: epidemic, gossip_rounds_min: 50, gossip_rounds_max: 5}"
        ), "gossip_rounds_min is 50, gossip_rounds_max 5", "gossip_rounds_min <= gossip_rounds_max",
    ),
    _case("a call after the horizon", _CALLS + "{at: A, round: §9999, kind: leave}]}\n", "horizon"),
)  # fmt: skip

_REPOSITORY = (
    HEAD.replace("delta", "repository") + "overlay: {links: [[A, B]], servers: [{name: R, at: A}, {name: S, at: B}],"
    " clients: [{name: X, at: A}, {name: Y, at: B}]}\n"
)
_FAR = _REPOSITORY.replace("[[A, B]]", "[[A, B, 5]]").replace(
    "repository}", "repository, publisher_rounds: §5, tries: 1}"
)
_OWNED = _REPOSITORY.replace("repository}", "repository, topics: {t: {owner: X}}}")
_CALLED = "workload: {subscriptions: [{at: X, topic: t}], calls: ["
_WITHOUT_RELAY = LINKS.replace("delta}", "gossipsub, relay: §false}") + "workload: {subscriptions: "
SERVERS_NEED_BUILD = (
    _build("servers of a protocol without any", LINKS[:-2] + ", servers: §[{name: R, at: A}]}\n", "has no servers"),
    *(
        _build(
            f"a join with {protocol}",
            LINKS.replace("delta", protocol) + "workload: {joins: §[{node: C, to: B, round: 9}]}\n",
            "linked from the start", "take protocol delta, epidemic, ginger",
        )
        for protocol in ("forwarding", "flooding", "gossipsub")
    ),
    _build(
        "ginger: a root that joins", LINKS.replace("delta}", "ginger, root: §C}")
        + "workload: {joins: [{node: C, to: B, round: 9}]}\n", "'C' joins later", "from the beginning",
    ),
    _build(
        "gossipsub: subscribers without a path", _WITHOUT_RELAY + "[{at: A, topic: t}, {at: C, topic: t}]}\n",
        "2 parts without links between them (A, C)", "relay: true, or links between subscribers",
    ),
    _build(
        "gossipsub: a publisher without a link to a subscriber",
        _WITHOUT_RELAY + "[{at: A, topic: t}],"
        " publications: [{at: B, round: 1, topic: t}, {at: C, round: 9, topic: t}]}\n",
        "topic 't' have no link to a subscriber (C)", "relay: true, or links to subscribers",
    ),
    _build(
        "repository: a node that joins",
        _REPOSITORY.replace("[[A, B]]", "[[A, B], [B, C]]") + "workload: {joins: §[{node: C, to: B, round: 9}]}\n",
        "linked from the start", "its servers join by workload.calls, kind: join",
    ),
    _build(
        "a call that the protocol does not take", _CALLS + "{at: A, round: 1, kind: §leave}]}\n",
        "does not support call leave",
    ),
    _build(
        "more servers than brokers", _REPOSITORY.replace("servers: [{name: R, at: A}, {name: S, at: B}]",
        "servers: {generate: {count: §3}}"), "2 brokers",
    ),
    _build(
        "a server called like a client's prefix", _REPOSITORY.replace("[{name: R, at: A}, {name: S, at: B}]",
        "[{name: C1, at: A}]").replace("[{name: X, at: A}, {name: Y, at: B}]", "{generate: {prefix: §C}}"), "'C1'",
    ),
    _build(
        "repository: no repository", HEAD.replace("delta", "repository") + "overlay: §{links: [[A, B]]}\n",
        "overlay.servers", "baseline",
    ),
    _build(
        "repository: a bundle with a client",
        _REPOSITORY.replace("repository}", "repository, bundles: [{repositories: [R, §X]}]}"), "'X' is not a server",
        "R, S",
    ),
    *(
        _case(
            f"repository: {name}", _REPOSITORY.replace("repository}", f"repository, {settings}}}"),
            f"{value} is there already", "as number 1 of the list", "each value once",
        )
        for name, settings, value in (
            ("a bundle with a repository twice", "bundles: [{repositories: [R, §R]}]", "'R'"),
            ("a bundle with a topic twice", "bundles: [{topics: [t, §t]}]", "'t'"),
            ("a topic with a publisher twice", "topics: {t: {owner: X, publishers: [Y, §Y]}}", "'Y'"),
            ("a topic with a subscriber twice", "topics: {t: {owner: X, subscribers: [Y, §Y]}}", "'Y'"),
        )
    ),
    _case(
        "repository: a topic in two bundles", _REPOSITORY.replace("repository}", "repository, bundles:"
        " [{repositories: [R], topics: [t]}, {repositories: [S], topics: §[u, t]}]}"),
        "topic 't' belongs to bundle 1 of the list already", "each topic in one bundle",
    ),
    _case(
        "repository: two bundles for all other topics", _REPOSITORY.replace("repository}", "repository, bundles:"
        " [{repositories: [R]}, {repositories: [S], topics: [t]}, §{repositories: [S]}]}"),
        "the topics that no bundle lists belong to bundle 1 of the list already", "each topic in one bundle",
    ),
    _case(
        "repository: a bundle without topics",
        _REPOSITORY.replace("repository}", "repository, bundles: [{repositories: [R], topics: §[]}]}"), "one or more",
    ),
    _build(
        "repository: a bundle of all", _REPOSITORY.replace("repository}", "repository, bundle_size: §2}"),
        "fewer than 2",
    ),
    _build(
        "repository: two words on bundles",
        _REPOSITORY.replace("repository}", "repository, bundle_size: §1, bundles: [{repositories: [R]}]}"),
        "leave one of the two out",
    ),
    _build(
        "repository: an owner that is a server",
        _REPOSITORY.replace("repository}", "repository, topics: {t: {owner: §R}}}"), "'R' is not a client", "X, Y",
    ),
    _build(
        "repository: a server that subscribes", _REPOSITORY + "workload: {subscriptions: [{at: §R, topic: t}]}\n",
        "'R' is not a client",
    ),
    _build(
        "repository: content without a topic beside topics",
        _REPOSITORY + "workload: {subscriptions: [§{at: X, where: a > 1}],"
        " publications: [{at: Y, round: 9, topic: t}]}\n",
        "asks for no topic",
    ),
    _build(
        "repository: a topic that nobody serves",
        _REPOSITORY.replace("repository}", "repository, bundles: §[{repositories: [R], topics: [u]}]}")
        + "workload: {subscriptions: [{at: X, topic: t}]}\n",
        "no repository serves topic 't'",
    ),
    _build(
        "repository: a client that waits for no answer",
        _REPOSITORY.replace("repository}", "repository, publisher_rounds: §1, tries: 1}")
        + "workload: {subscriptions: [{at: X, topic: t}]}\n",
        "'X' waits T_p (k + 1) = 2 rounds for an answer, which takes 4; allowed: 2 or more",
    ),
    _build(
        "repository: a publisher that seeks before an answer can arrive",
        _REPOSITORY.replace("repository}", "repository, failure_rounds: §3}")
        + "workload: {subscriptions: [{at: Y, topic: t}], publications: [{at: X, round: 1, topic: t}]}\n",
        "'X' waits T_fail = 3 rounds for an answer, which takes 4; allowed: 4 or more",
    ),
    *(
        _build(
            f"repository: the nearest repository {name}",
            _FAR.replace("publisher_rounds", f"{settings}publisher_rounds")
            + f"workload: {{subscriptions: [{{at: X, topic: t}}], calls: [{calls}]}}\n{faults}",
            "'X' waits T_p (k + 1) = 10 rounds for an answer, which takes 14; allowed: 7 or more",
        )
        for name, settings, calls, faults in (
            ("leaves", "", "{at: R, round: 50, kind: leave}", ""),
            ("is removed", "", "{at: S, round: 50, kind: remove, peer: R}", ""),
            ("crashes permanently", "", "", "faults: [{kind: crash, node: R, round: 50}]\n"),
            ("serves another topic", "bundles: [{repositories: [S], topics: [t]}, {repositories: [R]}], ", "", ""),
        )
    ),
    _build(
        "repository: members that count as down between two gossip messages",
        _REPOSITORY.replace("repository}", "repository, assist_rounds: §9, gossip_rounds: 10}")
        + "workload: {subscriptions: [{at: Y, topic: t}]}\n",
        "a member counts as down after T_assist = 9 rounds, and sends gossip every T_g = 10 rounds",
        "10 or more, or a lower gossip_rounds",
    ),
    _build(
        "repository: a bundle without repositories",
        _REPOSITORY.replace("repository}", "repository, bundles: §[{repositories: [], topics: [t]}]}")
        + "workload: {subscriptions: [{at: X, topic: t}]}\n",
        "no repository serves topic 't'",
    ),
    _build(
        "repository: all members join later",
        _REPOSITORY.replace("repository}", "repository, bundles: §[{repositories: [R]}]}")
        + _CALLED + "{at: R, round: 5, kind: join}]}\n", "from the start",
    ),
    _build(
        "repository: a client that leaves", _REPOSITORY + _CALLED + "{at: §X, round: 5, kind: leave}]}\n",
        "not a server",
    ),
    _build(
        "repository: steering to a client",
        _REPOSITORY + _CALLED + "{at: X, round: 5, kind: steer, topic: t, peer: §Y}]}\n",
        "not a server of the topic",
    ),
    _build(
        "repository: a registration for an open topic",
        _REPOSITORY + _CALLED + "{at: X, round: 5, kind: register, topic: §t, peer: Y, role: subscriber}]}\n",
        "open to everybody",
    ),
    _build(
        "repository: a registration by a stranger",
        _OWNED + _CALLED + "{at: §Y, round: 5, kind: register, topic: t, peer: Y, role: subscriber}]}\n", "'X' owns",
    ),
    _build(
        "repository: a repository that leaves twice",
        _REPOSITORY + _CALLED + "{at: R, round: 5, kind: leave}, {at: R, round: 9, kind: §leave}]}\n", "once",
    ),
    _build(
        "repository: a repository that removes itself",
        _REPOSITORY + _CALLED + "{at: R, round: 5, kind: remove, peer: §R}]}\n", "not a member of the caller's bundles",
    ),
    _build(
        "repository: a server outside the bundle that joins",
        _REPOSITORY.replace("repository}", "repository, bundle_size: 1}")
        + _CALLED + "{at: §S, round: 5, kind: join}]}\n",
        "'S' is not a member of a bundle", "one of R",
    ),
    _build(
        "repository: a server outside all bundles that is removed",
        _REPOSITORY.replace("repository}", "repository, bundles: [{repositories: [R]}]}")
        + _CALLED + "{at: R, round: 5, kind: remove, peer: §S}]}\n",
        "'S' is not a member of the caller's bundles other than the caller",
    ),
    _build(
        "repository: a server of another bundle that is removed",
        _REPOSITORY.replace(
            "repository}", "repository, bundles: [{repositories: [R]}, {repositories: [S], topics: [u]}]}"
        ) + _CALLED + "{at: R, round: 5, kind: remove, peer: §S}]}\n",
        "'S' is not a member of the caller's bundles other than the caller",
    ),
    _build(
        "repository: a server outside all bundles that removes",
        _REPOSITORY.replace("repository}", "repository, bundles: [{repositories: [R]}]}")
        + _CALLED + "{at: §S, round: 5, kind: remove, peer: R}]}\n", "'S' is not a member of a bundle", "one of R",
    ),
    _build(
        "repository: a repository that leaves before it joins",
        _REPOSITORY + _CALLED + "{at: R, round: 9, kind: join}, {at: R, round: §5, kind: leave}]}\n", "10 or later",
    ),
    *(
        _build(
            f"repository: {name}", _REPOSITORY + _CALLED + f"{{at: R, round: 9, kind: {first}}}, {second}]}}\n",
            f"is called in round {called}, and 'R' {moved} in round 9", allowed,
        )
        for name, first, second, called, moved, allowed in (
            ("a removal by a repository that joins", "join", "{at: R, round: §9, kind: remove, peer: S}", 9, "joins",
             "10 or later"),
            ("a removal before the repository joins", "join", "{at: S, round: §8, kind: remove, peer: R}", 8, "joins",
             "10 or later"),
            ("steering to a repository that joins", "join", "{at: X, round: §9, kind: steer, topic: t, peer: R}", 9,
             "joins", "10 or later"),
            ("a removal by a repository that leaves", "leave", "{at: R, round: §9, kind: remove, peer: S}", 9,
             "leaves or is removed", "an earlier round"),
            ("steering to a repository that has left", "leave", "{at: X, round: §12, kind: steer, topic: t, peer: R}",
             12, "leaves or is removed", "an earlier round"),
        )
    ),
    _build(
        "repository: a removal by a removed repository",
        _REPOSITORY + _CALLED
        + "{at: S, round: 5, kind: remove, peer: R}, {at: R, round: §7, kind: remove, peer: S}]}\n",
        "remove is called in round 7, and 'R' leaves or is removed in round 5", "an earlier round",
    ),
    _build(
        "repository: a registration for a topic without a bundle",
        _OWNED.replace("topics:", "bundles: §[{repositories: [R], topics: [u]}], topics:")
        + "workload: {calls: [{at: X, round: 5, kind: register, topic: t, peer: Y, role: subscriber}]}\n",
        "no repository serves topic 't'",
    ),
)  # fmt: skip
