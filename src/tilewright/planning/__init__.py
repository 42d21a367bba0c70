"""Machine-independent algorithms: memory planning, scheduling, bounds."""
