"""What an editor that is trained learns from."""

from __future__ import annotations

from attrs import frozen

from ke_core.data.facts import Edit


@frozen(kw_only=True)
class TrainingExample:
    """An edit, other wordings of what it answers, and prompts whose answers it must leave alone.

    ``paraphrases`` may be questions. An edit that was read as a bare statement has no cloze.
    """

    edit: Edit
    paraphrases: tuple[str, ...] = ()
    locality: tuple[str, ...] = ()
