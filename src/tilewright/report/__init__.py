"""Pictures that explain what happened: traces, timelines, memory maps."""
