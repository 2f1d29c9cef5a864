"""The overlay of a run: files, generators, latencies, spanning trees, and the choice of nodes."""
