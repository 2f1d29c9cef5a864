"""Faults while rounds are made: crashes, pauses, link faults and links that change."""
