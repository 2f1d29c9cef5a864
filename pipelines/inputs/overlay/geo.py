"""Latencies of links from where their ends lie on the globe."""

from __future__ import annotations

import numpy as np

from pipelines.inputs.overlay.weighted import Floats

EARTH_RADIUS_KM = 6371.0
FIBRE_KM_PER_MS = 200.0
DETOUR = 1.3
FLOOR_MS = 0.5


def great_circle_km(latitude: Floats, longitude: Floats, to_latitude: Floats, to_longitude: Floats) -> Floats:
    """Returns the distances on a sphere of the Earth's mean radius (haversine formula).

    Args:
        latitude: Of the one ends, in degrees; NaN where it is not known, and the distance is NaN then.
        longitude: Likewise.
        to_latitude: Of the other ends.
        to_longitude: Likewise.
    """
    phi, to_phi = np.radians(latitude), np.radians(to_latitude)
    turn = np.radians(to_longitude) - np.radians(longitude)
    chord = np.sin((to_phi - phi) / 2.0) ** 2 + np.cos(phi) * np.cos(to_phi) * np.sin(turn / 2.0) ** 2
    km: Floats = 2.0 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))
    return km


def fibre_ms(km: Floats) -> Floats:
    """Returns one-way latencies of fibres by their lengths (200 km/ms)."""
    return km / FIBRE_KM_PER_MS


def propagation_ms(km: Floats) -> Floats:
    """Returns one-way latencies: light in fibre (200 km/ms) on a path 1.3 times the distance, at least 0.5 ms.

    Args:
        km: Distances; where one is NaN (an end without coordinates) the link gets the median
            of the others, or the floor if there are no others.
    """
    ms = np.maximum(fibre_ms(km) * DETOUR, FLOOR_MS)
    known = ~np.isnan(ms)
    return np.where(known, ms, np.median(ms[known]) if known.any() else FLOOR_MS)
