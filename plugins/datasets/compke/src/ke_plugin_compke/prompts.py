"""Few-shot prompts: our own questions whose answers are lists with commas, then the question.

The paper does not print its prompt for a model without a method. The demonstrations are true facts about chemistry,
films and families, which do not occur in the atlas.
"""

from __future__ import annotations

from ke_benchmarks import PromptFiles
from ke_core.plugin import Decoding, Parse, Prompt, Query

# Twelve names, the longest list that the builder makes, are about 60 tokens.
LIST = Decoding(max_tokens=80, stop=("\n\n", "\nQ:"))
LINE = Decoding(max_tokens=80, stop=("\n",))
WHOLE = Parse(until="")
"""A list may have several lines: everything before the next question is the answer."""
FILES = PromptFiles("ke_plugin_compke", ("questions.txt", "decompose.txt", "scoped.txt"))


def prompt(query: Query) -> Prompt:
    """Return the complete prompt. A cloze has no demonstrations: the answer completes its sentence."""
    asked = query.texts[0]
    if query.form == "cloze":
        return Prompt(text=asked, decoding=LINE)
    return Prompt(text=f"{FILES.text('questions.txt')}\n\nQ: {asked}\nA:", decoding=LIST, parse=WHOLE)
