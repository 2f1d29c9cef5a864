"""The self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann)."""
