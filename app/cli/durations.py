"""Times as people say them."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def spoken(seconds: float) -> str:
    """A duration in its two largest units: `1 d 4 h`, `12 s`."""
    left = round(max(seconds, 0))
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
