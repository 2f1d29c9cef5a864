"""Protocols and settings ranked for one overlay, one workload and one schedule of faults."""
