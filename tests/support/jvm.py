"""Environment variables for JVMs that tests start."""

from __future__ import annotations

JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"}
"""JVM options for short runs: only the C1 compiler, because tests end before C2-compiled code repays its compilation.

With C1 alone, the default code cache is 48 MB. Tests fill it, and the JVM spent a tenth of its time sweeping it."""
