"""Seeds of random choices that depend on what they are for, and on nothing else."""

from __future__ import annotations

from ke_core.plugin import digest


def derived_seed(**parts: object) -> int:
    """Return a seed that depends on all ``parts``, which are JSON values."""
    return int(digest(parts)[:15], 16)
