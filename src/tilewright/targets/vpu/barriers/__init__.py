"""Barriers: from edges to virtual barriers, and from those to the physical ones of a machine."""
