"""The JVMs that tests start."""

from __future__ import annotations

JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"}
"""Tests are over before a thorough compiler has earned its time back. By itself such a JVM keeps 48 MB of code, which
the tests fill: a tenth of its time went into looking for code to throw away."""
