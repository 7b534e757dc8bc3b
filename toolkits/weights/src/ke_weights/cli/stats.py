"""``ke stats``: key covariances (second moments), which weight editors need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import App, completion, err, literal, model_choice, open_session, out, plain_table, progress
from ke_core.app import options as shared
from ke_core.plugin import BadConfig, KEError, NeedsWeights, cache_dir

if TYPE_CHECKING:
    from rich.table import Table

    from ke_core.plugin import Progress, Session
    from ke_weights.covariance_files import CovarianceOrigin, StoredCovariance

TOKENS, DOCUMENT_LENGTH = 100_000, 1024  # the defaults of editors
LAYERS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
MB = 1e6

text_option = click.option(
    "--text",
    default="wordnet",
    show_default=True,
    metavar="FILE|DATASET",
    help="Text: wordnet (in the package), a file, or a dataset of the hub (OWNER/NAME[:CONFIGURATION][@REVISION]).",
)


@click.group("stats")
def command() -> None:
    """Compute, list and verify key covariances.

    ROME, MEMIT, AlphaEdit and EMMET need C = E[k k^T], the second moment of the inputs of an MLP's last projection.
    Editors compute it when it is missing. These commands compute it in advance.

    \b
    Example: ke stats compute --model smollm2-135m --layers 4-8
    """


@command.command("compute")
@shared.model_options
@click.option("--layers", default="all", show_default=True, metavar="LIST", help="Layers: all, 4-8, or 4,5,6.")
@click.option("--tokens", default=TOKENS, show_default=True, type=click.IntRange(1), help="Number of tokens.")
@text_option
@click.option(
    "--document-length", default=DOCUMENT_LENGTH, show_default=True, type=click.IntRange(1),
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
    from ke_weights.covariance import CovarianceCache, CovarianceSettings  # noqa: PLC0415  as above
    from ke_weights.covariance_files import stored  # noqa: PLC0415  as above
    from ke_weights.gram import passes  # noqa: PLC0415  imports torch
    from ke_weights.modules import module_map  # noqa: PLC0415  as above

    cache = CovarianceCache(CovarianceSettings(corpus=text, tokens=tokens, document_length=document_length))
    _ = cache.corpus  # report an unreadable text before loading the model
    with progress(err()) as shown:
        session = _session(app, given, shown)
        modules = module_map(session.model.module)
        chosen = wanted or tuple(range(len(modules.layers)))
        paths = cache.paths(session, modules, chosen)
        missing = cache.missing(session, modules, chosen)
        parts = passes(modules, missing)
        if len(parts) > 1:
            err().print(f"memory holds {len(parts[0])} of {len(missing)} layers at a time: {len(parts)} passes")
        cache.take(session, modules, chosen)
    made = [one for one in stored(_folder()) if one.path in paths.values()]
    _warn_of_few(made, modules.inner)
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

    every = list(stored(_folder()))
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


@command.command("verify")
@click.option(
    "--model",
    default="",
    metavar="[SOURCE:]ID[@REVISION]",
    shell_complete=completion.model,
    help="Verify this model's covariances, and compare them with its keys.",
)
@text_option
@click.option("--dtype", default="float32", show_default=True, help="Data type that the model was loaded with.")
@shared.device
@shared.device_map
@click.option("--chat/--no-chat", default=False, show_default=True, help="Whether the model was loaded for chat.")
@shared.trust
@shared.json_option
@click.pass_obj
def verify(app: App, /, *, model: str, text: str, as_json: bool, **how: Any) -> int:
    """Verify the key covariances in the cache.

    Each must be complete, finite, symmetric, positive definite, from enough tokens, and match its metadata. With
    --model, covariances of --text are also compared with the model's keys on the first thousand tokens of the text.
    The command prints a line for each covariance that fails. The exit status is then 1.

    \b
    Example: ke stats verify --model smollm2-135m
    """
    from ke_weights.covariance_checks import faults  # noqa: PLC0415  imports torch
    from ke_weights.covariance_files import stored  # noqa: PLC0415  as above

    every = list(stored(_folder()))
    samples: dict[Path, Any] = {}
    with progress(err()) as shown:
        if model:
            every, samples = _of_model(app, every, how | {"model": model, "revision": ""}, text, shown)
        if not every:
            whose = f" of {model} ({how['dtype']})" if model else ""
            raise KEError(f"no key covariances{whose} in {_folder()}", hint="ke stats compute computes them")
        found = {one: faults(one, samples.get(one.path)) for one in shown.track(every, "key covariances", len(every))}
    bad = {one: wrong for one, wrong in found.items() if wrong}
    if as_json:
        shared.print_json([{**_as_json(one), "faults": wrong} for one, wrong in found.items()])
        return int(bool(bad))
    for one, wrong in bad.items():
        out().print(literal(f"{one.path}: {'; '.join(wrong)}"), soft_wrap=True)
    compared = f", {len(samples)} compared with the model's keys" if model else ""
    out().print(literal(f"{len(every) - len(bad)} of {len(every)} are correct{compared}"))
    return int(bool(bad))


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


def _session(app: App, given: dict[str, Any], shown: Progress) -> Session[Any]:
    """Load the model. Raises NeedsWeights for a model behind a server."""
    model = model_choice(given).load(app.catalog, shown)
    if not hasattr(model, "patch"):
        raise NeedsWeights(f"{model.id} has no local weights", hint="choose a model that is loaded locally (hf:...)")
    return open_session(model, catalog=app.catalog, seed=0, progress=shown, material={})


def _of_model(
    app: App, every: list[StoredCovariance], given: dict[str, Any], text: str, shown: Progress
) -> tuple[list[StoredCovariance], dict[Path, Any]]:
    """Return the model's covariances, and keys to compare them with, by path."""
    from ke_weights.corpus import read_corpus  # noqa: PLC0415  only here
    from ke_weights.covariance_checks import comparable  # noqa: PLC0415  imports torch
    from ke_weights.modules import module_map  # noqa: PLC0415  as above

    corpus = read_corpus(text)
    session = _session(app, given, shown)
    digest = session.model.plain.digest
    own = [one for one in every if not isinstance(one.origin, KEError) and one.origin.model_digest == digest]
    return own, comparable(own, session, module_map(session.model.module), corpus) if own else {}


def _warn_of_few(made: list[StoredCovariance], size: int) -> None:
    """Warn if the text has fewer tokens than requested, or too few for ``size`` dimensions."""
    from ke_weights.covariance import has_few_tokens  # noqa: PLC0415  imports torch

    for origin in _origins(made)[:1]:
        if origin.tokens < origin.tokens_asked:
            words = f"{origin.corpus} has only {origin.tokens:,} of the {origin.tokens_asked:,} requested tokens"
            err().print(literal(words), soft_wrap=True)
        if words := has_few_tokens(origin.tokens, size):
            err().print(
                literal(f"warning: {words} (use more --tokens, and a longer --text)", "bold red"), soft_wrap=True
            )


def _print(every: list[StoredCovariance], *, as_json: bool) -> None:
    if as_json:
        shared.print_json([_as_json(one) for one in every])
        return
    out().print(_table(every))
    out().print(literal(f"in {_folder()}"), soft_wrap=True)
    for one in every:
        if isinstance(one.origin, KEError):
            out().print(literal(f"damaged: {one.origin.message}", "red"), soft_wrap=True)


def _table(every: list[StoredCovariance]) -> Table:
    """Return a table with one row for all layers of a model and text."""
    table = plain_table("model", "layers", "corpus", "tokens", "size", "files", "made")
    alike: dict[tuple[Any, ...], list[tuple[CovarianceOrigin, StoredCovariance]]] = {}
    for one in every:
        made = one.origin
        if not isinstance(made, KEError):
            same = (made.model_id, made.model_digest, made.corpus, made.corpus_sha256, made.tokens, made.dtype)
            alike.setdefault((*same, made.document_length), []).append((made, one))
    for members in alike.values():
        made = members[0][0]
        text = f"{made.corpus}, documents of {made.document_length}"
        numbers = ranges([origin.layer for origin, _one in members])
        size = f"{sum(one.size for _origin, one in members) / MB:,.1f} MB"
        row = (made.model_id, numbers, text, f"{made.tokens:,}", size, str(len(members)), made.date)
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


def _origins(every: list[StoredCovariance]) -> list[CovarianceOrigin]:
    return [one.origin for one in every if not isinstance(one.origin, KEError)]


def _as_json(one: StoredCovariance) -> dict[str, Any]:
    from attrs import asdict  # noqa: PLC0415  only here

    place = {"path": str(one.path), "bytes": one.size}
    return place | ({"damaged": one.origin.message} if isinstance(one.origin, KEError) else asdict(one.origin))
