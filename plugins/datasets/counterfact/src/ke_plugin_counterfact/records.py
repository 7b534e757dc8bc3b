"""The published JSON, validated field by field. Unused fields are ignored."""

from __future__ import annotations

from attrs import field, frozen

from ke_benchmarks import all_not_blank, has_label, not_blank
from ke_core.plugin import one_slot

Text = str  # inside ``CounterfactObject``, ``str`` is a field


@frozen(kw_only=True)
class CounterfactObject:
    """An object: its label and its Wikidata id."""

    str: Text = field(validator=not_blank)
    id: Text = field(validator=not_blank)

    def __attrs_post_init__(self) -> None:
        """Reject an id in place of a missing Wikidata label: no question can use it."""
        if self.str.strip() == self.id:
            raise ValueError(f"{self.id} has no label, only its Wikidata id")


@frozen(kw_only=True)
class CounterfactRewrite:
    """The edit: ``prompt`` with the subject, then ``target_new`` in place of ``target_true``."""

    prompt: str = field(validator=one_slot)
    relation_id: str = field(validator=not_blank)
    subject: str = field(validator=has_label)
    target_new: CounterfactObject
    target_true: CounterfactObject

    def __attrs_post_init__(self) -> None:
        """Reject two objects with the same spelling, apart from case."""
        if self.target_new.str.strip().casefold() == self.target_true.str.strip().casefold():
            raise ValueError(f"target_new and target_true are both {self.target_new.str.strip()!r}")


@frozen(kw_only=True)
class CounterfactRecord:
    """One case. Neighbors have the edit's old object, the subjects of ``attribute_prompts`` its new one."""

    case_id: int
    requested_rewrite: CounterfactRewrite
    paraphrase_prompts: tuple[str, ...] = field(validator=all_not_blank)
    neighborhood_prompts: tuple[str, ...] = field(validator=all_not_blank)
    attribute_prompts: tuple[str, ...] = field(validator=all_not_blank)
    generation_prompts: tuple[str, ...] = field(validator=all_not_blank)
