"""Passes, one per file, named as the pass."""
