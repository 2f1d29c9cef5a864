"""What several tests and the scripts in `perf/` use."""
