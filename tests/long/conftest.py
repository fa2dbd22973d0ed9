"""The same processes as the shorter tests have."""

from tests.e2e.conftest import api, effects, other_api, own, town

__all__ = ["api", "effects", "other_api", "own", "town"]
