"""Bad input by the thousand: `benchmarks/fuzz.py` runs it, `tests/test_fuzzing.py` a small sample."""
