"""Overlay files: which reader takes which file, also out of archives; what was read is kept until the file changes."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path, PurePosixPath

from pipelines.errors import nearest
from pipelines.inputs.overlay.columns import Columns
from pipelines.inputs.overlay.edgelist import parse_parquet, parse_text
from pipelines.inputs.overlay.graphml import parse_graphml
from pipelines.inputs.overlay.routers import parse_pssim, parse_rocketfuel
from pipelines.inputs.overlay.weighted import ContentError, WeightedGraph
from pipelines.spec.overlay import FileOverlay

_FORMATS = (
    "GraphML (.graphml), Rocketfuel (.graph), pssim text (.txt), edge lists (.csv, .tsv, .parquet), "
    "each also with .gz or inside .tar.gz or .zip"
)
_ENDINGS = {
    ".graphml": "graphml",
    ".xml": "graphml",
    ".graph": "rocketfuel",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_BEGINNINGS = ((b"<", "graphml"), (b"NODES", "rocketfuel"), (b"No of nodes", "pssim"), (b"PAR1", "parquet"))
_NAMED = {
    "graphml": ("latency", "latency_unit"),
    **dict.fromkeys(("rocketfuel", "pssim"), ("latency_unit",)),
    **dict.fromkeys(("csv", "tsv", "parquet"), ("src", "dst", "latency", "latency_unit")),
}
"""Format → what a scenario may name in it."""


def load_file(path: Path, spec: FileOverlay) -> WeightedGraph:
    """Returns the graph in a file; the same object again as long as the file stays as it is.

    Args:
        path: The file that was found.
        spec: How to read it.

    Raises:
        ContentError: The file cannot be read, or not as what it seems to be.
    """
    try:
        stamp = path.stat()
    except OSError as error:
        raise ContentError(f"{path} cannot be read: {error.strerror}") from error
    columns = Columns(spec.src, spec.dst, spec.latency, spec.latency_unit)
    given = tuple(sorted(spec.model_fields_set & {"src", "dst", "latency", "latency_unit"}))
    return _load(path, stamp.st_mtime_ns, stamp.st_size, spec.member, columns, given)


def read_bytes(path: Path) -> bytes:
    """Returns a file's bytes, unpacked if its name ends in ``.gz``.

    Args:
        path: The file.

    Raises:
        ContentError: It cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ContentError(f"{path.name} cannot be unpacked: {error}") from error
    except OSError as error:
        raise ContentError(f"{path} cannot be read: {error.strerror or error}") from error


def graphml_text(path: Path, spec: FileOverlay) -> bytes | None:
    """Returns the bytes of a GraphML file, out of its archive; None where the file is of another format.

    Raises:
        ContentError: The file cannot be read.
    """
    name, content = _content(path, spec.member)
    return content if _format(name, content) == "graphml" else None


@lru_cache(maxsize=512)
def _load(
    path: Path, _mtime: int, _size: int, member: str | None, columns: Columns, given: tuple[str, ...]
) -> WeightedGraph:
    name, content = _content(path, member)
    if not content.strip():
        raise ContentError(f"{name} is empty; formats that can be read: {_FORMATS}")
    kind = _format(name, content)
    for field in given:
        if field not in _NAMED.get(kind, ()):
            raise ContentError(f"{name} is no edge list: it has no column to name; leave {field} out", field)
    if "latency_unit" in given and "latency" in _NAMED.get(kind, ()) and columns.latency is None:
        message = "latency_unit is given without latency; name the column or attribute there, or leave it out"
        raise ContentError(message, "latency_unit")
    try:
        return _parse(kind, content, columns)
    except ContentError as error:
        raise ContentError(f"{name}: {error}", error.field) from error


def _content(path: Path, member: str | None) -> tuple[str, bytes]:
    """Returns the name and the bytes of the file, or of one member of the archive that it is."""
    is_tar = path.name.endswith((".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"))
    if not is_tar and path.suffix != ".zip":
        if member is not None:
            raise ContentError(f"{path.name} is no archive and has no members; leave member out", "member")
        return path.name.removesuffix(".gz"), read_bytes(path)
    try:
        if is_tar:
            with tarfile.open(path) as tar:
                entry = _member(path, member, [item.name for item in tar if item.isfile()])
                stream = tar.extractfile(entry)
                return PurePosixPath(entry).name, stream.read() if stream else b""
        with zipfile.ZipFile(path) as archive:
            entry = _member(path, member, [name for name in archive.namelist() if not name.endswith("/")])
            return PurePosixPath(entry).name, archive.read(entry)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        cause = f"{error}".partition("\n")[0].rstrip(":") or type(error).__name__
        raise ContentError(f"{path.name} is no archive that can be unpacked: {cause}") from error


def _member(path: Path, member: str | None, entries: list[str]) -> str:
    """Returns the archive's entry of that path or file name."""
    names = [PurePosixPath(entry).name for entry in entries]
    found = [entry for entry, name in zip(entries, names, strict=True) if member in (entry, name)]
    if found:
        return found[0]
    if member is None and len(entries) == 1:
        return entries[0]
    some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    if member is None:
        raise ContentError(f"{path.name} holds {len(names)} files; say which with member, one of {some}", "member")
    raise ContentError(
        f"{path.name} has no member {member!r};{nearest(member, names)} it holds {len(names)}: {some}", "member"
    )


def _format(name: str, content: bytes) -> str:
    """Returns the format by the ending of the name, else by the first bytes."""
    by_ending = _ENDINGS.get(PurePosixPath(name.lower()).suffix)
    if by_ending is not None:
        return by_ending
    start = content[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    for beginning, kind in _BEGINNINGS:
        if start.startswith(beginning):
            return kind
    raise ContentError(f"{name} has no format that is known; formats that can be read: {_FORMATS}")


def _parse(kind: str, content: bytes, columns: Columns) -> WeightedGraph:
    if kind == "graphml":
        return parse_graphml(content, columns)
    if kind == "rocketfuel":
        return parse_rocketfuel(content, columns)
    if kind == "pssim":
        return parse_pssim(content, columns)
    if kind == "parquet":
        return parse_parquet(content, columns)
    return parse_text(content, "\t" if kind == "tsv" else ",", columns)
