"""AnyEdit's algorithm (Jiang et al. 2025, section 4) with UnKE as its base editor.

::

    for each edit:      divide the answer into windows Y_1 .. Y_K of at most ``window`` tokens
        for k = 1 .. K:     z_k = h_k + argmin over delta of  mean over o_j in Y_k of
                                    -log P(o_j | question, Y_1 .. Y_{k-1}, o_1 .. o_{j-1}; z_1 .. z_{k-1}, h_k + delta)
                                  + decay |delta| / |h_k|^2,   |delta| <= clamp |h_k|
                            (h_k: output of block L at the token just before Y_k)
    then:               train block L as UnKE does, with z_1 .. z_K of every edit in their places
"""

from __future__ import annotations

from ke_core.plugin import Details
from ke_plugin_anyedit import AnyEditConfig
from ke_weights.plugin import BlockEditor, LongAnswers


class AnyEdit(BlockEditor):
    """Editor that writes long answers into one block, as one state per window."""

    config: AnyEditConfig

    def write(self, work: LongAnswers) -> Details:
        """Optimize one state for each window, and train the block to output them."""
        return self.train(work, work.optimized(window=work["window"], stop_loss=self.config.stop_loss))
