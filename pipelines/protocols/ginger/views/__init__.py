"""Views that know protocol ``ginger``."""
