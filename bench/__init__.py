"""Measures the service beside the bare library, in one run, as ratios."""
