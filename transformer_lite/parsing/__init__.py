"""Constituency parsing as translation into trees (Section 6.3)."""
