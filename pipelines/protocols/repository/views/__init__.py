"""Views that know protocol ``repository``."""
