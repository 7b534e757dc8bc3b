"""What a server was asked, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ke_core.data.records import Usage
from ke_core.report.numbers import count_noun


def spent_words(lines: Sequence[Usage]) -> str:
    """The sums, and what they have cost as far as there is a price."""
    requests, retries = sum(one.requests for one in lines), sum(one.retries for one in lines)
    prompt, written = sum(one.prompt_tokens for one in lines), sum(one.tokens for one in lines)
    words = (
        f"{count_noun(requests, 'request')}, {retries:,} retried, {prompt:,} prompt tokens and {written:,} generated"
    )
    unmetered, unpriced = sum(one.unmetered for one in lines), sum(one.requests for one in lines if not one.priced)
    if unmetered:
        words += f" (without {count_noun(unmetered, 'answer')} that came without a count)"
    if any(one.priced for one in lines):
        words += f", which cost {sum(one.cost for one in lines):.4f}"
        words += f" (without {count_noun(unpriced, 'request')} made when no price was said)" if unpriced else ""
    return words
