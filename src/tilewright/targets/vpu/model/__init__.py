"""Whole models on the VPU: what it takes, how the encoded level becomes a network, what is made."""
