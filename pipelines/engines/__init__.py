"""Engines: opens Spark sessions (classic, Connect, or embedded Sail), and hides their differences."""
