"""Starts an S3 server (moto) for tests, in a separate process: libraries block this one while they wait for answers."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import boto3

BUCKET = "studies"
SECRET = "never-to-be-written"  # noqa: S105 - of a server of tests
"""The secret key, which must not appear in a file or a message."""
_START_SECONDS = 120


@contextmanager
def s3_server() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields the address of an empty bucket, and the environment variables with which programs access it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    endpoint = f"http://127.0.0.1:{port}"
    variables = {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ENDPOINT": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": SECRET,
    }  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(port)
            with patch.dict("os.environ", variables):
                boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
            yield f"s3a://{BUCKET}", variables
        finally:
            server.kill()


def _wait(port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return
