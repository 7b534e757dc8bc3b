"""How often models of this process are run: everything that feeds tokens to one counts itself here.

That is generation and scoring (``forward``), looking inside (``whitebox.hooks.forward``) and running the last layers
again and again (``whitebox.tail``). No hook on the model could count them: hooks are part of what the model computes.
"""

from __future__ import annotations

from attrs import define

from ke_core.plugin import ForwardCalls


@define
class ForwardCounter:
    """The count so far. A pass that does not go through every layer is one too."""

    passes: int = 0
    tokens: int = 0

    def add(self, tokens: int) -> None:
        """One more pass, over that many tokens."""
        self.passes += 1
        self.tokens += tokens

    def now(self) -> ForwardCalls:
        """What it stands at."""
        return ForwardCalls(passes=self.passes, tokens=self.tokens)


COUNTER = ForwardCounter()
