"""Ranks protocols and their settings on one scenario by the user's criteria."""
