"""Views that know protocol ``epidemic``."""
