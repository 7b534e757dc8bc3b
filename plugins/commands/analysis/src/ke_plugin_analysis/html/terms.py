"""Definitions of the terms on the page, shown as tooltips and in a list at its end."""

from __future__ import annotations

from collections.abc import Mapping

from ke_core.app import Grid

STYLES: Mapping[str, str] = {
    "direct": "The question alone, or after few-shot examples, without a chain of thought.",
    "cot": "Chain of thought: the examples reason step by step before they answer (Wei et al. 2022).",
    "cloze": "A sentence that stops where the object starts.",
    "method's own": "The editor builds its prompts itself instead of using the benchmark's.",
}
VERDICTS: Mapping[str, str] = {
    "right": "The judge accepts the answer as the gold answer.",
    "wrong": "The judge accepts neither the gold answer nor the pre-edit answer.",
    "stale": "The pre-edit answer: it was right before the edit.",
    "unsure": "The judge could not decide. The answer is left out of scores.",
    "measured": "Log-probabilities, which are compared instead of judged.",
    "none": "There is no judgment for this answer.",
}
NAMES: Mapping[str, str] = {
    "editor": "An implementation of an editing method.",
    "prompt": "How a question is presented to the model: a style of the benchmark, or the method's own prompt.",
    "unedited": "The model before any edit.",
    "n": "The number of observations behind a score. Observations that could not be made are not in n.",
    "95 % interval": "The uncertainty of a score: a cluster bootstrap with 1,000 resamples, or the exact binomial "
    "interval if all observations are right or all are wrong.",
    "none": "Baseline: no edit is applied.",
    "parrot": "Baseline: repeats the object of the case's last edit for every question. A score below it shows no "
    "reasoning.",
    "oracle": "Upper bound: returns the gold answer to every question.",
    "hops": "The number of facts that connect the subject of a question to its answer.",
    "edits": "The number of edits of a case.",
    **STYLES,
}
COLUMNS: Mapping[str, str] = {
    "edit-wise": "Edits whose own fact is answered with the new object.",
    "instance-wise": "Cases in which every single-hop question of the chain is answered right.",
    "multi-hop": "Cases in which at least one wording of the multi-hop question is answered right.",
    "multi-hop-stale": "Cases in which no wording is answered right and at least one gets the pre-edit answer. Less is "
    "better.",
    "multi-hop-recalled": "Multi-hop accuracy on the cases whose facts the unedited model recalls.",
    "pre-edit-instance-wise": "Instance-wise accuracy of the unedited model, compared with the pre-edit answers.",
    "pre-edit-multi-hop": "Multi-hop accuracy of the unedited model, compared with the pre-edit answers.",
    "edit-retrieval": "Edits that the method retrieves first for their own question.",
    "retrieval": "Cases in which all edits are retrieved while one wording is answered.",
    "right-if-retrieved": "Multi-hop accuracy on the cases in which all edits are retrieved.",
    "hops-answered": "Hops whose answer one of the method's sub-questions gives.",
    "edit-weighed": "Hops whose edit is retrieved and whose new object the method gives.",
    "efficacy-probability": "Efficacy: after the prompt, the new object is more probable than the old one.",
    "efficacy": "Efficacy: the generated answer names the new object.",
    "paraphrase-probability": "After another wording, the new object is more probable than the old one.",
    "paraphrase": "The answer to another wording names the new object.",
    "locality-probability": "For another subject, its own object is more probable than the edit's new object.",
    "locality": "A prompt about another subject is continued with the same text as by the unedited model.",
    "locality-word": "A prompt about another subject is continued with the same first word as by the unedited model.",
    "efficacy-magnitude": "Probability of the new object minus that of the old one.",
    "paraphrase-magnitude": "After another wording: probability of the new object minus that of the old one.",
    "locality-magnitude": "For another subject: probability of its own object minus that of the edit's new object.",
    "portability": "Questions that follow from the edit and are answered right.",
    "fluency": "Entropy of bigrams and trigrams in texts about the subject.",
    "ripple": "Mean of the observed criteria.",
    "edit-success": "Edits whose own fact is answered with the new object.",
    "executed": "Tests that remain after the filters.",
    "correct-flip": "Questions that the unedited model answers right and the edited model answers with the "
    "counterfactual.",
    "aug": "Recall of the added answers.",
    "ret": "Recall of the retained answers.",
    "acc": "Mean of Aug and Ret.",
    "parrot-rate": "Wrong answers that repeat an injected object word for word.",
    "perplexity": "Perplexity of held-out passages that no edit is about.",
    "perplexity-ratio": "Perplexity of the edited model divided by that of the unedited one.",
    "next-word-kl": "KL divergence of the next-word distribution between the unedited and the edited model.",
    "unparsed": "Answers without the expected format. They count as wrong.",
    "cut-off": "Answers that reached the token limit or the limit of hops. They count as wrong.",
    "calls": "Model calls per question.",
    "prompt-tokens": "Prompt tokens per question.",
    "tokens": "Generated tokens per question.",
    "seconds": "Wall time per question. Answers from the completion cache are left out.",
    "cost.seconds": "Wall time per edit, without the first batch of a process.",
    "cost.first-seconds": "Wall time per edit of the first batch, which also computes statistics and templates.",
    "cost.passes": "Forward passes of the model per edit.",
    "cost.tokens": "Tokens in these forward passes.",
    "cost.memory": "Host memory above the level before the batch.",
    "cost.device-memory": "GPU memory above the level before the batch.",
}


class Terms:
    """Looks up definitions and records which ones the page uses. ``summaries``: editor to its one-line summary."""

    def __init__(self, summaries: Mapping[str, str]) -> None:
        self._summaries = summaries
        self.used: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Return the definition of an editor, a prompt style or another name; empty if there is none."""
        return self._use(name, NAMES.get(name) or self._summaries.get(name.split(",", maxsplit=1)[0], ""))

    def column(self, grid: Grid, index: int) -> str:
        """Return the definition of a column of numbers; empty if there is none."""
        if index >= len(grid.group):
            return ""
        column = grid.group[index]
        found = COLUMNS.get(f"{column.metric}.{column.aspect}") or COLUMNS.get(column.aspect, "")
        return self._use(column.heading, found)

    def _use(self, name: str, definition: str) -> str:
        if name and definition:
            self.used.setdefault(name, definition)
        return definition
