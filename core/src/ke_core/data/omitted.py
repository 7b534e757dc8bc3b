"""Fields that came later: left out of JSON at their defaults, so that old hashes stay."""

from __future__ import annotations

from collections.abc import Mapping

OMITTED: Mapping[str, bool] = {"omitted": True}
"""Metadata of such a field."""
