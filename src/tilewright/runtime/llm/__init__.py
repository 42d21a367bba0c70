"""Language models of fixed shapes: prefill, generate, caches. Start reading at `session.py`."""
