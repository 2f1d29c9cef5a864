"""Views that know protocol ``delta``."""
