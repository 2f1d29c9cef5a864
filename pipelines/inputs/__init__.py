"""What runs are given: overlays, workloads and faults, drawn by hashes."""
