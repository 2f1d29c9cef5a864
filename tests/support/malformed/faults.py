"""Faults that must be rejected, as cases like those in `malformed.cases`."""

from __future__ import annotations

from support.malformed.case import HEAD, LINKS, refused as _case, refused_when_built as _build


def _faults(*items: str) -> str:
    return LINKS + "faults:\n" + "".join(f"  - {item}\n" for item in items)


def _replaced(*items: str) -> str:
    return _faults(*(f"{{kind: replace, {item}}}" for item in items)).replace("delta", "epidemic")


def _generated(settings: str, opening: str = "{") -> str:
    return _faults("{generate: " + opening + settings + "}}")


WRONG_LINK_FAULTS = (
    _case("a loss of no rate", _faults("§{kind: loss}"), "neither rate nor nth", "exactly one of them"),
    _case("a loss of both", _faults("{kind: loss, rate: §0.5, nth: 2}"), "has rate and nth", "exactly one"),
    _case(
        "a loss of one message in bursts",
        _faults("{kind: loss, nth: 1, burst: §{good: 2.0, bad: 2.0}}"),
        "exclude each other",
        "leave one",
    ),
    _case("a loss on a link by number", _faults("{kind: loss, nth: 1, links: §[[A, B]]}"), "one sender", "from and to"),
    _case("a loss of a receiver", _faults("{kind: loss, rate: 1.0, to: §B}"), "to belongs to nth", "add nth"),
    _case("a loss to its sender", _faults("{kind: loss, nth: 1, from: B, to: §B}"), "both 'B'", "two different"),
    _case("a loss to nobody", _faults("{kind: loss, nth: 1, to: §D}"), "'D'", "A, B, C"),
    _case("a late message in order", _faults("{kind: delay, nth: §1, rounds: [1, 2]}"), "overtake", "reorder: true"),
    _case("a loss of more than all", _faults("{kind: loss, rate: §1.5}"), "is 1.5", "from 0 to 1"),
    _case("a loss without a node", _faults("{kind: loss, rate: 1.0, links: [[A, §D]]}"), "'D'", "A, B, C"),
    _case("a loss of one end", _faults("{kind: loss, rate: 1.0, links: [§[A]]}"), "a list of 1", "a string"),
    _case(
        "a loss without a link", _faults("{kind: loss, rate: 1.0, links: [§[A, C]]}"), "no link", "linked with 'A': B"
    ),
    _case("a loss at a node", _faults("{kind: loss, rate: 1.0, links: [§[A, A]]}"), "to itself", "two different"),
    _case("a loss twice", _faults("{kind: loss, rate: 1.0, links: [[A, B], §[B, A]]}"), "number 1", "write each once"),
    _case("no links at all", _faults("{kind: loss, rate: 1.0, links: §[]}"), "an empty list", "one or more"),
    _case("a loss from nowhere", _faults("{kind: loss, rate: 1.0, direction: §forward}"), "where from", "add links"),
    _case(
        "a loss of no direction", _faults("{kind: loss, rate: 1.0, direction: §forwards}"), "did you mean 'forward'?"
    ),
    _case("a loss over at once", _faults("{kind: loss, rate: 1.0, round: 3, until: §3}"), "not after round 3", "4 or"),
    _case("a late loss", _faults("{kind: loss, rate: 1.0, round: §1001}"), "after the horizon", "0 to 1000"),
    _case("kinds twice", _faults("{kind: loss, rate: 1.0, kinds: [PUB, §PUB]}"), "there already", "each value once"),
    _case("no bad time", _faults("{kind: loss, rate: 1.0, burst: {good: 9, bad: §0.5}}"), "is 0.5", "from 1 to"),
    _case("half a burst", _faults("{kind: loss, rate: 1.0, burst: §{good: 9}}"), "lacks the key 'bad'", "mean number"),
    _case("a misspelt loss", _faults("{kind: §los, rate: 1.0}"), "did you mean 'loss'?"),
    _case("a pause of no start", _faults("§{kind: pause, node: A}"), "lacks the key 'round'", "the first round"),
    _case("a pause over at once", _faults("{kind: pause, node: A, round: 3, until: §2}"), "not after round 3", "4 or"),
    _case("a pause of a node of no link", _faults("{kind: pause, node: §D, round: 3, until: 9}"), "'D'", "A, B, C"),
    _case("a break of nothing", _faults("§{kind: break}"), "lacks the key 'links'", "the links, each [a, b]"),
    _case("a break at a rate", _faults("{kind: break, links: [[A, B]], §rate: 0.1}"), "no key 'rate'", "kind, links"),
    _case("a partition of nothing", _faults("§{kind: partition}"), "none of groups, links", "exactly one"),
    _case(
        "a partition both ways",
        _faults("{kind: partition, groups: [[A]], links: §[[A, B]]}"),
        "groups and links",
        "exactly one of",
    ),
    _case("a node in two groups", _faults("{kind: partition, groups: [[A, B], [§A]]}"), "group 1", "in one group"),
    _case("a group without a node", _faults("{kind: partition, groups: [[A], §[]]}"), "an empty list", "one or more"),
    _case("a group of no link", _faults("{kind: partition, groups: [[A, §D]]}"), "'D'", "A, B, C"),
    _case("a delay of one number", _faults("{kind: delay, rounds: §3}"), "is 3", "[a whole number from 0 to 1000"),
    _case("a delay backwards", _faults("{kind: delay, rounds: §[3, 1]}"), "3 is above", "low <= high"),
    _case("an endless delay", _faults("{kind: delay, rounds: [0, §1001]}"), "is 1001", "from 0 to 1000"),
    _case("an order of some", _faults("{kind: delay, rounds: [0, 3], kinds: §[PUB]}"), "overtake", "reorder: true"),
    _case("a copy of no rate", _faults("§{kind: duplicate}"), "neither rate nor nth", "exactly one of them"),
    _case("copies before", _faults("{kind: duplicate, rate: 1.0, after: [§-1, 0]}"), "is -1", "from 0 to 1000"),
    _case("breaks of no form", _generated("kind: break", "§{"), "none of count, rate", "exactly one"),
    _case("breaks of a pair", _generated("kind: break, count: 1, links: [[A, §D]]"), "'D'", "A, B, C"),
    _case("pauses for good", _generated("kind: pause, count: 1", "§{"), "never end", "set down"),
    _case(
        "pauses by turns for good",
        _generated("kind: pause, rate: {up: {kind: exponential, mean: 9}}", "§{"),
        "never end",
        "set rate.down",
    ),
    _case("pausing nodes of no kind", _generated("kind: pause, count: 1, nodes: §leafs"), "did you mean 'leaves'?"),
    _case("more than all in a group", _generated("kind: partition, count: 1, share: §1.5"), "is 1.5", "from 0 to 1"),
    _case("a generator of losses", _generated("kind: §loss, rate: 0.1"), "'loss'", "crash, break, pause, partition"),
    _case("a split of nothing", _faults("{kind: partition, groups: §[[A, B, C]]}"), "all nodes", "leave some"),
    _build("more breaks than links", _generated("kind: break, count: §3, links: [[A, B]]"), "room for 1", "a smaller"),
    _case("a link of nobody", _replaced("link: [A, §D], by: [A, C], round: 9"), "'D'", "A, B, C"),
    _case("half a replacement", _faults("§{kind: replace, link: [A, B], round: 9}"), "lacks the key 'by'", "the link"),
    _case("replaced at the start", _replaced("link: [A, B], by: [A, C], round: §0"), "is 0", "from 1"),
    _case("a late replacement", _replaced("link: [A, B], by: [A, C], round: §1001"), "after the horizon", "0 to 1000"),
    _build("a link that is none", _replaced("link: §[A, C], by: [A, C], round: 9"), "round 9", "linked with 'A': B"),
    _build(
        "a replacement of a link on a cycle",
        HEAD.replace("delta", "flooding") + "overlay: {links: [[A, B], [B, C], [C, A]]}\n"
        "faults: [§{kind: replace, link: [A, B], by: [A, C], round: 9}]\n",
        "the overlay has cycles",
    ),
    _build("no bridge", _replaced("link: [A, B], by: §[B, C], round: 9"), "one part of the tree is A", "the other"),
    _build(
        "a link before it is there",
        _replaced("link: [A, B], by: [A, C], round: 9, after: 5", "link: §[A, C], by: [A, B], round: 13"),
        "in round 13",
        "linked with 'A'",
    ),
    _build(
        "a link that is replaced later",
        _replaced("link: [A, B], by: [A, C], round: 9, after: 9", "link: [B, C], by: §[A, B], round: 12"),
        "in round 12",
        "replaced in round 18",
    ),
    _build(
        "a link that had a latency",
        _replaced("link: [A, B], by: [A, C], round: 9, latency: 3", "link: [A, C], by: [A, B], round: 13, latency: §4"),
        "had latency 1 before",
        "leave latency out",
    ),
    _build(
        "a protocol that keeps its overlay",
        LINKS + "faults:\n  §- {kind: replace, link: [A, B], by: [A, C], round: 9}\n",
        "protocol delta keeps its overlay",
        "allowed: protocol epidemic",
    ),
    _build("unknown kinds", _faults("{kind: loss, rate: 1.0, kinds: [§PUBS]}"), "did you mean 'PUB'?", "SUB, "),
)
WRONG_FAULTS = (
    *WRONG_LINK_FAULTS,
    _case("a fault of no kind", _faults("§{node: A, round: 3}"), "lacks the key 'kind'", "crash"),
    _case("an unknown fault", _faults("{kind: §crsh, node: A, round: 3}"), "'crsh'", "did you mean 'crash'?"),
    _case("a fault as a word", _faults("§crash"), "'crash'", "a mapping with the key", "kind"),
    _case("a crash of nobody", _faults("§{kind: crash, round: 3}"), "lacks the key 'node'", "the node that crashes"),
    _case("a crash at no time", _faults("§{kind: crash, node: A}"), "lacks the key 'round'", "a whole number from 0"),
    _case("a crash of a node of no link", _faults("{kind: crash, node: §D, round: 3}"), "'D'", "A, B, C"),
    _case("a recovery at once", _faults("{kind: crash, node: A, round: 3, until: §3}"), "not after round 3", "4 or"),
    _case("a late crash", _faults("{kind: crash, node: A, round: §1001}"), "after the horizon", "0 to 1000"),
    _case("a late recovery", _faults("{kind: crash, node: A, round: 9, until: §1001}"), "after the horizon", "0 to"),
    _case(
        "a crash of a node that is down",
        _faults("{kind: crash, node: A, round: §8, until: 20}", "{kind: crash, node: A, round: 3, until: 10}"),
        "down from round 3 on by number 2",
        "11 or later",
    ),
    _case(
        "a crash in the round of a recovery",
        _faults("{kind: crash, node: A, round: 3, until: 8}", "{kind: crash, node: A, round: §8}"),
        "recovers in round 8",
        "9 or later",
    ),
    _case(
        "a crash of a node that is gone",
        _faults("{kind: crash, node: A, round: 3}", "{kind: crash, node: A, round: §8}"),
        "stays down",
        "an until: before 8",
    ),
    _case(
        "an unknown key of a crash",
        _faults("{kind: crash, node: A, round: 3, §untl: 5}"),
        "did you mean 'until'?",
        "kind, node, round, until",
    ),
    _case("a misspelt generator", _faults("{§genrate: {}, generate: {kind: crash, count: 1}}"), "'generate'?"),
    _case("a generator of no form", _generated("kind: crash", "§{"), "none of count, rate, trace", "exactly one"),
    _case(
        "a generator of two forms",
        _generated("kind: crash, count: 1, rate: §{up: {kind: exponential, mean: 9}}"),
        "count and rate",
        "exactly one of",
    ),
    _case("a generator of an unknown kind", _generated("kind: §crahs, count: 1"), "did you mean 'crash'?"),
    _case("half a crash", _generated("kind: crash, count: §1.5"), "is 1.5", "a whole number from 0 to 10000"),
    _case("no down time", _generated("kind: crash, count: 1, down: [§0, 3]"), "is 0", "from 1"),
    _case("down times backwards", _generated("kind: crash, count: 1, down: §[9, 3]"), "9 is above", "low <= high"),
    _case("late generated crashes", _generated("kind: crash, count: 1, rounds: [3, §2000]"), "after the horizon"),
    _case("a spared node of no link", _generated("kind: crash, count: 1, spare: [A, §D]"), "'D'", "A, B, C"),
    _case("a crashing node of no link", _generated("kind: crash, count: 1, nodes: [§D]"), "'D'", "A, B, C"),
    _case("a node spared twice", _generated("kind: crash, count: 1, spare: [A, §A]"), "number 1", "each value once"),
    _case("a node both ways", _generated("kind: crash, count: 1, nodes: [A, B], spare: [§B]"), "in nodes and in spare"),
    _case("crashing nodes of no kind", _generated("kind: crash, count: 1, nodes: §leafs"), "did you mean 'leaves'?"),
    _case("room for nobody", _generated("kind: crash, count: 1, at_most: §0"), "too few", "1 or more, or count: 0"),
    _case(
        "a chain without room",
        _generated("kind: crash, count: 1, consecutive: 3, at_most: §2"),
        "too few for chains of 3",
        "3 or more",
    ),
    _case(
        "a recovery of no use", _generated("kind: crash, count: 1, recovery: §9"), "without at_most", "leave recovery"
    ),
    _case(
        "a chain longer than the rounds",
        _generated("kind: crash, count: 1, consecutive: 3, rounds: [5, 8], stagger: §2"),
        "takes 4 rounds",
        "round 5 to 8",
    ),
    _case(
        "down times for a rate",
        _generated("kind: crash, rate: {up: {kind: exponential, mean: 9}}, down: §[3, 5]"),
        "down belongs to count",
        "set rate.down",
    ),
    _case(
        "chains for a trace",
        _generated("kind: crash, trace: {path: a.tab}, consecutive: §3"),
        "consecutive belongs to count",
        "leave consecutive out",
    ),
    _case(
        "a rate without a time", _generated("kind: crash, rate: §{}"), "lacks the key 'up'", "a mapping with the key"
    ),
    _case(
        "an unknown distribution",
        _generated("kind: crash, rate: {up: {kind: §wiebull, shape: 1, scale: 2}}"),
        "did you mean 'weibull'?",
        "exponential, weibull, pareto, lognormal",
    ),
    _case(
        "a distribution without its numbers",
        _generated("kind: crash, rate: {up: §{kind: weibull, shape: 1}}"),
        "lacks the key 'scale'",
        "in rounds",
    ),
    _case("no time at all", _generated("kind: crash, rate: {up: {kind: exponential, mean: §0}}"), "is 0", "above 0"),
    _case(
        "an unknown trace format", _generated("kind: crash, trace: {path: a, format: §lnal}"), "did you mean 'lanl'?"
    ),
    _case(
        "a system of the archive",
        _generated("kind: crash, trace: {path: a, format: fta, system: §2}"),
        "belongs to format lanl",
    ),
)

FAULTS_NEED_BUILD = (
    _build("a missing trace", _generated("kind: crash, trace: {path: §no/such.tab}"), "no/such.tab", "tried"),
    _build(
        "a trace that is none",
        _generated("kind: crash, trace: {path: §a.csv}"),
        "a.csv",
        "its first line is 'x, y'",
        a_csv=b"x,y\n1,2\n",
    ),
    _build("a trace without bytes", _generated("kind: crash, trace: {path: §a.tab}"), "a.tab", a_tab=b""),
    _build("a trace that is not compressed", _generated("kind: crash, trace: {path: §a.xz}"), "a.xz", a_xz=b"x"),
    _build(
        "a trace without the system",
        _generated("kind: crash, trace: {path: a.csv, system: §4}"),
        "no system 4",
        "its systems: 2",
        a_csv=b"System,nodenumz,Prob Started,Prob Fixed\n2,0,1/1/2001 0:00,1/1/2001 1:00\n",
    ),
    _build("more crashes than nodes", _generated("kind: crash, count: §4"), "room for 3", "3 nodes", "a smaller count"),
    _build("everybody spared", _generated("kind: crash, count: 1, spare: §[A, B, C]"), "all 3 nodes", "at most 2"),
    _build(
        "a chain longer than any path", _generated("kind: crash, count: §1, consecutive: 4"), "4 neighbours", "room"
    ),
    _build(
        "a node that no overlay has",
        HEAD + "overlay: {generate: {kind: line, nodes: 3}}\nfaults: [{kind: crash, node: §N01, round: 3}]\n",
        "'N01'",
        "did you mean 'N1'?",
    ),
)
