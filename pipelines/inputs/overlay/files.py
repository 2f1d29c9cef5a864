"""Reads overlays and positions of nodes from files, archives and the package ``topohub``; detects file formats.

A parsed overlay is cached until its file changes.
"""

from __future__ import annotations

import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

import numpy as np
import topohub

from pipelines.errors import DataFileError, first_line, listed, nearest
from pipelines.files import find_file
from pipelines.inputs.overlay.formats import READERS, positions, weighted_graph
from pipelines.inputs.overlay.text_formats import parse_parquet, parse_pssim, parse_rocketfuel, parse_text
from pipelines.inputs.overlay.weighted import (
    WeightedGraph,
    merge_parallel,
    propagation_ms,
    unique_names,
)
from pipelines.inputs.text_rows import cached_until_changed, open_data, split
from pipelines.scenario.overlay import FileOverlay, OverlayFormat, OverlaySpec

_FORMATS = (
    "GraphML, GML, GEXF, Pajek, DOT, node-link JSON, SNDlib, DIMACS, Rocketfuel (.graph, .cch; Repetita's too), pssim, "
    "edge lists in text or Parquet, each also with .gz or .xz or inside .tar.gz or .zip"
)
_ENDINGS: Mapping[str, OverlayFormat] = {
    ".graphml": "graphml", ".gml": "gml", ".gexf": "gexf", ".net": "pajek", ".paj": "pajek", ".dot": "dot",
    ".gv": "dot", ".json": "json", ".cch": "cch", ".csv": "edges", ".tsv": "edges", ".edges": "edges",
    ".edgelist": "edges", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_BEGINNINGS: Sequence[tuple[str, OverlayFormat]] = (
    (r"<(?s:.*?<)?gexf\b", "gexf"), (r"<(?s:.*?<)?network\b", "sndlib"), (r"<", "graphml"), (r"\?SNDlib", "sndlib"),
    (r"NODES\s*\(", "sndlib"), (r"\{", "json"), (r"NODES\b", "rocketfuel"), (r"No of nodes", "pssim"),
    (r"PAR1", "parquet"), (r"\*(?i:vertices|network)", "pajek"),
    (r"(?i:strict\s+)?(?i:di)?(?i:graph)\s*(\w+|\"[^\"]*\")?\s*\{", "dot"), (r"(?s:.*?)\bgraph\s*\[", "gml"),
    (r"(c(\s[^\n]*)?\n\s*)*p\s+(edge|col|sp)\s", "dimacs"), (r"-?\d+\s+@\S", "cch"),
)  # fmt: skip
"""Regular expressions for the beginning of a file, each with the format of the files that it matches."""
_PARSERS = {"rocketfuel": parse_rocketfuel, "pssim": parse_pssim, "parquet": parse_parquet}
_TITLED = ("edges", "parquet")
_WITH_UNIT = ("rocketfuel", "pssim")
_SETTINGS = {"src", "dst", "latency", "latency_unit", "names"}


def _named(kind: str) -> set[str]:
    if kind in _TITLED:
        return _SETTINGS - {"names"}
    return {"latency_unit"} if kind in _WITH_UNIT else _SETTINGS - {"src", "dst"}


def load_file(path: Path, spec: FileOverlay) -> WeightedGraph:
    """Returns the graph in the file `path`. Repeated calls return the same object until the file changes.

    Raises:
        DataFileError: The file cannot be read, its format is unknown, or its content does not match its format.
    """
    whole = spec.model_copy(update={"tree": None, "root": None})  # all trees of a graph share the parsed file
    return _load(path, whole, tuple(sorted(spec.model_fields_set & _SETTINGS)))


def read_bytes(path: Path) -> bytes:
    """Returns the content of the file `path`; decompresses ``.gz`` and ``.xz`` files.

    Raises:
        DataFileError: The file cannot be read or decompressed.
    """
    try:
        with open_data(path) as stream:
            return stream.read()
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataFileError(f"{path.name} cannot be unpacked: {error}") from error
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}") from error


@cached_until_changed(maxsize=512)
def _load(path: Path, spec: FileOverlay, given: tuple[str, ...]) -> WeightedGraph:
    name, content = _content(path, spec.member)
    if not content.strip():
        raise DataFileError(f"{name} is empty; formats that can be read: {_FORMATS}")
    kind = spec.format or _format(name, content)
    for field in given:
        if field not in _named(kind):
            why = "is not an edge list: it has no column to name" if field != "names" else "has no attributes of nodes"
            raise DataFileError(f"{name}, read as {kind}, {why}; leave {field} out", field)
    if "latency_unit" in given and "latency" in _named(kind) and spec.latency is None:
        message = "latency_unit is given without latency; name the column or attribute there, or leave it out"
        raise DataFileError(message, "latency_unit")
    try:
        return _parse(kind, name, content, spec)
    except DataFileError as error:
        raise DataFileError(f"{name}: {error}", error.field) from error


def _content(path: Path, member: str | None) -> tuple[str, bytes]:
    is_tar = path.name.endswith((".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"))
    if not is_tar and path.suffix != ".zip":
        if member is not None:
            raise DataFileError(f"{path.name} is not an archive and has no members; leave member out", "member")
        return path.name.removesuffix(".gz").removesuffix(".xz"), read_bytes(path)
    try:
        if is_tar:
            with tarfile.open(path) as tar:
                entry = _member(path, member, [item.name for item in tar if item.isfile()])
                stream = tar.extractfile(entry)
                return PurePosixPath(entry).name, stream.read() if stream else b""
        with zipfile.ZipFile(path) as archive:
            entry = _member(path, member, [name for name in archive.namelist() if not name.endswith("/")])
            return PurePosixPath(entry).name, archive.read(entry)
    except DataFileError:
        raise
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        cause = first_line(error).rstrip(":")
        raise DataFileError(f"{path.name} cannot be unpacked as an archive: {cause}") from error


def _member(path: Path, member: str | None, entries: list[str]) -> str:
    names = [PurePosixPath(entry).name for entry in entries]
    found = [entry for entry, name in zip(entries, names, strict=True) if member in (entry, name)]
    if found:
        return found[0]
    if member is None and len(entries) == 1:
        return entries[0]
    shown = listed(names, 3)
    if member is None:
        raise DataFileError(f"{path.name} holds {len(names)} files; say which with member, one of {shown}", "member")
    raise DataFileError(
        f"{path.name} has no member {member!r};{nearest(member, names)} it holds {len(names)}: {shown}", "member"
    )


def _format(name: str, content: bytes) -> OverlayFormat:
    by_ending = _ENDINGS.get(PurePosixPath(name.lower()).suffix)
    if by_ending is not None:
        return by_ending
    start = content[:65_536].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    found = next(
        (kind for beginning, kind in _BEGINNINGS if re.match(rf"(?:[#%][^\n]*\n|\s)*(?:{beginning})", start)), None
    )
    if found is not None:
        return found
    if any(len(row) > 1 for row in split(start).sample):
        return "edges"
    raise DataFileError(f"{name} has an unknown format; set key format, or convert the file to one of: {_FORMATS}")


def _parse(kind: OverlayFormat, name: str, content: bytes, columns: FileOverlay) -> WeightedGraph:
    if kind in READERS:
        return weighted_graph(READERS[kind](content), columns)
    if kind in _PARSERS:
        return _PARSERS[kind](content, columns)
    return parse_text(content, "\t" if name.lower().endswith(".tsv") and b"\t" in content else None, columns)


def node_positions(spec: OverlaySpec, beside: Path | None) -> Mapping[str, tuple[float, float]]:
    """Returns a map from node name to (longitude, latitude) in degrees for the overlay `spec`.

    The map is empty unless the overlay is a topohub network, or a file with coordinates.

    Raises:
        DataFileError: The file does not exist, or cannot be read.
    """
    if spec.topohub is not None:
        nodes = topohub.get(spec.topohub.name)["nodes"]
        names = unique_names([node.get("name") for node in nodes], [str(node["id"]) for node in nodes])
        found = {name: node.get("pos") for name, node in zip(names, nodes, strict=True)}
        return {name: (float(place[0]), float(place[1])) for name, place in found.items() if place}
    if spec.file is None:
        return {}
    name, content = _content(find_file(spec.file.path, beside), spec.file.member)
    kind = spec.file.format or _format(name, content)
    return positions(READERS[kind](content), spec.file.names) if kind in READERS else {}


@lru_cache(maxsize=1)
def hub_names() -> tuple[str, ...]:
    """Returns the names of all networks in the installed topohub, sorted, for example ``topozoo/Abilene``."""
    with as_file(files("topohub") / "data") as data:
        return tuple(sorted(path.relative_to(data).with_suffix("").as_posix() for path in data.rglob("*.json")))


@lru_cache(maxsize=256)
def load_hub(name: str) -> WeightedGraph:
    """Returns the topohub network `name`. Its latencies are computed from the lengths of the links.

    Raises:
        DataFileError: topohub has no network of this name.
    """
    names = hub_names()
    if name not in names:
        raise DataFileError(_unknown(name, names), "name")
    topology = topohub.get(name)
    ids = [str(node["id"]) for node in topology["nodes"]]
    index = {node_id: i for i, node_id in enumerate(ids)}
    ends = [(index[str(edge["source"])], index[str(edge["target"])]) for edge in topology["edges"]]
    km = np.array([edge["dist"] for edge in topology["edges"]], dtype=np.float64)
    return merge_parallel(unique_names([node.get("name") for node in topology["nodes"]], ids), ends, propagation_ms(km))


def _unknown(name: str, names: tuple[str, ...]) -> str:
    by_last = {known.rpartition("/")[2].lower(): known for known in names}
    same = by_last.get(name.rpartition("/")[2].lower())
    hint = f" did you mean {same!r}?" if same else nearest(name, names)
    groups = ", ".join(dict.fromkeys(known.partition("/")[0] for known in names))
    return f"topohub has no network {name!r};{hint} its {len(names)} networks are in {groups}, e.g. {names[-1]!r}"
