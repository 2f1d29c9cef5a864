"""Starts an embedded Sail, a Spark Connect server that needs no JVM."""

from __future__ import annotations

import os
from contextlib import ExitStack

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from pipelines.engines.buckets import endpoint
from pipelines.engines.remote import connect
from pipelines.engines.sail_expressions import SendParsed
from pipelines.engines.workers import stop_workers
from pipelines.errors import EngineError

# Sail reads these when the server starts. Everything else was measured and changes nothing that can be told from noise.
_ENVIRONMENT = {
    "RUST_LOG": "off",
    # An idle session loses its views and state after 15 minutes otherwise.
    "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(365 * 24 * 3600),
    # Every round writes new files: without a limit the cache of their footers only grows.
    "SAIL_PARQUET__FILE_METADATA_CACHE__SIZE_LIMIT": str(64 * 1024**2),
}


def start_sail(closing: ExitStack) -> SparkSession:
    """Starts a server on a free loopback port and a session on it.

    Args:
        closing: Gets what stops both.

    Raises:
        EngineError: It does not listen.
    """
    for key, value in _ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    url = endpoint()
    if url is not None:  # Sail knows it by this name only
        os.environ.setdefault("AWS_ENDPOINT", url)
    server = SparkConnectServer()
    server.start(background=True)
    closing.callback(server.stop)
    closing.callback(stop_workers)  # before the server, which waits for the functions that wait for them
    address = server.listening_address
    if address is None:
        raise EngineError("Sail's server does not listen; run with --engine spark")
    return connect(f"sc://{address[0]}:{address[1]}", closing, is_near=True, interceptors=[SendParsed()])
