"""Decide how to run: pilots tune the kernels and measure the path."""
