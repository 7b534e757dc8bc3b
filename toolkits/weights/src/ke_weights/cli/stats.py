"""``ke stats``: key covariances (second moments), which weight editors need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve

from ke_core.app import App, err, literal, model_choice, out, plain_table, progress
from ke_core.app import options as shared
from ke_core.plugin import BadConfig, cache_dir
from ke_weights.hyperparameters import TargetConfig

if TYPE_CHECKING:
    from rich.table import Table

    from ke_weights.covariance_files import CovarianceOrigin, StoredCovariance

DEFAULT = TargetConfig()
LAYERS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
MB = 1e6


@click.group("stats")
def command() -> None:
    """Compute and list key covariances.

    ROME, MEMIT, AlphaEdit and EMMET need C = E[k k^T], the second moment of the inputs of an MLP's last projection.
    Editors compute it when it is missing. These commands compute it in advance.

    \b
    Example: ke stats compute --model smollm2-135m --layers 4-8
    """


@command.command("compute")
@shared.model_options
@click.option("--layers", default="all", show_default=True, metavar="LIST", help="Layers: all, 4-8, or 4,5,6.")
@click.option("--tokens", default=DEFAULT.tokens, show_default=True, type=click.IntRange(1), help="Number of tokens.")
@click.option(
    "--text", default=DEFAULT.corpus, show_default=True, metavar="FILE|DATASET",
    help="Text: wordnet (in the package), a file, or a dataset of the hub (OWNER/NAME[:CONFIGURATION][@REVISION]).",
)  # fmt: skip
@click.option(
    "--document-length", default=DEFAULT.document_length, show_default=True, type=click.IntRange(1),
    help="Truncate documents to this number of tokens.",
)  # fmt: skip
@shared.json_option
@click.pass_obj
def compute(
    app: App, /, *, layers: str, tokens: int, text: str, document_length: int, as_json: bool, **given: Any
) -> None:  # fmt: skip
    """Compute key covariances for all layers in one pass over the text.

    Covariances in the cache are not computed again. The same command resumes an interrupted computation. An editor
    with the same text, tokens and document length uses them.

    \b
    Example: ke stats compute --model smollm2-135m --layers 4-8 --tokens 100000
    """
    wanted = parse_layers(layers)
    from ke_weights.covariance import CovarianceCache, CovarianceSettings, has_few_tokens  # noqa: PLC0415  imports torch
    from ke_weights.covariance_files import stored  # noqa: PLC0415  as above
    from ke_weights.editing import open_local_session  # noqa: PLC0415  as above
    from ke_weights.gram import passes  # noqa: PLC0415  as above
    from ke_weights.modules import module_map  # noqa: PLC0415  as above

    cache = CovarianceCache(CovarianceSettings(corpus=text, tokens=tokens, document_length=document_length))
    _ = cache.corpus  # report an unreadable text before loading the model
    with progress(err()) as shown:
        session = open_local_session(model_choice(given), app.catalog, shown)
        modules = module_map(session.model.module)
        chosen = wanted or tuple(range(len(modules.layers)))
        paths = cache.paths(session, modules, chosen)
        missing = cache.missing(session, modules, chosen)
        parts = passes(modules, missing)
        if len(parts) > 1:
            err().print(f"memory holds {len(parts[0])} of {len(missing)} layers at a time: {len(parts)} passes")
        cache.take(session, modules, chosen)
    made = [one for one in stored(_folder()) if one.path in paths.values()]
    origin = made[0].origin
    if origin.tokens < tokens:
        words = f"{origin.corpus} has only {origin.tokens:,} of the {tokens:,} requested tokens"
        err().print(literal(words), soft_wrap=True)
    if few := has_few_tokens(origin.tokens, modules.inner):
        words = f"warning: {few} (use more --tokens, and a longer --text)"
        err().print(literal(words, "bold red"), soft_wrap=True)
    err().print(f"{len(missing)} computed, {len(chosen) - len(missing)} in the cache")
    _print(made, as_json=as_json)


@command.command("list")
@shared.json_option
def list_(*, as_json: bool) -> None:
    """List the key covariances in the cache.

    \b
    Example: ke stats list --json
    """
    from ke_weights.covariance_files import PARTIAL, stored  # noqa: PLC0415  imports torch

    every = stored(_folder())
    if not every and not as_json:
        err().print(literal(f"no key covariances in {_folder()}; ke stats compute computes them"), soft_wrap=True)
    else:
        _print(every, as_json=as_json)
    begun = [path.stat().st_size for path in _folder().glob(f"*{PARTIAL}")]
    if begun:
        words = (
            f"{len(begun)} unfinished ({sum(begun) / MB:,.0f} MB): resume them with the same command, or delete them"
        )
        err().print(literal(f"{words}: {_folder()}/*{PARTIAL}"), soft_wrap=True)


def parse_layers(text: str) -> tuple[int, ...]:
    """``4-8`` and ``4,5,6`` as numbers, ascending; none for ``all``. Raises BadConfig."""
    if text == "all":
        return ()
    if not LAYERS.fullmatch(text):
        raise BadConfig(f"--layers cannot be {text!r}", hint="write all, or ranges and numbers: 4-8, 4,5,6, 2,4-8")
    ends = [part.split("-") for part in text.split(",")]
    backwards = next((part for part in ends if int(part[0]) > int(part[-1])), None)
    if backwards is not None:
        raise BadConfig(
            f"--layers {text}: the range {'-'.join(backwards)} is empty", hint="write the lower layer first"
        )
    return tuple(sorted({layer for part in ends for layer in range(int(part[0]), int(part[-1]) + 1)}))


def _folder() -> Path:
    return cache_dir() / "artifacts" / "moments"


def _print(every: list[StoredCovariance], *, as_json: bool) -> None:
    if as_json:
        shared.print_json([{"path": str(one.path), "bytes": one.size, **asdict(one.origin)} for one in every])
        return
    out().print(_table(every))
    out().print(literal(f"in {_folder()}"), soft_wrap=True)


def _table(every: list[StoredCovariance]) -> Table:
    """Return a table with one row for all layers of a model and text."""
    table = plain_table("model", "layers", "corpus", "tokens", "size", "files", "computed")
    alike: dict[CovarianceOrigin, list[StoredCovariance]] = {}
    for one in every:
        alike.setdefault(evolve(one.origin, layer=0, module="", date="", ke_version=""), []).append(one)
    for made, members in alike.items():
        text = f"{made.corpus}, documents of {made.document_length}"
        numbers = ranges([one.origin.layer for one in members])
        size = f"{sum(one.size for one in members) / MB:,.1f} MB"
        date = members[0].origin.date
        row = (made.model_id, numbers, text, f"{made.tokens:,}", size, str(len(members)), date)
        table.add_row(*(literal(cell) for cell in row))
    return table


def ranges(numbers: list[int]) -> str:
    """``0-2, 5`` for 0, 1, 2 and 5."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, ends)) for ends in found)
