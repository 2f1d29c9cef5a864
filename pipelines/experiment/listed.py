"""Extracts one run as a scenario that lists its overlay, calls and faults explicitly, without generators and files.

A run of the extracted scenario writes the rows of the original run, because it has equal node ids, calls and random
draws.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.contract.predicate import TOPIC, canonical, parse_predicates
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.errors import Problem, check_run_id, raise_problems
from pipelines.experiment.build import build_run, build_run_overlay
from pipelines.experiment.manifest import Manifest
from pipelines.files import remembered
from pipelines.inputs.faults.build import concrete_faults
from pipelines.inputs.faults.links import stream_of
from pipelines.scenario.faults import Fault, LinkFaultSpec, Loss, MessageFault, Partition, Replace
from pipelines.scenario.load import RunConfig
from pipelines.scenario.overlay import OverlaySpec
from pipelines.store.roots import Root

Parts = dict[str, Any]
"""A scenario or a part of it, as parsed from YAML."""


def extracted(root: Root, run_id: int) -> Parts:
    """Returns a scenario that lists the overlay, calls and faults of one run of a store; the run may be unfinished.

    Raises:
        StoreError: The location is not a store, or the scenario, an input file or the program has changed.
        QueryError: The run does not exist.
    """
    manifest = Manifest.read(root)
    manifest.check_same(root, manifest.engine, "extracted")
    prepared = manifest.prepared()
    runs = prepared.runs
    check_run_id(run_id, range(len(runs)))
    with remembered(manifest.found()):
        return listed_scenario(runs[run_id], prepared.beside)


def listed_scenario(run: RunConfig, beside: Path | None) -> Parts:
    """Returns a scenario that lists the overlay, calls and faults of ``run``.

    ``beside`` is the folder of the original scenario file.

    Raises:
        InputError: The inputs of the run are invalid, or a scenario of one protocol cannot list them.
    """
    scenario = run.scenario
    overlay, workload, faults, _ = build_run(run, beside)
    # In a scenario with several protocols, faults are drawn for the overlay that all protocols share.
    shared = build_run_overlay(run, beside) if run.protocols else overlay
    raise_problems(_unlisted(run, shared, overlay))
    horizon = scenario.time.rounds
    listed = [*_node_faults(faults, overlay, horizon), *_other_faults(run, shared, overlay)]
    for place, fault in enumerate(listed):
        if fault.get("stream") == place:
            del fault["stream"]
    parts = {
        "name": f"{scenario.name}_run{run.run_id}",
        "protocol": scenario.protocol.model_dump(mode="json", by_alias=True),
        "overlay": listed_overlay(scenario.overlay, overlay),
        "workload": listed_workload(workload, overlay, horizon),
        "faults": listed,
        "time": {"rounds": horizon, "round_ms": scenario.time.round_ms},
        "runs": {"seeds": [run.seed]},
        "engine": scenario.engine,
    }
    return {name: part for name, part in parts.items() if part}


def listed_overlay(spec: OverlaySpec, overlay: Overlay) -> Parts:
    """Returns an overlay as lists of links, servers and clients; if it has no links, returns ``spec`` as a dict."""
    if not len(overlay.a):
        return spec.model_dump(mode="json", exclude_unset=True, by_alias=True)
    names, n_brokers = overlay.names, overlay.n_brokers
    there, back = overlay.directed_rounds.reshape(2, -1).tolist()
    rows = list(zip(overlay.a.tolist(), overlay.b.tolist(), there, back, strict=True))
    links = [[names[a], names[b], *link_latencies(rounds, back)] for a, b, rounds, back in rows if b < n_brokers]
    order = list(names[:n_brokers])
    parts: Parts = {"links": links}
    if not links:
        kept = spec.model_dump(mode="json", exclude_unset=True, by_alias=True)
        parts = {key: value for key, value in kept.items() if key not in ("servers", "clients", "latency")}
    elif list(dict.fromkeys(name for link in links for name in link[:2])) != order:
        parts["order"] = order
    attached = [
        {"name": names[b], "at": names[a], **({"latency": rounds} if rounds > 1 else {})}
        for a, b, rounds, _ in sorted(rows, key=lambda row: row[1]) if b >= n_brokers
    ]  # fmt: skip
    of = {"servers": attached[: overlay.n_servers], "clients": attached[overlay.n_servers :]}
    parts |= {key: nodes for key, nodes in of.items() if nodes}
    if spec.start != "joined":
        parts |= {"start": spec.start, "join_root": spec.join_root or names[0]}
    return parts


def link_latencies(there: int, back: int) -> list[int]:
    """Returns the items of a link in a scenario that follow the names of its ends."""
    return [there, back] if there != back else [there] if there > 1 else []


def listed_workload(workload: Workload, overlay: Overlay, horizon: int) -> Parts:
    """Returns the calls of a run up to the horizon as lists, in the order of the generators and input files."""
    names = overlay.names
    subscriptions = [
        {"at": names[row["node_id"]], "round": row["round"], **_asked(row["predicate"]),
         **({"until": row["end_round"]} if row["end_round"] is not None and row["end_round"] <= horizon else {})}
        for row in workload.subscription.to_pylist()
    ]  # fmt: skip
    publications = [
        {"at": names[row["node_id"]], "round": row["round"], **_published(row)}
        for row in workload.publication.to_pylist()
    ]
    joins = [
        {"node": names[row["node_id"]], "to": names[row["join_point"]], "round": row["round"]}
        for row in workload.join.to_pylist()
    ]
    calls = [
        {"at": names[row["node_id"]], "kind": row["kind"], "round": row["round"], **_other(row, names)}
        for row in workload.other_call.to_pylist()
    ]
    parts = {"subscriptions": subscriptions, "publications": publications, "joins": joins, "calls": calls}
    return {name: rows for name, rows in parts.items() if rows}


def _other(row: Mapping[str, Any], names: Sequence[str]) -> Parts:
    given = {"topic": row["topic"], "peer": None if row["peer"] is None else names[row["peer"]], "role": row["role"]}
    return {name: value for name, value in given.items() if value is not None}


def _asked(predicate: str) -> Parts:
    first, *others = parse_predicates(None, predicate)
    if (first.attribute, first.op) != (TOPIC, "=") or not first.value:
        return {"where": predicate}
    return {"topic": first.value, **({"where": canonical(others)} if others else {})}


def _published(row: Mapping[str, Any]) -> Parts:
    content = json.loads(row["content"])
    parts = {"topic": row["topic"], "content": content, "guarantee": row["guarantee"], "keys": row["keys"]}
    needed = "content" if row["topic"] is None else "topic"  # a scenario refuses a publication with neither of them
    return {name: value for name, value in parts.items() if value or name == needed}


def _unlisted(run: RunConfig, shared: Overlay, overlay: Overlay) -> Iterator[Problem]:
    name = run.scenario.protocol.name
    if shared.has_links and not overlay.has_links:
        message = f"protocol {name} builds its overlay of nodes of the shared overlay, which a scenario cannot list"
        yield Problem(("overlay",), f"{message}; allowed: a run of another protocol")
    is_other = shared.names != overlay.names or len(shared.a) != len(overlay.a)
    for number, fault in enumerate(run.scenario.faults):
        if isinstance(fault, Loss) and fault.burst is not None and is_other:
            message = f"bad periods are drawn for the links of the shared overlay, and protocol {name} has other links"
            yield Problem(("faults", number, "burst"), f"{message}; allowed: a run of another protocol")


def _node_faults(faults: Faults, overlay: Overlay, horizon: int) -> Iterator[Parts]:
    for kind, rows in (("crash", faults.crash), ("pause", faults.pause)):
        for row in rows.to_pylist():
            has_end = row["end_round"] is not None and row["end_round"] <= horizon
            until = {"until": row["end_round"]} if has_end else {}
            yield {"kind": kind, "node": overlay.names[row["node_id"]], "round": row["round"], **until}


def _other_faults(run: RunConfig, shared: Overlay, overlay: Overlay) -> Iterator[Parts]:
    """Yields all faults except crashes and pauses, as parts of the scenario.

    A message fault gets key ``stream``, which selects the random draws of the original fault. Without this key, the
    index of the fault in the list would select the draws.
    """
    for number, fault in enumerate(run.scenario.faults):
        for drawn in concrete_faults(fault, number, shared, run.seed, run.scenario.time.rounds):
            one = _within(overlay, drawn)
            if not isinstance(one, (LinkFaultSpec, Replace)):
                continue
            stream = {"stream": stream_of(one, number)} if isinstance(one, MessageFault) else {}
            yield {
                **one.model_dump(mode="json", exclude_defaults=True, by_alias=True, exclude={"at_ms", "until_ms"}),
                "kind": one.kind,
                **stream,
            }


def _within(overlay: Overlay, fault: Fault) -> Fault | None:
    """Returns ``fault`` without the nodes and links that ``overlay`` lacks; None if it does not affect ``overlay``."""
    names = {*overlay.names}
    if isinstance(fault, Partition) and fault.groups is not None:
        groups = [kept for group in fault.groups if (kept := [name for name in group if name in names])]
        is_split = len(groups) > 1 or (len(groups) == 1 and len(groups[0]) < len(names))
        return fault.model_copy(update={"groups": groups}) if is_split else None
    if isinstance(fault, MessageFault) and not {fault.sender, fault.receiver} - {None} <= names:
        return None
    if not isinstance(fault, LinkFaultSpec) or fault.links is None:
        return fault
    links = [link for link in fault.links if names.issuperset(link)]
    return fault.model_copy(update={"links": links}) if links else None
