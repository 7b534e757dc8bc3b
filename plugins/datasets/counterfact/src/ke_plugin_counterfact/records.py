"""The published JSON, checked field by field; fields that we do not use are left alone."""

from __future__ import annotations

from attrs import field, frozen

from ke_benchmarks import all_said, labelled, said
from ke_core.plugin import one_slot

Text = str  # inside ``Target``, ``str`` is a field


@frozen(kw_only=True)
class Target:
    """An object: its label and its Wikidata id."""

    str: Text = field(validator=said)
    id: Text = field(validator=said)

    def __attrs_post_init__(self) -> None:
        """A label that Wikidata lacked is sometimes replaced by the id; nothing can be asked with that (X7)."""
        if self.str.strip() == self.id:
            raise ValueError(f"{self.id} has no label, only its Wikidata id")


@frozen(kw_only=True)
class Rewrite:
    """The edit: ``prompt`` with the subject, then ``target_new`` in place of ``target_true``."""

    prompt: str = field(validator=one_slot)
    relation_id: str = field(validator=said)
    subject: str = field(validator=labelled)
    target_new: Target
    target_true: Target

    def __attrs_post_init__(self) -> None:
        """Two objects of one spelling could not be told apart."""
        if self.target_new.str.strip() == self.target_true.str.strip():
            raise ValueError(f"target_new and target_true are both {self.target_new.str.strip()!r}")


@frozen(kw_only=True)
class Record:
    """One case. Neighbours share the edit's old object, the subjects of ``attribute_prompts`` its new one."""

    case_id: int
    requested_rewrite: Rewrite
    paraphrase_prompts: tuple[str, ...] = field(validator=all_said)
    neighborhood_prompts: tuple[str, ...] = field(validator=all_said)
    attribute_prompts: tuple[str, ...] = field(validator=all_said)
    generation_prompts: tuple[str, ...] = field(validator=all_said)
