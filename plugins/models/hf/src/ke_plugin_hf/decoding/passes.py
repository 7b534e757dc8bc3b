"""Count forward passes of the models in this process. All code that feeds tokens to a model adds to the count.

These are generation and scoring (``forward``), hooks (``ke_weights.hooks.forward``) and repeated passes of the last
layers (``ke_weights.tail``). Hooks on the model cannot count them, because hooks change the digest.
"""

from __future__ import annotations

from attrs import define

from ke_core.plugin import ForwardCalls


@define
class ForwardCounter:
    """The count so far. A pass through only some of the layers counts as one."""

    passes: int = 0
    tokens: int = 0

    def add(self, tokens: int) -> None:
        """Count one more pass with that many tokens."""
        self.passes += 1
        self.tokens += tokens

    def now(self) -> ForwardCalls:
        """The current count."""
        return ForwardCalls(passes=self.passes, tokens=self.tokens)


COUNTER = ForwardCounter()
