"""Runs what procedures ask for, many procedures at a time. Nothing here loads torch."""

from ke_core.engine.artifacts import ArtifactStore
from ke_core.engine.cache import CompletionCache
from ke_core.engine.direct import Direct
from ke_core.engine.engine import Engine
from ke_core.engine.serve import Stats

__all__ = ["ArtifactStore", "CompletionCache", "Direct", "Engine", "Stats"]
