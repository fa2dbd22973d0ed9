"""What a process tells those who watch it: log lines, metrics, traces. Nothing in here does any work."""
