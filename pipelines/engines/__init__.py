"""Starts Spark engines (classic Spark, Spark Connect, embedded Sail) and provides one interface to them."""
