"""Control ``oracle``: it answers with the gold answer, which the dataset hands it as oracle material."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, hookimpl

ANSWERS = "answers"


@frozen(kw_only=True)
class OracleConfig:
    """No options."""


def build(_config: OracleConfig) -> Editor:
    """The control."""
    from ke_plugin_oracle.editor import Oracle  # noqa: PLC0415  built late

    return Oracle()


def oracle(_config: OracleConfig) -> tuple[str, ...]:
    """Gold answers are all it has."""
    return (ANSWERS,)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``oracle``."""
    return [
        EditorSpec(
            name="oracle",
            summary="control: every answer is the gold answer",
            config=OracleConfig,
            build=build,
            needs_model=False,
            masks=True,
            own_prompt=True,
            oracle=oracle,
        )
    ]
