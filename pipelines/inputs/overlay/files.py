"""Reads overlays and positions of nodes from files, archives and the package ``topohub``; detects file formats.

The formats of this module are edge lists in text or Parquet, Rocketfuel ``.graph``, and pssim. A parsed overlay is
cached until its file changes.
"""

from __future__ import annotations

import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import topohub

from pipelines.contract.settings import nfc
from pipelines.errors import DataFileError, first_line, listed, nearest
from pipelines.files import find_file
from pipelines.inputs.overlay.formats import READERS, positions, read_graph, weighted_graph
from pipelines.inputs.overlay.weighted import WeightedGraph, in_ms, merge_parallel, propagation_ms, unique_names
from pipelines.inputs.text_rows import (
    DST,
    SRC,
    FileTable,
    TextRows,
    are_numbers,
    cached_until_changed,
    column_indexes,
    decode,
    delay,
    is_link,
    is_number,
    open_data,
    split,
)
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
Lines = Iterator[tuple[int, str]]
_NO_LATENCY = "file.latency names no column, so every link takes 1 round"
_USUAL_NAMES = frozenset((*SRC, *DST))
_DEFAULT = ("src", "dst")
_SETTINGS = {"src", "dst", "latency", "latency_unit", "names"}
_REFUSED = {
    "edges": {"names"}, "parquet": {"names"}, "rocketfuel": _SETTINGS - {"latency_unit"},
    "pssim": _SETTINGS - {"latency_unit"},
}  # fmt: skip
"""The settings that files of a format do not have; graphs with attributes have no `src` and `dst`."""


def load_file(path: Path, spec: FileOverlay) -> WeightedGraph:
    """Returns the graph in the file `path`. Repeated calls return the same object until the file changes."""
    whole = spec.model_copy(update={"tree": None, "root": None})  # all trees of a graph share the parsed file
    return _load(path, whole, tuple(sorted(spec.model_fields_set & _SETTINGS)))


def read_bytes(path: Path) -> bytes:
    """Returns the content of the file `path`; decompresses ``.gz`` and ``.xz`` files."""
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
    refused = _REFUSED.get(kind, {"src", "dst"})
    for field in given:
        if field in refused:
            why = "is not an edge list: it has no column to name" if field != "names" else "has no attributes of nodes"
            raise DataFileError(f"{name}, read as {kind}, {why}; leave {field} out", field)
    if "latency_unit" in given and "latency" not in refused and spec.latency is None:
        message = "latency_unit is given without latency; name the column or attribute there, or leave it out"
        raise DataFileError(message, "latency_unit")
    try:
        if kind in READERS:
            return weighted_graph(read_graph(kind, content), spec)
        if kind in _PARSERS:
            return _PARSERS[kind](content, spec)
        return parse_text(content, "\t" if name.lower().endswith(".tsv") and b"\t" in content else None, spec)
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


def node_positions(spec: OverlaySpec, beside: Path | None) -> Mapping[str, tuple[float, float]]:
    """Returns a map from node name to (longitude, latitude) in degrees for the overlay `spec`.

    The map is empty unless the overlay is a topohub network, or a file with coordinates.
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
    return positions(read_graph(kind, content), spec.file.names) if kind in READERS else {}


@lru_cache(maxsize=1)
def hub_names() -> tuple[str, ...]:
    """Returns the names of all networks in the installed topohub, sorted, for example ``topozoo/Abilene``."""
    with as_file(files("topohub") / "data") as data:
        return tuple(sorted(path.relative_to(data).with_suffix("").as_posix() for path in data.rglob("*.json")))


@lru_cache(maxsize=256)
def load_hub(name: str) -> WeightedGraph:
    """Returns the topohub network `name`. Its latencies are computed from the lengths of the links."""
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


def parse_rocketfuel(content: bytes, columns: FileOverlay) -> WeightedGraph:
    """Reads a Rocketfuel ``.graph`` file. Nodes are named by their labels.

    The file has ``NODES n``, a header, n lines ``label x y``, ``EDGES m``, a header, and m lines ``label src dest
    weight bw delay``. The two directions of a link become one link with the smaller delay.
    """
    lines = _lines(content)
    sections = []
    for title, layout in (("NODES", "label x y"), ("EDGES", "label src dest weight bw delay")):
        total = _headed(lines, title)
        _next(lines, f"the header of {title}")
        sections.append(_rows(lines, layout, title, total))
    nodes, edges = sections
    index = {str(number): number for number in range(len(nodes))}
    names = unique_names([fields[0] for _, fields in nodes], index)
    return _simulated(lines, names, index, edges, columns, f"nodes are numbered 0 to {len(nodes) - 1}")


def parse_pssim(content: bytes, columns: FileOverlay) -> WeightedGraph:
    """Reads a topology of the pssim simulator. Nodes are named by their ids.

    The file has ``No of nodes:n``, ``No of edges:m``, ``Nodes:``, n lines ``id degree capacity``, ``Edges:``, and m
    lines ``id from to delay``.
    """
    lines = _lines(content)
    n_nodes, n_edges = _headed(lines, "No of nodes:"), _headed(lines, "No of edges:")
    _headed(lines, "Nodes:", has_count=False)
    index: dict[str, int] = {}
    for line, fields in _rows(lines, "id degree capacity", "Nodes:", n_nodes):
        if fields[0] in index:
            raise DataFileError(f"line {line}: node {fields[0]!r} is listed twice; ids are unique")
        index[fields[0]] = len(index)
    _headed(lines, "Edges:", has_count=False)
    edges = _rows(lines, "id from to delay", "Edges:", n_edges)
    return _simulated(lines, tuple(index), index, edges, columns, "an edge's ends are ids of the section Nodes:")


def _simulated(
    lines: Lines, names: tuple[str, ...], index: Mapping[str, int], edges: Sequence[tuple[int, list[str]]],
    columns: FileOverlay, allowed: str,
) -> WeightedGraph:  # fmt: skip
    for line, end in ((line, end) for line, fields in edges for end in fields[1:3]):
        if end not in index:
            raise DataFileError(f"line {line}: no node {end!r}; {allowed}")
    for line, text in lines:
        raise DataFileError(f"line {line}: {text[:60]!r} comes after the {len(edges)} edges that the file announces")
    ends = [(index[fields[1]], index[fields[2]]) for _, fields in edges]
    delays = np.array([delay(fields[-1], f"line {line}") for line, fields in edges], dtype=np.float64)
    return merge_parallel(names, ends, in_ms(delays, columns.latency_unit), is_directed=True)


def _lines(content: bytes) -> Lines:
    return ((i, line.strip()) for i, line in enumerate(decode(content).splitlines(), start=1) if line.strip())


def _next(lines: Lines, wanted: str) -> tuple[int, str]:
    try:
        return next(lines)
    except StopIteration:
        raise DataFileError(f"the file ends where {wanted} should come: it is cut short") from None


def _headed(lines: Lines, title: str, *, has_count: bool = True) -> int:
    shown = repr(f"{title} n" if has_count else title)
    line, text = _next(lines, shown)
    if not text.startswith(title):
        raise DataFileError(f"line {line}: {text[:60]!r} stands where {shown} should; is the number before it right?")
    count = text.removeprefix(title).strip()
    if has_count and not (count.isascii() and count.isdigit()):
        raise DataFileError(f"line {line}: {title!r} is followed by {count!r}; a whole number must follow")
    return int(count) if has_count else 0


def _rows(lines: Lines, layout: str, title: str, total: int) -> list[tuple[int, list[str]]]:
    rows = []
    for number in range(1, total + 1):
        line, text = _next(lines, f"entry {number} of {total} of the section {title}")
        fields = text.split()
        if len(fields) != len(layout.split()):
            message = f"line {line}: {text[:60]!r} is not entry {number} of {total} of the section {title}"
            raise DataFileError(f"{message}; an entry is '{layout}'")
        rows.append((line, fields))
    return rows


def parse_text(content: bytes, delimiter: str | None, columns: FileOverlay) -> WeightedGraph:
    """Parses an edge list in text. Nodes have ids in the order of their first appearance.

    If `delimiter` is `None`, the delimiter is detected. Whether the first line is a header is also detected; without a
    header, the columns are called 1, 2, 3 and so on. If ``columns.latency`` is `None`, each link has a latency of one
    round.
    """
    lines = split(decode(content), delimiter=delimiter)
    if len(lines.first) < 2 and not {columns.src, columns.dst} & {*lines.first}:
        raise DataFileError(f"line 1: {' '.join(lines.first)[:60]!r} has one cell; a link has two ends or more cells")
    if _is_matrix(lines):
        message = "as many cells a line as there are lines: this may be a matrix of latencies; name it with"
        raise DataFileError(f"{message} overlay.latency: {{matrix: ...}}, and give the links by another overlay")
    has_header = _has_header(lines, columns)
    column_names = lines.column_names(has_header=has_header)
    picked = _picked(column_names, columns, has_header=has_header)
    try:
        table = lines.table(column_names, skip=int(has_header))
    except pa.ArrowException as error:
        raise DataFileError(f"line {lines.numbers[0]} and after it: {error}") from error
    notes = []
    is_found = delimiter is None and lines.delimiter != ","
    is_guessed = (columns.src or columns.dst) is None and tuple(column_names[place] for place in picked[:2]) != _DEFAULT
    may_be_header = not has_header and not {columns.src, columns.dst, columns.latency}.isdisjoint(lines.first)
    if is_found or is_guessed or may_be_header or table.decimal_commas:
        ends = " and ".join(repr(column_names[place]) for place in picked[:2])
        named = f"a header, ends in columns {ends}" if has_header else f"no header, so ends in columns {ends}"
        named += "; the first line is a link" if may_be_header else ""
        points = f", decimal commas in {', '.join(table.decimal_commas)}" if table.decimal_commas else ""
        notes.append(f"the edge list has {lines.delimiter_name} between cells and {named}{points}")
    return _graph(replace(table, rows=table.rows.select(picked)), columns, notes)


def parse_parquet(content: bytes, columns: FileOverlay) -> WeightedGraph:
    """Reads an edge list in Parquet, with `columns` as in `parse_text`."""
    try:
        rows = pq.ParquetFile(BytesIO(content)).read()
        column_names = [nfc(name) for name in rows.column_names]
        picked = _picked(column_names, columns, has_header=True)
        cells = [pc.cast(rows.column(place), pa.string()) for place in picked]
    except DataFileError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataFileError(f"not a Parquet file that can be read: {first_line(error)}") from error
    return _graph(FileTable(pa.table(cells, [column_names[place] for place in picked])), columns, [])


def _is_matrix(lines: TextRows) -> bool:
    # A latency matrix is square and has an empty corner, or zeros on its diagonal.
    width = len(lines.first)
    if width < 3 or len(lines.lines) != width:
        return False
    diagonal = [row[place] for place, row in enumerate(lines.sample) if place < len(row)]
    return not lines.first[0] or all(is_number(cell) and float(cell) == 0 for cell in diagonal)


def _has_header(lines: TextRows, columns: FileOverlay) -> bool:
    first, given = lines.first, [name for name in (columns.src, columns.dst, columns.latency) if name is not None]
    if are_numbers(given, first):
        return False
    if given or any(title.lower() in _USUAL_NAMES for title in first):
        return True
    if is_link(first, lines.sample[1:]):
        return False
    shown = ", ".join(map(repr, first[:10]))
    raise DataFileError(
        f"the first line, {shown}, may be a header or a link; name the columns of the two ends with src and dst, "
        "or write src: '1' and dst: '2' for a file without a header", "src",
    )  # fmt: skip


def _picked(column_names: Sequence[str], columns: FileOverlay, *, has_header: bool) -> list[int]:
    latency = [] if columns.latency is None else [("latency", columns.latency, ())]
    wanted = [("src", columns.src, SRC), ("dst", columns.dst, DST), *latency]
    return column_indexes(column_names, wanted, has_header=has_header)


def _graph(table: FileTable, columns: FileOverlay, notes: list[str]) -> WeightedGraph:
    rows = table.rows
    if not rows.num_rows:
        raise DataFileError("the file has no link; an edge list has at least one row below the header")
    ends = [pc.utf8_normalize(pc.utf8_trim_whitespace(rows.column(i).combine_chunks()), form="NFC") for i in (0, 1)]
    for i, column in enumerate(ends):
        empty = pc.indices_nonzero(pc.fill_null(pc.equal(column, ""), True))
        if len(empty):
            where = table.place(empty[0].as_py())
            raise DataFileError(f"{where}: the column {rows.column_names[i]!r} is empty; a link has two ends")
    if all(pc.all(pc.match_substring_regex(column, r"^[0-9]+\.0$")).as_py() for column in ends):
        ends = [pc.utf8_slice_codeunits(column, 0, stop=-2) for column in ends]
        notes.append("the ends are numbers with .0, as pandas writes them, and are taken as whole numbers")
    both = pa.concat_arrays(ends)
    interleaved = both.take(pa.array(np.arange(len(both)).reshape(2, -1).T.ravel())).dictionary_encode()
    names, links = interleaved.dictionary.to_pylist(), interleaved.indices.to_numpy().astype(np.int64).reshape(-1, 2)
    if columns.latency is None:
        return merge_parallel(tuple(names), links, latency_note=_NO_LATENCY, notes=notes, is_directed=True)
    cells = rows.column(2).to_pylist()
    ms = np.array([delay("" if cell is None else cell, table.place(row)) for row, cell in enumerate(cells)])
    return merge_parallel(tuple(names), links, in_ms(ms, columns.latency_unit), notes=notes, is_directed=True)


_PARSERS = {"rocketfuel": parse_rocketfuel, "pssim": parse_pssim, "parquet": parse_parquet}
