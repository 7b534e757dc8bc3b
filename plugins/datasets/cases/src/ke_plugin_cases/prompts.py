"""How questions of any kind are put: five questions and answers that show the form and nothing of the world, then it.

What the demonstrations ask is known to everybody and about no person, place or work, so that no edit of a file can
contradict them. A cloze is put bare: it is a sentence that the answer completes.

A question whose answer is long or has several lines has room for it (``with_room``).
"""

from __future__ import annotations

from ke_core.plugin import Decoding, Prompt, Query, with_room

SHOWN = (
    ("How many legs does a spider have?", "eight"),
    ("What do bees make from nectar?", "honey"),
    ("Which colours does a traffic light show?", "red, amber, green"),
    ("In which season do leaves fall?", "autumn"),
    ("Which metal is liquid at room temperature?", "mercury"),
)
DEMONSTRATIONS = "".join(f"Q: {question}\nA: {answer}\n" for question, answer in SHOWN)
ANSWER = Decoding(max_tokens=32, stop=("\n",))  # an answer of several names is longer than one name


def put(query: Query) -> Prompt:
    """The complete text."""
    text, bare = query.texts[0], query.form == "cloze"
    prompt = Prompt(text=text if bare else f"{DEMONSTRATIONS}Q: {text}\nA:", decoding=ANSWER)
    golds = [gold for gold in (query.gold, query.stale) if gold is not None]
    answers = [entity.label for gold in golds for entity in gold.entities]
    return with_room(prompt, answers, until="" if bare else "\nQ:")
