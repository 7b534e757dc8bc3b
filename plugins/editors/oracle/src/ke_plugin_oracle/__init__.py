"""Upper bound ``oracle``: answers with the gold answers, which the dataset provides as material."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl

ANSWERS = "answers"


def oracle(_config: object) -> tuple[str, ...]:
    """Return the gold material: the answers."""
    return (ANSWERS,)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``oracle``."""
    return [
        EditorSpec(
            name="oracle",
            summary="upper bound: answers every question with its gold answer",
            build="ke_plugin_oracle.editor:Oracle",
            needs_model=False,
            masks=True,
            own_prompt=True,
            oracle=oracle,
        )
    ]
