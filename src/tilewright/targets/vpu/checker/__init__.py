"""The verifier: what is true of a task list under every timing. It shares no code with the scheduler."""
