"""Editor ``grace-like``: a codebook of keys and values in one layer, after GRACE. Importing it loads no torch."""

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl


@frozen(kw_only=True)
class GraceConfig:
    """Options of the method."""

    layer: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(0)),
        metadata={"help": "block whose MLP output is replaced; default: the block at three quarters of the depth"},
    )
    radius: float = field(
        default=1.0, validator=validators.gt(0), metadata={"help": "maximum distance at which a new key matches"}
    )
    steps: int = field(default=50, validator=validators.ge(1), metadata={"help": "Adam steps per value"})
    rate: float = field(default=1.0, validator=validators.gt(0), metadata={"help": "learning rate of Adam"})


def build(config: GraceConfig) -> Editor:
    """Build the editor, which loads torch."""
    from grace_like_codebook import GraceLike  # noqa: PLC0415  torch takes seconds

    return GraceLike(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register the method."""
    return [
        EditorSpec(
            name="grace-like",
            summary="a codebook in one layer: near a stored key, a trained value replaces the layer's output",
            config=GraceConfig,
            build=build,
            load=lambda editor, session, path: editor.load(session, path),
            cite="Hartvigsen et al.: Aging with GRACE: Lifelong Model Editing with Discrete Key-Value Adaptors. 2023.",
            needs_weights=True,
            adaptor=True,
            edited_form="cloze",
        )
    ]
