"""Scenario files that must be rejected, each with the position and the words that the error message must contain.

In the strings, the mark ``§`` is the position at which the error is expected; the mark is not part of the file. Cases
with ``needs_build`` are valid files, but their overlay or workload cannot be built.
"""

from __future__ import annotations

from dataclasses import replace

from support.malformed.case import (
    HEAD,
    LINKS,
    MARK,
    Case,
    refused as _case,
    refused_bytes as _raw,
    refused_from_outside as _set,
    refused_when_built as _build,
)
from support.malformed.clients import CLIENTS_NEED_BUILD, WRONG_CLIENTS
from support.malformed.faults import FAULTS_NEED_BUILD, WRONG_FAULTS
from support.malformed.servers import SERVERS_NEED_BUILD, WRONG_SERVERS

__all__ = ["CASES", "LINKS", "Case"]

MOST_ROUNDS = "2147483647"


def _bomb() -> str:
    levels = [f"x{i}: &x{i} [" + ", ".join([f"*x{i - 1}"] * 9) + "]\n" for i in range(1, 9)]
    levels[3] = levels[3].replace("&x4", MARK + "&x4")
    return "x0: &x0 [a, a, a, a, a, a, a, a, a]\n" + "".join(levels)


NOT_READABLE = (
    _raw("empty file", b"", "1:1", "no scenario", "name, protocol and overlay"),
    _raw("only a comment", b"# nothing\n", "1:1", "no scenario"),
    _raw("a list", b"- name: t\n", "1:1", "a list of 1", "a mapping with the keys name, protocol, overlay"),
    _raw("a word", b"hello\n", "1:1", "'hello'", "a mapping"),
    _raw("Latin-1 bytes", b"name: t\n# caf\xe9\n", "2:6", "0xe9", "save the file as UTF-8"),
    _raw("UTF-16", "name: t\n".encode("utf-16"), "1:1", "not UTF-8"),
    _raw("a NUL", b"name: t\nprotocol: \x00\n", "2:11", "U+0000", "remove it"),
    _raw("a control character", b"name: \x1b[31mt\n", "1:7", "U+001B"),
    _raw("binary data", b"PAR1\x15\x04\x15\x10\x80\xff", "1:9", "not UTF-8"),
    _raw("larger than the limit", b"# " + b"x" * 10_000_001, "", "larger than 10 MB", "files of their own"),
    _case("a tab for indentation", "name: t\nprotocol:\n§\tname: delta\n", "spaces, not tabs"),
    _case("an open bracket", LINKS + "time: {rounds: 5\n§", "this is not YAML", "brackets"),
    _case("an open quote", "name: §'t\n".replace("§", "") + "protocol: 1\n§", "quoted scalar", "quotes"),
    _case("two colons", "name: t§: u\n", "mapping values", "quote"),
    _case("an unknown alias", "name: §*t\n", "undefined alias", "quote"),
    _case("two documents", LINKS + "§---\nname: u\n", "second YAML document", "one scenario"),
    _case("deep nesting", "name: " + "[" * 49 + "§" + "[" * 1000, "nested more than 50 deep"),
    _case("deep blocks", "- " * 50 + "§" + "- " * 2000, "nested more than 50 deep"),
    _case("an alias bomb", _bomb(), "aliases repeat more than 100000 values"),
    _case("a value inside itself", "name: §&n [*n]\n", "inside itself", "write the values out"),
    _case(
        "a Python tag", "name: §!!python/object/apply:os.system [ls]\n" + LINKS[8:], "the tag '!!python", "plain value"
    ),
    _case("a binary tag", "name: §!!binary aGk=\n" + LINKS[8:], "'!!binary'", "plain value"),
    _case("a merge key", LINKS + "time: {§<<: {rounds: 5}}\n", "merge keys", "write the keys out"),
    _case("a key twice", LINKS + "§name: u\n", "'name' already exists, in line 1", "each key once"),
    _case("a key twice inside", LINKS + "time: {rounds: 5, §rounds: 6}\n", "in line 4", "each key once"),
    _case("a truth value as key", LINKS + "§on: 1\n", "read as a truth value", "quote it: 'on'"),
    _case("a number as key", LINKS + "workload: {publications: [{at: A, content: {§1: 2}}]}\n", "quote it: '1'"),
)

WRONG_VALUES = (
    _case(
        "no protocol",
        "§name: t\noverlay: {links: [[A, B]]}\n",
        "lacks the key 'protocol'",
        "a mapping with the key name: one of delta, forwarding",
    ),
    _case(
        "no overlay", "§name: t\nprotocol: {name: delta}\n", "lacks the key 'overlay'", "links, file, topohub, generate"
    ),
    _case("no name", "§protocol: {name: delta}\noverlay: {links: [[A, B]]}\n", "lacks the key 'name'", "letters"),
    _case("a name with a slash", "name: §a/b\n" + LINKS[8:], "'a/b'", "letters, digits"),
    _case("a name of 101 letters", f"name: §{'a' * 101}\n" + LINKS[8:], "(101 characters)", "at most 100 letters"),
    _case("a name that is a number", "name: §5\n" + LINKS[8:], "is 5", "quote it: '5'"),
    _case("an unknown part", LINKS + "§tiem: {rounds: 5}\n", "no key 'tiem'", "did you mean 'time'?", "workload"),
    _case("an unknown engine", LINKS + "engine: §sprak\n", "'sprak'", "did you mean 'spark'?", "connect, local"),
    _case("an unknown protocol", LINKS.replace("delta", "§detla"), "'detla'", "did you mean 'delta'?", "forwarding"),
    _case("no space after a colon", LINKS + "time: {§rounds:5}\n", "no key 'rounds:5'", "a space after the colon of"),
    _case("a protocol without a name", LINKS.replace("{name: delta}", "§{delta: 1}"), "lacks the key 'name'", "delta"),
    _case(
        "a protocol as a word", LINKS.replace("{name: delta}", "§delta"), "a mapping with the key 'name'", "forwarding"
    ),
    _case("an unknown setting", LINKS.replace("delta}", "delta, §dleta: 1}"), "did you mean 'delta'?", "name, delta"),
    _case("another protocol's setting", LINKS.replace("delta}", "forwarding, §delta: 1}"), "no key 'delta'", "name"),
    _case("a setting out of bounds", LINKS.replace("delta}", "delta, delta: §11}"), "is 11", "from 0 to 10"),
    _case("a setting of the wrong type", LINKS.replace("delta}", "delta, delta: §'1'}"), "'1'", "without quotes"),
    _case("no rounds", LINKS + "time: {rounds: §0}\n", "is 0", f"from 1 to {MOST_ROUNDS}"),
    _case("half a round", LINKS + "time: {rounds: §1.5}\n", "is 1.5", "a whole number"),
    _case("rounds in words", LINKS + "time: {rounds: §many}\n", "'many'", "a whole number"),
    _case("a truth value for a number", LINKS + "time: {rounds: §yes}\n", "is yes", "a whole number"),
    _case("a huge whole number", LINKS + f"time: {{rounds: §1{'0' * 400}}}\n", "(401 characters)", f"to {MOST_ROUNDS}"),
    _case("more digits than a number has", LINKS + f"time: {{rounds: §{'9' * 5000}}}\n", "5000 digits", "too large"),
    _case("a huge time of a fault", LINKS + "faults: [{kind: crash, node: B, at_ms: §1e400}]\n", "1e400 is too large"),
    _case("a huge float", LINKS + "time: {round_ms: §1e400}\n", "1e400 is too large", "1e300"),
    _case("a huge duration", LINKS + f"time: {{round_ms: §1{'0' * 400}}}\n", "(401 characters)", "above 0 up to 1e+15"),
    _case("infinity", LINKS + "time: {round_ms: §.inf}\n", ".inf is not a finite number", "finite"),
    _case("not a number", LINKS + "time: {round_ms: §.nan}\n", ".nan is not a finite number", "finite"),
    _case("a negative duration", LINKS + "time: {round_ms: §-1}\n", "is -1", "above 0"),
    _case("octal", LINKS + "time: {rounds: §010}\n", "starts with 0", "without the 0"),
    _case("a date", LINKS + "time: {rounds: §2024-01-01}\n", "read as a date"),
    _case("an empty value", LINKS + "time: {rounds: §}\n", "is empty", "a whole number"),
    _case("a negative seed", LINKS + "runs: {seeds: [1, §-1]}\n", "runs.seeds.1 is -1", "from 0"),
    _case("no seeds", LINKS + "runs: {seeds: §[]}\n", "an empty list", "one or more"),
    _case("a seed twice", LINKS + "runs: {seeds: [1, 2, §1]}\n", "number 1 of the list", "each value once"),
)

WRONG_OVERLAYS = (
    _case("no source", HEAD + "overlay: §{start: joined}\n", "none of links, file, topohub, generate", "exactly one"),
    _case(
        "two sources", HEAD + "overlay: {links: [[A, B]], topohub: §{name: x}}\n", "links and topohub", "exactly one"
    ),
    _case("no links", HEAD + "overlay: {links: §[]}\n", "an empty list", "one or more"),
    _case("a link of one", HEAD + "overlay: {links: [[A, B], §[A]]}\n", "a list of 1", "a string"),
    _case("a link of five", HEAD + "overlay: {links: [[A, B], §[A, C, 1, 2, 3]]}\n", "a list of 5", "a whole number"),
    _case("a link as a word", HEAD + "overlay: {links: [§A-B]}\n", "'A-B'", "[a string"),
    _case("no latency", HEAD + "overlay: {links: [[A, B, §0]]}\n", "is 0", "from 1"),
    _case("a node called NO", HEAD + "overlay: {links: [[SE, §NO]]}\n", "quote it: 'NO'"),
    _case("a node called 1", HEAD + "overlay: {links: [[A, §1]]}\n", "quote it: '1'"),
    _case("a node without a name", HEAD + "overlay: {links: [[A, §'']]}\n", "is ''", "1 to 200 characters"),
    _case("a self-loop", HEAD + "overlay: {links: [[A, B], §[B, B]]}\n", "'B' to itself", "two different nodes"),
    _case("a link twice", HEAD + "overlay: {links: [[A, B], §[A, B, 2]]}\n", "number 1 of the list", "write each once"),
    _case("a link back", HEAD + "overlay: {links: [[A, B], §[B, A]]}\n", "number 1 of the list", "either direction"),
    _case("two parts", HEAD + "overlay: {links: §[[A, B], [C, D]]}\n", "2 parts", "'A', 'C'", "add links"),
    _case(
        "an unknown kind", HEAD + "overlay: {generate: {kind: §lin, nodes: 3}}\n", "did you mean 'line'?", "random_tree"
    ),
    _case("a line of no length", HEAD + "overlay: {generate: §{kind: line}}\n", "needs the key 'nodes'"),
    _case(
        "a grid of rows", HEAD + "overlay: {generate: §{kind: grid, rows: 3}}\n", "either rows and columns, or nodes"
    ),
    _case(
        "a huge grid", HEAD + "overlay: {generate: {kind: grid, rows: §9999, columns: 9999}}\n", "too many", "1000000"
    ),
    _case(
        "a random graph without odds", HEAD + "overlay: {generate: §{kind: erdos_renyi, nodes: 9}}\n", "'probability'"
    ),
    _case(
        "odds above one", HEAD + "overlay: {generate: {kind: erdos_renyi, nodes: 9, probability: §2}}\n", "from 0 to 1"
    ),
    _case(
        "a line with degrees", HEAD + "overlay: {generate: {kind: line, nodes: 9, max_degree: §3}}\n", "for random_tree"
    ),
    _case("a ring of two", HEAD + "overlay: {generate: {kind: ring, nodes: §2}}\n", "3 or more"),
    _case(
        "more links than nodes",
        HEAD + "overlay: {generate: {kind: barabasi_albert, nodes: 2, attach: §2}}\n",
        "less than",
    ),
    _case(
        "more nodes than can be", HEAD + "overlay: {generate: {kind: line, nodes: §10000000}}\n", "from 1 to 1000000"
    ),
    _case("a root without a tree", HEAD + "overlay: {topohub: {name: x, root: §A}}\n", "tree: shortest_path"),
    _case("an unknown tree", HEAD + "overlay: {topohub: {name: x, tree: §minimal}}\n", "did you mean 'minimum'?"),
    _case("two latencies", LINKS[:-2] + ", latency: {rounds: 1, ms: §2}}\n", "rounds and ms", "exactly one of"),
    _case("no latency given", LINKS[:-2] + ", latency: §{}}\n", "none of rounds, ms", "exactly one"),
    _case("latencies backwards", LINKS[:-2] + ", latency: {uniform: §[5, 3]}}\n", "5 is above", "low <= high"),
    _case("an unknown join root", LINKS[:-2] + ", start: joining, join_root: §X}\n", "'X'", "a node of overlay.links"),
    _case("a join root for nothing", LINKS[:-2] + ", join_root: §A}\n", "start: joining"),
)


def _subscription(rest: str) -> str:
    return LINKS + "workload:\n  subscriptions:\n    - " + rest + "\n"


WRONG_WORKLOADS = (
    _case("no node", _subscription("§{topic: x}"), "lacks the key 'at'", "the node that calls"),
    _case(
        "a node of no link",
        LINKS.replace("A, B", "Node1, B") + _subscription("{at: §Node2, topic: x}")[len(LINKS) :],
        "'Node2'",
        "did you mean 'Node1'?",
        "B, C, Node1",
    ),
    _case("neither topic nor where", _subscription("§{at: A}"), "needs a topic or a where"),
    _case("a topic that is a number", _subscription("{at: A, topic: §5}"), "quote it: '5'"),
    _case(
        "a bad operator", _subscription("{at: A, where: price §=> 10}"), "did you mean '>='?", "prefix suffix contains"
    ),
    _case(
        "a bad operator in quotes", _subscription('{at: A, where: "a = 1 and b §prefx x"}'), "did you mean 'prefix'?"
    ),
    _case("a predicate that ends early", _subscription("{at: A, where: price >§}"), "end of the text", "a number"),
    _case("an open quote in a predicate", _subscription("""{at: A, where: "s = §'x"}"""), "never closed"),
    _case("or", _subscription("{at: A, where: a = 1 §or b = 2}"), "allowed: and"),
    _case(
        "a predicate over two lines", _subscription("at: A\n      where: §|\n        a = 1\n        b = 2"), "column 7"
    ),
    _case("a huge number in a predicate", _subscription("{at: A, where: a > §1e999}"), "too large"),
    _case(
        "an end before the start",
        _subscription("{at: A, topic: x, round: 5, until: §5}"),
        "not after round 5",
        "6 or later",
    ),
    _case("a late subscription", _subscription("{at: A, topic: x, round: §1001}"), "after the horizon", "0 to 1000"),
    _case("a late end", _subscription("{at: A, topic: x, until: §2000}"), "after the horizon", "time.rounds"),
    _case("a negative round", _subscription("{at: A, topic: x, round: §-1}"), "is -1", "from 0"),
    _case(
        "a late publication",
        LINKS + "time: {rounds: 9}\nworkload: {publications: [{at: A, round: §10, topic: a}]}\n",
        "0 to 9",
    ),
    _case(
        "late generated publications",
        LINKS + "workload: {publications: {generate: {kind: topics, rounds: [0, §5000]}}}\n",
        "after the horizon",
    ),
    _case(
        "content that is a list",
        LINKS + "workload: {publications: [{at: A, content: {a: §[1]}}]}\n",
        "a list of 1",
        "a string",
    ),
    _case(
        "a topic in the content",
        LINKS + "workload: {publications: [{at: A, content: {topic: §x}}]}\n",
        "topic: beside at:",
    ),
    _case("a workload of no form", LINKS + "workload: {subscriptions: §{kind: topics}}\n", "a list of", "generate"),
    _case(
        "an unknown generator",
        LINKS + "workload: {subscriptions: {generate: {kind: §topic}}}\n",
        "did you mean 'topics'?",
    ),
    _case(
        "rounds backwards",
        LINKS + "workload: {subscriptions: {generate: {kind: quotes, rounds: §[5, 3]}}}\n",
        "low <= high",
    ),
    _case(
        "too few topics",
        LINKS + "workload: {subscriptions: {generate: {kind: topics, topics: 2, per_node: §3}}}\n",
        "at most 2",
    ),
    _case(
        "a range backwards",
        LINKS + "workload: {publications: {generate: {kind: content, attributes: {a: {low: §3, high: 2}}}}}\n",
        "low <= high",
    ),
    _case(
        "nodes of no kind",
        LINKS + "workload: {publications: {generate: {kind: topics, nodes: §leafs}}}\n",
        "did you mean 'leaves'?",
        "all, leaves",
    ),
    _case(
        "an unknown node among nodes",
        LINKS + "workload: {publications: {generate: {kind: topics, nodes: [A, §D]}}}\n",
        "'D'",
    ),
    _case("a file without a path", LINKS + "workload: {publications: {file: §{limit: 3}}}\n", "lacks the key 'path'"),
    _case(
        "a join without a link",
        LINKS + "workload: {joins: [{node: A, to: §C, round: 1}]}\n",
        "no link joins",
        "B, or add",
    ),
    _case("a join at itself", LINKS + "workload: {joins: [{node: A, to: §A, round: 1}]}\n", "at itself"),
    _case(
        "a join twice",
        LINKS + "workload: {joins: [{node: A, to: B, round: 1}, {node: §A, to: B, round: 2}]}\n",
        "joins twice",
    ),
)


WRONG_GRIDS = (
    _case("an unknown path", LINKS + "runs: {grid: {§protocol.dleta: [1]}}\n", "did you mean 'delta'?"),
    _case("the name varied", LINKS + "runs: {grid: {§name: [a, b]}}\n", "cannot be varied", "one name"),
    _case("the runs varied", LINKS + "runs: {grid: {§runs.seeds: [1, 2]}}\n", "cannot be varied"),
    _case("no values", LINKS + "runs: {grid: {protocol.delta: §[]}}\n", "an empty list", "one or more"),
    _case("a part twice", LINKS + "runs: {grid: {faults: [[], §[]]}}\n", "number 1", "each value once"),
    _case("a range that goes down", LINKS + "runs: {grid: {protocol.delta: {from: 2, to: §1}}}\n", "from 2 to 1"),
    _case("a range without an end", LINKS + "runs: {grid: {protocol.delta: §{from: 2}}}\n", "lacks the key 'to'"),
    _case("a range too fine", LINKS + "runs: {grid: {time.round_ms: {from: 1, to: 2, step: §1e-9}}}\n", "larger step"),
    _case(
        "a value of a range", LINKS + "runs: {grid: {protocol.delta: §{from: 9, to: 11}}}\n", "is 11", "from 0 to 10"
    ),
    _case("a part with a wrong value", LINKS + "runs: {grid: {time: [{rounds: 9}, {rounds: §0}]}}\n", "from 1"),
    _case("seeds without a number", LINKS + "runs: {seeds: §{from: 3}}\n", "lacks the key 'count'", "number of seeds"),
    _case("no seeds counted", LINKS + "runs: {seeds: {count: §0}}\n", "is 0", "from 1"),
    _case("one value", LINKS + "runs: {grid: {protocol.delta: §1}}\n", "is 1", "a list of"),
    _case("a value twice", LINKS + "runs: {grid: {protocol.delta: [1, 2, §1]}}\n", "number 1", "each value once"),
    _case(
        "a value that is a list", LINKS + "runs: {grid: {time.rounds: [§[1, 2]]}}\n", "a list of 2", "a whole number"
    ),
    _case("a value out of bounds", LINKS + "runs: {grid: {protocol.delta: [1, §99]}}\n", "is 99", "from 0 to 10"),
    _case(
        "a value that breaks another",
        LINKS + "workload: {publications: [{at: A, round: 40, topic: a}]}\nruns: {grid: {time.rounds: [50, §20]}}\n",
        "with time.rounds = 20",
        "(at ",
        ":4:42)",
    ),
    _case("an item that is not there", LINKS + "runs: {grid: {overlay.links.9.0: [§A]}}\n", "0 to 1"),
    _case(
        "too many runs",
        LINKS + f"runs: §{{seeds: {list(range(1001))}, grid: {{time.rounds: {list(range(9, 1009))}}}}}\n",
        "1001000 runs",
        "1000000",
    ),
)

WRONG_OVERRIDES = (
    _set("no value", "protocol.delta", "path=value"),
    _set("an unknown name", "protocol.dleta=1", "did you mean 'delta'?"),
    _set("an unknown part from outside", "tiem.rounds=1", "did you mean 'time'?"),
    _set("a wrong value", "protocol.delta=x", "'x'", "from 0 to 10"),
    _set("an empty value from outside", "time.rounds=", "is empty", "a whole number"),
    _set("an index that is not there", "overlay.links.7.0=A", "a list of 2", "0 to 1"),
    _set("a name for an index", "overlay.links.first=A", "is a list", "a number from 0"),
    _set("an item of a list that is missing", "faults.0.round=1", "0 is not an item of a list of 0"),
    _set("below a number", "time.rounds.x=1", "nothing inside"),
    _set("open YAML", "time.rounds=[1", "this is not YAML"),
    _set("a tag from outside", "time.rounds=!!python/name:os.system x", "the tag"),
    replace(_set("a link made a self-loop", "overlay.links.1.1=B", "'B' to itself"), place="3:27"),
)

_FILE = HEAD + "overlay: {file: {path: §"
_SUBSCRIBED = LINKS + "workload: {subscriptions: {file: {path: §"
_PUBLISHED = LINKS + "workload: {publications: {file: {path: §"
NEEDS_BUILD = (
    _build("a missing overlay file", _FILE + "no/such.graphml}}\n", "no/such.graphml", "tried"),
    _build("broken XML", _FILE + "a.graphml}}\n", "a.graphml", a_graphml=b"<graphml><graph>"),
    _build("a picture as an overlay", _FILE + "a.png}}\n", "a.png", a_png=b"\x89PNG\r\n\x1a\n"),
    _build("an empty edge list", _FILE + "a.csv}}\n", "a.csv", a_csv=b""),
    _build("an archive that is none", _FILE + "a.zip, member: x.graphml}}\n", "a.zip", a_zip=b"PK"),
    _build("a file that is no Parquet", _FILE + "a.parquet}}\n", "a.parquet", a_parquet=b"PAR1"),
    _build("an unknown network", HEAD + "overlay: {topohub: {name: §topozoo/Geant2021}}\n", "topozoo/Geant2021"),
    _build("a missing subscription file", _SUBSCRIBED + "no/such.csv, topic: t}}}\n", "no/such.csv", "tried"),
    _build("subscriptions without bytes", _SUBSCRIBED + "a.csv, topic: t}}}\n", "a.csv", a_csv=b""),
    _build("a missing publication file", _PUBLISHED + "no/such.csv, node: n}}}\n", "no/such.csv", "tried"),
    _build("publications that are no Parquet", _PUBLISHED + "a.parquet, node: n}}}\n", "a.parquet", a_parquet=b"PAR1"),
    _build("a missing latency file", LINKS[:-2] + ", latency: {matrix: §no/such.txt}}\n", "no/such.txt", "tried"),
)

CASES = (
    *NOT_READABLE, *WRONG_VALUES, *WRONG_OVERLAYS, *WRONG_WORKLOADS, *WRONG_CLIENTS, *WRONG_SERVERS, *WRONG_FAULTS,
    *WRONG_GRIDS,
    *WRONG_OVERRIDES, *NEEDS_BUILD, *CLIENTS_NEED_BUILD, *SERVERS_NEED_BUILD, *FAULTS_NEED_BUILD,
)  # fmt: skip
