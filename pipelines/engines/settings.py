"""The settings of a local classic session, from `conf/spark/local.conf`, `conf/spark/small.conf` and the machine.

The region and the endpoint of object stores come from the environment variables of each cloud's own tools.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pipelines.files import find_file

# The JVM's heap gets a quarter of the memory. A JVM fills its heap before it collects garbage, and needs memory
# outside of the heap. This program, an embedded Sail and scratch folders in memory use the rest.
_MEMORY_SHARE = 4
_LARGEST_HEAP_MB = 8 * 1024
_SMALLEST_HEAP_MB = 1024
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def read_settings(file: Path) -> dict[str, str]:
    """Returns the settings of a file in the format of ``spark-defaults.conf``: key, white space, value."""
    settings = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and not words[0].startswith("#"):
            settings[words[0]] = words[1].strip()
    return settings


def shipped_settings() -> dict[str, str]:
    """Returns the settings of ``conf/spark/local.conf``."""
    return read_settings(find_file("conf/spark/local.conf", None))


def local_settings(scratch: Path, *, is_small: bool = False) -> dict[str, str]:
    """Returns the settings of a local session, without the class path; ``small.conf`` applies if ``is_small``."""
    cores = str(os.cpu_count() or 1)
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": "roundtable",
        "spark.sql.shuffle.partitions": cores,
        "spark.default.parallelism": cores,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **(read_settings(find_file("conf/spark/small.conf", None)) if is_small else {}),
        **shipped_settings(),
    }
    heap = None if _is_memory_chosen(settings) else heap_megabytes()
    return settings if heap is None else {**settings, "spark.driver.memory": f"{heap}m"}


def heap_megabytes() -> int | None:
    """Returns the JVM's heap size in MB, a share of the memory of the machine or container; None if it is unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text(encoding="ascii").strip() if limit.is_file() else "max"
    total = min(total, int(allowed)) if allowed.isdigit() else total
    return max(_SMALLEST_HEAP_MB, min(total // 1024**2 // _MEMORY_SHARE, _LARGEST_HEAP_MB))


def _is_memory_chosen(settings: Mapping[str, str]) -> bool:
    if "SPARK_DRIVER_MEMORY" in os.environ or "spark.driver.memory" in settings:
        return True
    folder = os.environ.get("SPARK_CONF_DIR")
    own = Path(folder, "spark-defaults.conf") if folder else None
    return own is not None and own.is_file() and "spark.driver.memory" in read_settings(own)


def endpoint() -> str | None:
    """Returns the S3 endpoint that the environment variables name; None if no variable names an endpoint.

    If the endpoint uses plain HTTP, the function sets AWS_ALLOW_HTTP, so that S3 clients accept it.
    """
    url = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    if url is not None and url.startswith("http://"):
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    return url


def hadoop_settings() -> dict[str, str]:
    """Returns Spark's settings for S3: file system class, region and endpoint. The JVM finds credentials itself."""
    settings = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    url = endpoint()
    if url is not None:
        settings |= {"spark.hadoop.fs.s3a.endpoint": url, "spark.hadoop.fs.s3a.path.style.access": "true"}
    return settings
