"""Broker overlays: read, generated, checked, and cut down to trees."""
