"""The specification of a run, from what was resolved: everything that changes a reply, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from attrs import evolve

from ke_core.data.queries import Form
from ke_core.data.runspec import DataRef, ModelRef, Plan, RunSpec
from ke_core.errors import BadConfig
from ke_core.run.components import ResolvedComponent
from ke_core.specs import DatasetSpec, EditorSpec


def specify(
    *,
    model: ModelRef,
    editor: ResolvedComponent,
    rests_on: Mapping[str, str],
    dataset: ResolvedComponent,
    sha256: str,
    styles: tuple[str, ...],
    plan: Plan,
    edited_form: Form | None,
    seed: int,
    asks: tuple[DataRef, ...] = (),
) -> RunSpec:
    """``sha256`` is of what the dataset read. Without ``edited_form`` the editor's own is used.

    ``asks``: the metrics that ask something of every model, and what.
    """
    spec = editor.spec
    assert isinstance(spec, EditorSpec)
    return RunSpec(
        ke=version("ke-core"),
        model=model,
        editor=evolve(editor.component, rests_on=rests_on),
        dataset=DataRef(component=dataset.component, sha256=sha256),
        styles=styles,
        plan=plan,
        edited_form=edited_form or spec.edited_form,
        joint=not spec.one_at_a_time,
        oracle=tuple(sorted(spec.oracle(editor.config))),
        seed=seed,
        asks=asks,
        own_edits=spec.given_own_edits(editor.config),
    )


def choose_styles(spec: DatasetSpec, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The styles to ask in, in the dataset's order; all of them unless some are named. Raises BadConfig."""
    for style in wanted:
        if style not in spec.styles:
            raise BadConfig(f"dataset {spec.name} has no style {style!r}", hint=f"one of: {', '.join(spec.styles)}")
    return tuple(style for style in spec.styles if style in wanted or not wanted)
