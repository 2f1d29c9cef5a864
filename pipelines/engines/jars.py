"""Downloads the jars of Delta Lake and GraphFrames once into the user's cache; later starts need no network.

The Python packages contain no jars. Spark can download jars at each start, but this needs the network and prints pages
of output. So a child process downloads them once and writes an index file, which later starts read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from platformdirs import user_cache_path

from pipelines.engines.names import WITH_TESTED_SPARK, WITHOUT_JAVA, release
from pipelines.errors import EngineError

# Some Maven mirrors lack GraphFrames' own artifact; Sedona's artifact contains the classes that motifs need.
GRAPHFRAMES = ("io.graphframes:graphframes-spark4_2.13:0.12.3", "org.apache.sedona:sedona-spark-shaded-4.0_2.13:1.8.0")
# Packages that Spark contains in other versions.
_EXCLUDED = (
    "org.apache.hadoop:*,org.apache.parquet:*,org.apache.logging.log4j:*,org.slf4j:*,org.roaringbitmap:*,"
    "com.fasterxml.jackson.core:*,com.fasterxml.jackson.datatype:*,com.github.luben:*,org.xerial.snappy:*,io.airlift:*,"
    "commons-pool:*,commons-logging:*,com.google.code.findbugs:*,javax.annotation:*,org.locationtech.jts:*"
)
# The oldest Delta Lake for each Spark, newest Spark first. Spark 4.1.2 changed a constructor that Delta Lake 4.1 and
# 4.2 call.
_OLDEST_DELTA = (((4, 2, 0), (4, 4)), ((4, 1, 2), (4, 3)), ((4, 1, 0), (4, 1)), ((4, 0, 0), (4, 0)))
# Maps versions of Hadoop to the version of Amazon's SDK with which the S3 client is compiled. Hadoop 3.5.0 uses a
# constant that SDK 2.29 lacks.
_SDK = {"3.4.1": "2.24.6", "3.4.2": "2.29.52", "3.5.0": "2.35.4"}
# The parts of the SDK that the S3 client uses; the whole SDK has 600 MB.
_SDK_PARTS = ("s3", "s3-transfer-manager", "sts")
_S3_EXCLUDED = (
    "software.amazon.awssdk:bundle,org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime,"
    "org.apache.hadoop:hadoop-common,org.slf4j:*,software.amazon.encryption.s3:*,io.netty:*,org.wildfly.openssl:*"
)
_OF_CENTRAL = frozenset({"*", "central", "external:*"})
_S3_SCHEMES = ("s3", "s3a")
_CHILD = "import sys; from pipelines.engines.jars import fetch; fetch(*sys.argv[1:])"
_LONGEST_SECONDS = 900


def engine_jars(say: Callable[[str], None]) -> list[Path]:
    """Returns the jars that the classic engine needs in addition to Spark's own; downloads missing jars.

    ``say`` is called before a download.

    Raises:
        EngineError: The installed Delta Lake does not fit Spark, or the jars are not cached and cannot be downloaded.
    """
    check_delta(version("pyspark"), version("delta-spark"))
    fetching = partial(say, "fetching Delta Lake and GraphFrames for Spark (once; about 50 MB)")
    return _cached(_index_name(), GRAPHFRAMES, _EXCLUDED, "Delta Lake and GraphFrames", fetching)


def check_delta(spark: str, delta: str) -> None:
    """Checks that a version of Delta Lake runs on a version of Spark.

    Raises:
        EngineError: ``delta`` is too old for ``spark``.
    """
    oldest = next((needed for since, needed in _OLDEST_DELTA if release(spark) >= since), (0,))
    if release(delta) < oldest:
        needed = ".".join(map(str, oldest))
        raise EngineError(
            f"delta-spark {delta} does not run on pyspark {spark}, which needs delta-spark {needed} or newer; "
            f"{WITH_TESTED_SPARK}, {WITHOUT_JAVA}"
        )


def bucket_jars(scheme: str | None, say: Callable[[str], None]) -> list[Path]:
    """Returns the jars that Spark needs for a store whose address has scheme ``scheme``, as `engine_jars` does."""
    if scheme not in _S3_SCHEMES:
        return []
    fetching = partial(say, "fetching Hadoop's client of S3 for Spark (once; 15 MB)")
    sdk = _SDK.get(hadoop_version(), max(_SDK.values(), key=release))
    parts = [f"software.amazon.awssdk:{part}:{sdk}" for part in _SDK_PARTS]
    return hadoop_jars("hadoop-aws", parts, _S3_EXCLUDED, fetching)


def hadoop_jars(artifact: str, more: Sequence[str], excluded: str, fetching: Callable[[], None]) -> list[Path]:
    """Returns the jars of a Hadoop artifact that is not part of Spark, in the version of Spark's Hadoop.

    Args:
        artifact: Name of the artifact.
        more: Coordinates of additional required artifacts.
        excluded: Coordinates to exclude, comma-separated as in ``spark.jars.excludes``.
        fetching: Called before a download.

    Raises:
        EngineError: The jars are not cached and cannot be downloaded.
    """
    hadoop = hadoop_version()
    coordinates = f"org.apache.hadoop:{artifact}:{hadoop}"
    return _cached(f"{artifact}{hadoop}.json", [",".join([coordinates, *more])], excluded, coordinates, fetching)


def hadoop_version() -> str:
    """Returns the version of the Hadoop that the installed PySpark contains, from the name of Hadoop's jar.

    Raises:
        EngineError: PySpark contains no Hadoop.
    """
    import pyspark

    folder = Path(pyspark.__path__[0], "jars")
    for jar in folder.glob("hadoop-client-api-*.jar"):
        return jar.stem.removeprefix("hadoop-client-api-")
    raise EngineError(f"{folder} has no hadoop-client-api jar; reinstall pyspark, {WITHOUT_JAVA}")


def cached_jars() -> list[Path]:
    """Returns the engine's jars in the user's cache folder; empty before the first download."""
    return _listed(cache_folder() / _index_name())


def cache_folder() -> Path:
    """Returns the folder of jars and class archives in the user's cache."""
    return user_cache_path("roundtable") / "jars"


def _index_name() -> str:
    names = {"spark": "pyspark", "delta": "delta-spark", "graphframes": "graphframes-py"}
    return "-".join(f"{name}{version(package)}" for name, package in names.items()) + ".json"


def fetch(packages: str, excluded: str, ivy: str) -> None:
    """Downloads packages with Spark into folder ``ivy/jars``, Delta Lake together with an artifact of `GRAPHFRAMES`.

    ``packages`` and ``excluded`` are comma-separated coordinates. The function runs in a child process.
    """
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars.ivy", ivy)
        .config("spark.jars.excludes", excluded)
    )
    if packages in GRAPHFRAMES:
        from delta import configure_spark_with_delta_pip

        builder = configure_spark_with_delta_pip(builder, extra_packages=[packages])
    else:
        builder = builder.config("spark.jars.packages", packages)
    builder.getOrCreate().stop()


def _listed(index: Path) -> list[Path]:
    """Returns the jars in an index file; empty if the index or a jar is missing."""
    try:
        jars = [index.parent / name for name in json.loads(index.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []
    return jars if all(jar.is_file() for jar in jars) else []


def _cached(
    index_name: str, choices: Sequence[str], excluded: str, what: str, fetching: Callable[[], None]
) -> list[Path]:  # fmt: skip
    """Returns the jars in an index file of the cache folder; if a jar is missing, downloads them first.

    Calls `fetch` in child processes with each item of ``choices``, in order, until a call succeeds. The index is
    written last, so other processes see all jars or none.
    """
    cache = cache_folder()
    index = cache / index_name
    if found := _listed(index):
        return found
    fetching()
    causes = []
    try:
        cache.mkdir(parents=True, exist_ok=True)
        for packages in choices:
            with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as ivy:
                cause = _run_child(packages, excluded, ivy)
                if cause is None:
                    return _install(Path(ivy, "jars"), index)
            causes.append(cause)
            if "io.delta" in cause:
                break
    except OSError as error:
        raise EngineError(
            f"the jars cannot be stored in {cache}: {error.strerror or error}; correct the cause (on Linux, variable "
            f"XDG_CACHE_HOME names another folder), {WITHOUT_JAVA}"
        ) from error
    raise EngineError(
        f"the jars of {what} cannot be fetched from the Maven repository: {'; '.join(causes)}; "
        f"check the network or the mirror in ~/.m2/settings.xml, {WITHOUT_JAVA}"
    )


def _install(found: Path, index: Path) -> list[Path]:
    """Moves downloaded jars to a new folder and indexes them, unless another process has written the index."""
    if first := _listed(index):
        return first
    folder = Path(tempfile.mkdtemp(prefix="set-", dir=index.parent))
    jars = [folder / jar.name for jar in sorted(found.glob("*.jar"))]
    for jar in jars:
        shutil.move(found / jar.name, jar)
    part = folder.with_suffix(".part")
    part.write_text(json.dumps([f"{folder.name}/{jar.name}" for jar in jars]), encoding="utf-8")
    part.replace(index)
    return jars


def _run_child(packages: str, excluded: str, ivy: str) -> str | None:
    """Calls `fetch` in a child process; returns a one-line error, or None on success."""
    command = [sys.executable, "-c", _CHILD, packages, excluded, ivy]
    try:
        child = subprocess.run(  # noqa: S603 - this interpreter
            command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False, env=_environment()
        )
    except subprocess.TimeoutExpired:
        return f"no answer for {packages} in {_LONGEST_SECONDS} seconds"
    return None if child.returncode == 0 else _cause(child.stdout + child.stderr)


def _environment() -> dict[str, str]:
    """Returns the environment of a child process without this Spark session, and with the mirror of Maven Central."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PYSPARK_GATEWAY")
        and key not in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    }
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    mirror = central_mirror()
    if mirror:
        environment.setdefault("DEFAULT_ARTIFACT_REPOSITORY", mirror)
    return environment


def _cause(output: str) -> str:
    missing = re.search(r"\[(unresolved dependency.*?)\]", output)
    if missing:
        return missing.group(1)[:300]
    return error_line(output.splitlines())[:300]


def error_line(output: Iterable[str]) -> str:
    """Returns the first line of the output of Spark or Java that names an error, else the first line."""
    lines = [line.strip() for line in output if line.strip()]
    errors = [line for line in lines if re.search("rror|xception|^Invalid", line)]
    return (errors or lines or ["Spark ended without a message"])[0]


def central_mirror() -> str | None:
    """Returns the URL of the mirror of Maven Central, with a final slash; None if no ``settings.xml`` names a mirror.

    The user's settings take precedence over those of the Maven installation.
    """
    homes = [os.environ[name] for name in ("MAVEN_HOME", "M2_HOME") if os.environ.get(name)]
    if program := shutil.which("mvn"):
        homes.append(str(Path(program).resolve().parents[1]))
    files = (Path.home() / ".m2" / "settings.xml", *(Path(home, "conf", "settings.xml") for home in homes))
    return next(filter(None, map(mirror_in, files)), None)


def mirror_in(file: Path) -> str | None:
    """Returns the URL of the first mirror of Maven Central in a ``settings.xml``; None if the file names no mirror."""
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - the user's own settings
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        of = {word.strip() for word in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = (mirror.findtext("{*}url") or "").strip()
        is_blocked = (mirror.findtext("{*}blocked") or "").strip() == "true"
        if url and not is_blocked and of & _OF_CENTRAL and "!central" not in of:
            return url if url.endswith("/") else url + "/"
    return None
