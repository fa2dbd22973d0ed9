"""Tries a receiver of notices: what it is told, how that is sent, and what it must make of it."""
