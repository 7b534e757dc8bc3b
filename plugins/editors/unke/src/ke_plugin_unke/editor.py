"""UnKE's algorithm (Deng et al. 2025, section 3).

::

    for each edit:      z_i = h_i + argmin over delta of  mean_j -log P(o_j | question, o_1 .. o_{j-1}; h_i + delta)
                                                          + decay |delta| / |h_i|^2,   |delta| <= clamp |h_i|
                        (h_i: output of block L at the last token of the question; o: the tokens of the answer)
    then:               train all parameters of block L, ``block_steps`` steps of AdamW on
                            MSE(block(x_edit), y_edit) + MSE(block(x_keep), y_keep)
                        (x: inputs of the block for the questions and for texts to keep; y: its outputs before training,
                        with z_i at the last token of each question)

There are no left contexts, no KL term and no early stop.
"""

from __future__ import annotations

from ke_core.plugin import Details
from ke_weights.plugin import BlockEditor, LongAnswers


class Unke(BlockEditor):
    """Editor that writes long answers into one block."""

    def write(self, work: LongAnswers) -> Details:
        """Optimize one state for each answer, and train the block to output it."""
        return self.train(work, work.optimized())
