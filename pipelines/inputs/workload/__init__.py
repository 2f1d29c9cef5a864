"""Workloads: subscriptions, publications and joins from lists, files and generators."""
