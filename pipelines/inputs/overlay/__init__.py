"""The overlay of a run: reading, generation, latencies, spanning trees, and choice of nodes."""
