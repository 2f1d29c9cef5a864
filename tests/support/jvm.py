"""Environment variables for JVMs that tests start."""

from __future__ import annotations

JVM = {
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m "
    "-XX:InitialRAMPercentage=5 -XX:NewRatio=1 -XX:MetaspaceSize=320m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""JVM options for short runs: only the C1 compiler, because tests end before C2-compiled code repays its compilation.

With C1 alone, the default code cache is 48 MB. Tests fill it, and the JVM spent a tenth of its time sweeping it.

By default, a heap starts with 1/64 of the memory and classes with 21 MB. In two audits of 8 protocols, the JVM then
collects garbage 485 times, in a tenth of the time; with a larger heap, half of it for new objects, 65 times (8 % of
the memory). A heap never exceeds its own maximum.

The verification of the classes of a minimal session takes 1.2 of 11.2 CPU seconds.
"""
