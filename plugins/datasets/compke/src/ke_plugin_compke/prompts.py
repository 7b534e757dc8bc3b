"""How questions are put: a few of our own, whose answers are lists with commas, then the question.

The paper does not print the prompt of its questions to a model without method. The demonstrations are about chemistry,
films and families, of which the atlas knows nothing; their facts are true.
"""

from __future__ import annotations

from ke_benchmarks import PromptFiles
from ke_core.plugin import Decoding, Parse, Prompt, Query

# Twelve names, the longest list that the builder makes, take about 60 tokens.
LIST = Decoding(max_tokens=80, stop=("\n\n", "\nQ:"))
LINE = Decoding(max_tokens=80, stop=("\n",))
WHOLE = Parse(until="")
"""A list may go over several lines: all that is written up to the next question is the answer."""
FILES = PromptFiles("ke_plugin_compke", ("questions.txt", "decompose.txt", "scoped.txt"))


def prompt(query: Query) -> Prompt:
    """The complete text; a cloze stands alone, since it is a sentence that the answer completes."""
    asked = query.texts[0]
    if query.form == "cloze":
        return Prompt(text=asked, decoding=LINE)
    return Prompt(text=f"{FILES.text('questions.txt')}\n\nQ: {asked}\nA:", decoding=LIST, parse=WHOLE)
