"""The prompt for each kind of query (section 4.3 of the paper: direct, and with a chain of thought).

The paper prints no demonstrations and uses instruction-tuned models. Ours have one example of each scheme: true facts
about buildings, planets, books and music, which do not occur in the atlas.
"""

from __future__ import annotations

from ke_benchmarks import PromptFiles
from ke_core.plugin import Decoding, Parse, Prompt, Query

# Three names are about 30 tokens.
SHORT = Decoding(max_tokens=40, stop=("\n",))
THOUGHTS = Decoding(max_tokens=200, stop=("\n\n", "\nQuestion:"))
LAST_ANSWER = Parse(after="Answer:", until="\n")
FILES = PromptFiles("ke_plugin_recoe", ("direct.txt", "cot.txt"))


def prompt(query: Query, style: str) -> Prompt | None:
    """Return the complete prompt. Single facts and log-probabilities use the style direct only; a cloze has no
    demonstrations.
    """
    asked = query.texts[0]
    if style == "cot":
        if query.edit is not None or query.continuations:
            return None
        return Prompt(
            text=f"{FILES.text('cot.txt')}\n\nQuestion: {asked}\nThoughts:", decoding=THOUGHTS, parse=LAST_ANSWER
        )
    if query.form == "cloze":
        return Prompt(text=asked, decoding=SHORT)
    return Prompt(text=f"{FILES.text('direct.txt')}\n\nQuestion: {asked}\nAnswer:", decoding=SHORT)
