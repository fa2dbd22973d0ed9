"""Pure values and rules: no I/O, no clock, no logging, no async."""
