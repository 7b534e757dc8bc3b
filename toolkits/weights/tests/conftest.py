from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_weights.rewrites import Rewrite


@pytest.fixture(autouse=True)
def _quick(one_thread: None) -> None:
    """Every test here runs torch on one thread."""


@pytest.fixture
def flip() -> Callable[[Path], None]:
    """Flip one bit in the last quarter of a file, which contains tensors."""

    def flipped(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) * 3 // 4] ^= 1
        path.write_bytes(content)

    return flipped


def _rewrite(prompt: str, subject: str, target: str) -> Rewrite:
    start = prompt.index(subject)
    return Rewrite(id=f"{subject}-{target}", prompt=prompt, span=(start, start + len(subject)), target=target)


@pytest.fixture
def rewrites() -> list[Rewrite]:
    """Subjects first, in the middle and last; targets of different lengths; prompts of different lengths."""
    return [
        _rewrite("The capital of France is", "France", "Rome"),
        _rewrite("Apple was created in the country of", "Apple", "Germany"),
        _rewrite("The mother tongue of Danielle Darrieux", "Danielle Darrieux", "English"),
        _rewrite("Ellie Kemper is married to", "Ellie Kemper", "W. G. Sebald"),
        _rewrite("The city of France is", "France", "Tokyo"),
    ]


@pytest.fixture
def templates() -> tuple[str, ...]:
    return ("{}", "The head of the state. {}", "I. {}", "Because it was, in the city of. {}")


@pytest.fixture
def snapshot() -> Any:
    """Return the fingerprint of a module, which must not change."""
    from ke_plugin_hf.fingerprint import fingerprint

    return fingerprint
