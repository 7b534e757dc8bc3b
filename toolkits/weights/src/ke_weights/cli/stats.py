"""``ke stats``: the second moments that weight editors rest on, taken once for every editor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import App, err, literal, model_choice, open_session, out, plain_table, progress
from ke_core.app import options as shared
from ke_core.plugin import BadConfig, KEError, NeedsWeights, cache_dir

if TYPE_CHECKING:
    from rich.table import Table

    from ke_core.plugin import Progress, Session
    from ke_weights.covariance_files import CovarianceOrigin, StoredCovariance

TOKENS, DOCUMENT_LENGTH = 100_000, 1024  # what editors ask for unless told otherwise
LAYERS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
MB = 1e6

text_option = click.option(
    "--text",
    default="wordnet",
    show_default=True,
    metavar="FILE|DATASET",
    help="wordnet (in the package), a text file, or a dataset of the hub: OWNER/NAME[:CONFIGURATION][@REVISION].",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, a file each, with its path.")


@click.group("stats")
def command() -> None:
    """Take second moments of a model's keys, list and verify them.

    An update of weights is weighed against C = E[k k^T], the second moment of what an MLP's last map is given
    (ROME, MEMIT, AlphaEdit, EMMET). Editors take it themselves where it is missing; this takes it beforehand.

    \b
    Example: ke stats compute --model smollm2-135m --layers 4-8
    """


@command.command("compute")
@shared.model_options
@click.option("--layers", default="all", show_default=True, metavar="LIST", help="all, 4-8, or 4,5,6.")
@click.option("--tokens", default=TOKENS, show_default=True, type=click.IntRange(1), help="Tokens of the text.")
@text_option
@click.option(
    "--document-length", default=DOCUMENT_LENGTH, show_default=True, type=click.IntRange(1),
    help="Longest document, in tokens; the rest of a document is left out.",
)  # fmt: skip
@json_option
@click.pass_obj
def compute(
    app: App, /, *, layers: str, tokens: int, text: str, document_length: int, as_json: bool, **given: Any
) -> None:  # fmt: skip
    """Take second moments, in one pass over the text for all layers.

    What is there already is not taken again; killed, the same command goes on where it stopped. An editor with
    the same text, tokens and document length finds them.

    \b
    Example: ke stats compute --model smollm2-135m --layers 4-8 --tokens 100000
    """
    wanted = parse_layers(layers)
    from ke_weights.covariance import CovarianceCache, CovarianceSettings  # noqa: PLC0415  as above
    from ke_weights.covariance_files import stored  # noqa: PLC0415  as above
    from ke_weights.gram import passes  # noqa: PLC0415  imports torch
    from ke_weights.modules import module_map  # noqa: PLC0415  as above

    cache = CovarianceCache(CovarianceSettings(corpus=text, tokens=tokens, document_length=document_length))
    _ = cache.corpus  # a text that cannot be read is said before a model is loaded
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
    err().print(f"{len(missing)} taken, {len(chosen) - len(missing)} there already")
    _print(made, as_json=as_json)


@command.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the second moments there are.

    \b
    Example: ke stats list --json
    """
    from ke_weights.covariance_files import PARTIAL, stored  # noqa: PLC0415  imports torch

    every = list(stored(_folder()))
    if not every and not as_json:
        err().print(literal(f"there are none in {_folder()}; ke stats compute makes them"), soft_wrap=True)
    else:
        _print(every, as_json=as_json)
    begun = [path.stat().st_size for path in _folder().glob(f"*{PARTIAL}")]
    if begun:
        words = (
            f"{len(begun)} unfinished ({sum(begun) / MB:,.0f} MB): the same command goes on with them, or delete them"
        )
        err().print(literal(f"{words}: {_folder()}/*{PARTIAL}"), soft_wrap=True)


@command.command("verify")
@click.option(
    "--model",
    default="",
    metavar="[SOURCE:]ID[@REVISION]",
    help="Only this model's; also compare them with its keys on the beginning of the text.",
)
@text_option
@click.option("--dtype", default="float32", show_default=True, help="As the model was loaded: float32, bfloat16 ...")
@click.option("--device", default="", metavar="NAME", help="cpu, cuda, mps ...; found by itself if empty.")
@click.option("--device-map", default="", metavar="NAME", help="Spread a large model, e.g. auto.")
@click.option("--chat/--no-chat", default=False, show_default=True, help="As the model was loaded.")
@click.option("--trust-remote-code", is_flag=True, help="Run Python code that comes with the model.")
@click.pass_obj
def verify(app: App, /, *, model: str, text: str, **how: Any) -> int:  # fmt: skip
    """Verify second moments: whole, finite, symmetric, positive definite, of enough tokens, and what they say they are.

    Exit status 1, and a line for each that is not. With --model, the model's keys on the first thousand tokens of
    the text must fit, too; a statistic of another text than --text is verified without.

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
            raise KEError(f"there are no second moments{whose} in {_folder()}", hint="ke stats compute makes them")
        found = {one: faults(one, samples.get(one.path)) for one in shown.track(every, "second moments", len(every))}
    bad = {one: wrong for one, wrong in found.items() if wrong}
    for one, wrong in bad.items():
        out().print(literal(f"{one.path}: {'; '.join(wrong)}"), soft_wrap=True)
    compared = f", {len(samples)} compared with the model's keys" if model else ""
    out().print(literal(f"{len(every) - len(bad)} of {len(every)} are sound{compared}"))
    return int(bool(bad))


def parse_layers(text: str) -> tuple[int, ...]:
    """``4-8`` and ``4,5,6`` as numbers, ascending; none for ``all``. Raises BadConfig."""
    if text == "all":
        return ()
    if not LAYERS.fullmatch(text):
        raise BadConfig(f"--layers {text} names no layers", hint="say all, or a range and numbers: 4-8, 4,5,6, 2,4-8")
    ends = [part.split("-") for part in text.split(",")]
    backwards = next((part for part in ends if int(part[0]) > int(part[-1])), None)
    if backwards is not None:
        raise BadConfig(f"--layers {text}: {'-'.join(backwards)} holds no layer", hint="write the lower layer first")
    return tuple(sorted({layer for part in ends for layer in range(int(part[0]), int(part[-1]) + 1)}))


def _folder() -> Path:
    return cache_dir() / "artifacts" / "moments"


def _session(app: App, given: dict[str, Any], shown: Progress) -> Session[Any]:
    """The model, loaded, and where its artifacts are. Raises NeedsWeights for one that is behind an API."""
    model = model_choice(given).load(app.catalog, shown)
    if not hasattr(model, "patch"):
        raise NeedsWeights(f"{model.id} has no weights here", hint="choose a model that is loaded locally (hf:...)")
    return open_session(model, catalog=app.catalog, seed=0, progress=shown, material={})


def _of_model(
    app: App, every: list[StoredCovariance], given: dict[str, Any], text: str, shown: Progress
) -> tuple[list[StoredCovariance], dict[Path, Any]]:
    """The model's statistics, and keys to compare them with, by path."""
    from ke_weights.corpus import read_corpus  # noqa: PLC0415  only here
    from ke_weights.covariance_checks import comparable  # noqa: PLC0415  imports torch
    from ke_weights.modules import module_map  # noqa: PLC0415  as above

    corpus = read_corpus(text)
    session = _session(app, given, shown)
    digest = session.model.plain.digest
    own = [one for one in every if not isinstance(one.origin, KEError) and one.origin.model_digest == digest]
    return own, comparable(own, session, module_map(session.model.module), corpus) if own else {}


def _warn_of_few(made: list[StoredCovariance], size: int) -> None:
    """Say it where the text has fewer tokens than were asked for, and where they are few for ``size`` dimensions."""
    from ke_weights.covariance import has_few_tokens  # noqa: PLC0415  imports torch

    for origin in _origins(made)[:1]:
        if origin.tokens < origin.tokens_asked:
            words = f"{origin.corpus} has {origin.tokens:,} tokens, not {origin.tokens_asked:,}: all were taken"
            err().print(literal(words), soft_wrap=True)
        if words := has_few_tokens(origin.tokens, size):
            err().print(
                literal(f"warning: {words} (--tokens, and a --text that has as many)", "bold red"), soft_wrap=True
            )


def _print(every: list[StoredCovariance], *, as_json: bool) -> None:

    if as_json:
        import json  # noqa: PLC0415  only here

        click.echo(json.dumps([_as_json(one) for one in every], indent=1, ensure_ascii=False))
        return
    out().print(_table(every))
    out().print(literal(f"in {_folder()}"), soft_wrap=True)
    for one in every:
        if isinstance(one.origin, KEError):
            out().print(literal(f"damaged: {one.origin.message}", "red"), soft_wrap=True)


def _table(every: list[StoredCovariance]) -> Table:
    """A row for all layers of one model and text."""
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
