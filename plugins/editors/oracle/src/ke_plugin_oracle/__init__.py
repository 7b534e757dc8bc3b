"""Upper bound ``oracle``: answers with the gold answers, which the dataset provides as material."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, hookimpl

ANSWERS = "answers"


@frozen(kw_only=True)
class OracleConfig:
    """No options."""


def build(_config: OracleConfig) -> Editor:
    """Return the upper bound."""
    from ke_plugin_oracle.editor import Oracle  # noqa: PLC0415  built late

    return Oracle()


def oracle(_config: OracleConfig) -> tuple[str, ...]:
    """Return the gold material: the answers."""
    return (ANSWERS,)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``oracle``."""
    return [
        EditorSpec(
            name="oracle",
            summary="upper bound: answers every question with its gold answer",
            config=OracleConfig,
            build=build,
            needs_model=False,
            masks=True,
            own_prompt=True,
            oracle=oracle,
        )
    ]
