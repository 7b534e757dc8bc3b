"""Names that datasets, metrics and editors share: the aspects of probes, and the material about questions.

Classic metrics know the probes of a single edit by these aspects:

======================= ====== =========================================================================
aspect                  phase  queries
======================= ====== =========================================================================
efficacy                after  the edit's own fact, in the form in which the run asks for edited facts
efficacy-probability    after  its cloze: how probable is the new object, how probable the old one
paraphrase              after  the same fact in another wording: as a question, or the benchmark's own, one probe each
paraphrase-probability  after  these wordings, as they are asked: new object against old one
locality                both   clozes of the same relation about other subjects, answered as before
locality-probability    after  these clozes: their own object against the edit's new one
======================= ====== =========================================================================
"""

from __future__ import annotations

from attrs import frozen

from ke_core.spec.queries import EFFICACY

PARAPHRASE, LOCALITY = "paraphrase", "locality"
PORTABILITY, FLUENCY = "portability", "fluency"
"""Questions that follow from the edit (answered after); openings about its subject that are continued (both phases)."""
PROBABILITY = "-probability"
SINGLE_ASPECTS = tuple(name + how for name in (EFFICACY, PARAPHRASE, LOCALITY) for how in ("", PROBABILITY))
FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY = "perplexity-facts", "perplexity-counterfactuals"
QUESTION_ENTITIES = "question-entities"
"""The name of the material. Its value: the text of a question to what is said of its key entity."""
SUB_QUESTIONS = "sub-questions"
"""The name of the material. Its value: ``case/query`` to ``{phase: sub-questions in order}``."""


@frozen(kw_only=True)
class SubQuestion:
    """A single-hop question, and the answer of a model that knows every fact as it was before the edits.

    ``statement``: that answer as a sentence without full stop, where the question has a cloze; else the answer alone.
    """

    question: str
    answer: str
    statement: str
