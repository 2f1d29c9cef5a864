"""The JVMs that tests start."""

from __future__ import annotations

JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Tests are over before a thorough compiler has earned its time back."""
