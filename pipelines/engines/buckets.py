"""What the environment says of object stores, in the words of each engine.

Credentials, region and endpoint come from the environment, under the names that the tools of each cloud have for them.
"""

from __future__ import annotations

import os

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def endpoint() -> str | None:
    """Returns the endpoint that the environment names for S3, if it names one.

    Where it is one without TLS, clients of object stores may speak to it.
    """
    url = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    if url is not None and url.startswith("http://"):
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    return url


def hadoop_settings() -> dict[str, str]:
    """Returns Spark's settings for S3: where it is. Credentials are not among them: the JVM finds them itself."""
    settings = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    url = endpoint()
    if url is not None:
        settings |= {"spark.hadoop.fs.s3a.endpoint": url, "spark.hadoop.fs.s3a.path.style.access": "true"}
    return settings
