"""Protocol ``epidemic`` against a plain program that plays it one dispatcher and one message after the other."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from pipelines.execute import Experiment, execute
from pipelines.inputs import Inputs, build_inputs
from pipelines.scenario.expand import RunConfig
from pipelines.session import Session
from pipelines.store import Store
from tests.sequential_epidemic.network import Story, play
from tests.support import rows, run_configs, scenario

PREDICATES = ("x > 3", "x > 6", "x < 5", "x >= 0")
LOSS = {"kind": "loss", "rate": 0.15, "kinds": ["EVENT", "GOSSIP"]}
CRASHES = [
    {"kind": "crash", "node": "N2", "round": 25, "until": 40},
    {"kind": "crash", "node": "N5", "round": 30, "until": 33},
]
VARIANTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "no recovery": ({"recovery": "none"}, [LOSS]),
    "push": ({"recovery": "push"}, [LOSS]),
    "subscriber pull": ({"recovery": "subscriber_pull"}, [LOSS]),
    "publisher pull": ({"recovery": "publisher_pull"}, [LOSS]),
    "combined pull": ({"recovery": "combined_pull"}, [LOSS]),
    "push and pull": ({"recovery": "push_pull", "fanout": 2, "push_draw": "subscribers"}, [LOSS]),
    "without loss": ({"recovery": "push_pull"}, []),
    "unicast that loses": ({"recovery": "push_pull", "out_of_band_loss": 0.3, "out_of_band_rounds": 3}, [LOSS]),
    "small caches": ({"recovery": "push_pull", "buffer": 4, "eviction": "random"}, [LOSS]),
    "own events": ({"recovery": "combined_pull", "buffer": 6, "caching": "subscriber_or_source"}, [LOSS]),
    "foreign first": ({"recovery": "push", "buffer": 5, "eviction": "foreign_first", "push_patterns": "local"}, [LOSS]),
    "small LostBuffer": ({"recovery": "combined_pull", "lost_buffer": 2, "lost_rounds": 9}, [LOSS]),
    "at once": ({"recovery": "combined_pull", "gossip_on_detection": True, "gossip_rounds": 15}, [LOSS]),
    "adaptive": ({"recovery": "push_pull", "adaptive": True, "gossip_rounds_max": 16}, [LOSS]),
    "crashes": ({"recovery": "push_pull", "p_forward": 0.5}, CRASHES),
    "crashes and loss": ({"recovery": "combined_pull", "adaptive": True}, [*CRASHES, LOSS]),
}


def _scenario(place: int, settings: dict[str, Any], faults: list[Any]) -> dict[str, Any]:
    draw = random.Random(place)
    names = [f"N{n}" for n in range(1, 9)]
    subscriptions: list[dict[str, Any]] = [
        {"at": name, "round": draw.choice([0, 0, 1, 24]), "where": where}
        for name in names
        for where in draw.sample(PREDICATES, draw.choice([0, 1, 1, 2]))
    ]
    for row in draw.sample(subscriptions, 2):
        row["until"] = draw.randint(28, 40)
    publications = [
        {"at": at, "round": draw.randint(12, 45), "content": {"x": draw.randint(0, 9)}}
        for at in draw.sample(names, 3)
        for _ in range(12)
    ]
    latency = [draw.choice([1, 1, 2, 3]) for _ in names]
    links = [[name, names[draw.randint(0, n - 1)], latency[n]] for n, name in enumerate(names) if n]
    return scenario(
        protocol={"name": "epidemic", "gossip_rounds": 6, "push_rounds": 40, "lost_rounds": 40, **settings},
        overlay={"links": links}, workload={"subscriptions": subscriptions, "publications": publications},
        faults=faults, time={"rounds": 110},
    )  # fmt: skip


class Played:
    """The runs of all variants: as the engine tells them, and as the plain program does."""

    def __init__(self, store: Store, runs: list[RunConfig], inputs: Inputs) -> None:
        self.store, self.runs, self.inputs = store, runs, inputs
        head = ("run_id", "kind", "src", "dst", "sent_round", "source", "source_seq", "message_id", "fate")
        self.messages = rows(store, "message", *head)
        self.deliveries = rows(store, "delivery", "run_id", "subscriber", "source", "source_seq", "round", "hops")

    def story(self, run: RunConfig) -> Story:
        unicast = ("REQUEST", "REPLY")
        lost = Counter(row[1:8] for row in self.messages if row[0] == run.run_id and row[8] == "lost_link" and row[1] not in unicast)
        return play(run, self.inputs, lost, 110)

    def of_run(self, table: list[tuple[Any, ...]], run: RunConfig) -> list[tuple[Any, ...]]:
        return sorted((row[1:] for row in table if row[0] == run.run_id), key=repr)


@pytest.fixture(scope="module")
def played(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Played:
    scenarios = [_scenario(place, *variant) for place, variant in enumerate(VARIANTS.values())]
    runs = run_configs(scenarios)
    inputs = build_inputs(runs, None)
    store = Store(tmp_path_factory.mktemp("epidemic"), sail)
    sail.activate()
    execute(Experiment(runs, inputs, 50), sail, store, lambda progress: None)
    return Played(store, runs, inputs)


@pytest.mark.parametrize("place", range(len(VARIANTS)), ids=list(VARIANTS))
def test_the_engine_tells_what_the_plain_program_tells(played: Played, place: int) -> None:
    run = played.runs[place]
    story = played.story(run)
    assert played.of_run(played.messages, run) == sorted(story.messages, key=repr)
    assert played.of_run(played.deliveries, run) == sorted(story.deliveries, key=repr)


@pytest.mark.parametrize("place", range(len(VARIANTS)), ids=list(VARIANTS))
def test_dispatchers_end_with_the_same_caches_and_losses(played: Played, place: int) -> None:
    run = played.runs[place]
    story = played.story(run)
    cache = played.of_run(rows(played.store, "state_cache", "run_id", "node_id", "source", "source_seq"), run)
    assert set(cache) == {(node, *key) for node, keys in story.caches.items() for key in keys}
