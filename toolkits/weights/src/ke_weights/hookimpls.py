"""The commands of the weights toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, ModelFacts, Session, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    group.add_command(
        LazyCommand(
            "edit",
            "ke_weights.cli.edit:command",
            "Edit facts in a model, show its answers before and after, and write the edited model or a patch.",
        )
    )
    group.add_command(
        LazyCommand(
            "patch",
            "ke_weights.cli.patch:command",
            "Describe, apply, revert and compare patches: files of weight updates.",
        )
    )
    group.add_command(
        LazyCommand(
            "verify",
            "ke_weights.cli.verify:command",
            "Check a model edited by PATCH against a suite of facts; exit with 1 if a bound is missed.",
        )
    )
    group.add_command(
        LazyCommand("train", "ke_weights.cli.train:command", "Train what an editor must learn before it can edit.")
    )
    group.add_command(
        LazyCommand(
            "stats", "ke_weights.cli.stats:command", "Take second moments of a model's keys, list and verify them."
        )
    )
    group.add_command(
        LazyCommand(
            "trace", "ke_weights.cli.trace:command", "Find the layers that carry a fact from its subject to the answer."
        )
    )


@hookimpl
def ke_model_facts(session: Session[Any]) -> ModelFacts | None:
    """Return the shape, the scale of the states and the traced layers of a decoder."""
    if not hasattr(session.model, "module"):
        return None
    from ke_weights.facts import model_facts  # noqa: PLC0415  imports torch
    from ke_weights.modules import find_parts  # noqa: PLC0415  imports torch

    return model_facts(session, find_parts(session.model.module))
