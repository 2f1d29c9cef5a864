"""Views that know protocol ``gossipsub``."""
