"""What grows, a module each: measured small and large in one run."""
