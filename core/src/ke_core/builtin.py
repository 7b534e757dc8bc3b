"""What the core itself brings, through the same hooks as any plugin: its commands and its model source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import hookimpl

if TYPE_CHECKING:
    import click

    from ke_core.specs import ModelSpec

COMMANDS = {
    "eval": "Edit a model, ask it a benchmark's questions, score its answers.",
    "demo": "Compare editors on a small embedded benchmark.",
    "sweep": "Run every combination of editors, datasets, models, sizes, seeds and options that FILE.toml lists.",
    "leaderboard": "Rank the finished runs in a folder, with intervals.",
    "edit": "Edit facts in a model, show its answers before and after, and write the edited model or a patch.",
    "patch": "Describe, apply, revert and compare patches: files of weight updates.",
    "verify": "Check a model edited by PATCH against a suite of facts; exit with 1 if a bound is missed.",
    "serve": "Answer over an OpenAI-compatible endpoint, with edits that can change while it runs.",
    "train": "Train what an editor must learn before it can edit.",
    "report": "Print the table of one run, or of several side by side; write HTML, LaTeX, CSV, Markdown.",
    "compare": "Pair the same queries of two runs, and say what differs by more than chance.",
    "import": "Take others' predictions into a run folder, judge them and score them.",
    "label": "Write a sheet of answers to be labelled by hand, and read it back with the judge's agreement.",
    "runs": "List the runs in a folder, show one, remove those that came to nothing.",
    "judge": "Judge the replies of a finished run again, with another judge.",
    "judges": "List judges, and check one against labels written by hand.",
    "reproduce": "Run a published table or figure again, and set each number beside the printed one.",
    "score": "Score a judged run again, with other metrics.",
    "audit": "Find what is wrong with a dataset of edits, and mend it.",
    "datasets": "List, fetch, check and export benchmarks, count and sample their cases.",
    "trace": "Find the layers that carry a fact from its subject to the answer.",
    "models": "List, fetch and describe models.",
    "stats": "Take second moments of a model's keys, list and verify them.",
    "show": "Describe one component: its options, citation and origin.",
    "doctor": "Check this installation: plugins, device, memory, caches, folders, what is configured.",
    "plugins": "List the installed plugins, what each brings, why one is broken; find, install and check plugins.",
    "new": "Write a plugin to start from: a distribution that passes its contract as it stands.",
}

MODULES = {"import": "importing"}
"""Where the module of a command is not called as it is."""


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the core's commands, each in a module of its own that is imported when the command is used."""
    from ke_core.cli.lazy import LazyCommand  # noqa: PLC0415  click is for the command line alone

    for name, summary in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_core.cli.{MODULES.get(name, name)}:command", summary))


@hookimpl
def ke_models() -> list[ModelSpec]:
    """Offer what transformers loads, ``hf:ID``, and what an OpenAI-compatible server serves, ``openai:ID``."""
    from ke_core.models.api.spec import openai_spec  # noqa: PLC0415  only a command that needs models reads them
    from ke_core.models.spec import hf_spec  # noqa: PLC0415  as above

    return [hf_spec, openai_spec]
