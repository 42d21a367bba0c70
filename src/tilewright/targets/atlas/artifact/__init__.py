"""What Atlas makes of a model: code, regions, steps; how it is kept, checked, run and referred to."""
