"""``ke trace``: find the layers that store a fact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ke_core.app import App, console, err, literal, model_choice, progress
from ke_core.app import options as shared
from ke_core.plugin import ArtifactStore, BadConfig, KEError, cache_dir
from ke_weights.trace.settings import PARTS, Filter, Positions, Restored, TraceSettings

if TYPE_CHECKING:
    from ke_weights.trace.folder import TraceSpec
    from ke_weights.tracing import Traced

ROOT = Path("traces")
DEFAULT = TraceSettings()


class CommaList(click.ParamType[tuple[str, ...]]):
    """Names from a list, separated by commas; ``none`` for none of them, where that is allowed."""

    name = "NAME,..."

    def __init__(self, choices: tuple[str, ...], *, none: bool = False) -> None:
        self.choices, self.none = choices, none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names, each once, in the order of the list."""
        if isinstance(value, tuple):
            return value
        given = [name.strip() for name in value.split(",") if name.strip()]
        if self.none and given == ["none"]:
            return ()
        wrong = [name for name in given if name not in self.choices]
        if wrong or not given:
            allowed = ", ".join((*self.choices, *(["none"] if self.none else [])))
            self.fail(f"{wrong[0] if wrong else value!r} is not one of {allowed}", param, ctx)
        return tuple(name for name in self.choices if name in given)


@click.command("trace")
@shared.section(
    "Facts",
    click.option(
        "--facts",
        required=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Facts: a JSON list of records with prompt, subject and attribute.",
    ),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Trace the first N facts that the model knows."),
    click.option(
        "--filter",
        "which",
        type=click.Choice(get_args(Filter)),
        default=DEFAULT.filter,
        show_default=True,
        help="Test whether the model knows a fact. first-token: its next token is the object's first token, "
        "with a probability of at least 0.1. published: its next token is the whole object, which "
        "excludes objects of several tokens.",
    ),
)
@shared.section(
    "Tracing",
    click.option(
        "--kinds",
        type=CommaList(get_args(Restored)),
        default=",".join(DEFAULT.kinds),
        show_default=True,
        help="Activations to restore.",
    ),
    click.option(
        "--sever",
        type=CommaList(PARTS, none=True),
        default=",".join(DEFAULT.sever),
        show_default=True,
        help="Also restore states while these modules keep their corrupted outputs; none to skip this.",
    ),
    click.option(
        "--tokens",
        type=click.Choice(get_args(Positions)),
        default=DEFAULT.tokens,
        show_default=True,
        help="Restore at every token, or only at the subject's last token, which is enough to choose layers.",
    ),
    click.option(
        "--noise",
        default=DEFAULT.noise,
        show_default=True,
        metavar="RULE",
        help="Noise. s3: three standard deviations of the subjects' embeddings; 0.1: this standard "
        "deviation; u0.1: uniform.",
    ),
    click.option(
        "--samples",
        type=click.IntRange(1),
        default=DEFAULT.samples,
        show_default=True,
        help="Corrupted runs per prompt.",
    ),
    click.option(
        "--window",
        type=click.IntRange(1),
        default=DEFAULT.window,
        show_default=True,
        help="Number of layers whose MLP or attention is restored together.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        default=DEFAULT.seed,
        show_default=True,
        help="Random seed of the noise.",
    ),
    click.option("--exact", is_flag=True, help="Use one forward pass per token and layer. Slow, same numbers."),
)
@shared.model_options
@shared.section(
    "Output",
    click.option(
        "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Output folder. [default: traces/MODEL-ID]"
    ),
    shared.json_option,
)
@click.pass_obj
def command(app: App, /, *, facts: Path, limit: int | None, out: Path | None, as_json: bool, **given: Any) -> None:
    """Find the layers that store a fact (causal tracing).

    It corrupts the embeddings of the subject with noise, then restores single states, or windows of MLP or attention
    outputs. The probability of the answer measures how much each of them carries. The command prints heat maps,
    suggests layers for editors, and writes FOLDER/trace.json and plots. The same command resumes an interrupted trace.

    \b
    Examples:
      ke trace --facts known_1000.json --limit 200 --tokens subject-last
      ke trace --facts known_1000.json --limit 20 --kinds states --sever none
      ke eval --editor memit --dataset atlas -o memit.layers=trace
    """  # fmt: skip
    from ke_weights.report.trace import trace_page  # noqa: PLC0415
    from ke_weights.report.trace_plot import plot  # noqa: PLC0415
    from ke_weights.trace.folder import TRACE  # noqa: PLC0415

    traced = _traced(app, facts, limit, out, given)
    if as_json:
        click.echo((traced.folder.path / TRACE).read_text(encoding="utf-8"), nl=False)
    else:
        console.out().print(trace_page(traced))
    aside = console.err()
    if traced.exact and not given["exact"]:
        aside.print(literal("every intervention ran the whole model, because its blocks cannot be resumed"))
    try:
        plot(traced)
    except KEError as error:  # the numbers are saved, only the plots are missing
        aside.print(literal(f"{error.message}: {error.hint}" if error.hint else error.message), soft_wrap=True)
    aside.print(literal(f"saved in {traced.folder.path}"), soft_wrap=True)


def _traced(app: App, file: Path, limit: int | None, out: Path | None, given: Mapping[str, Any]) -> Traced:
    from ke_weights.trace.facts import read_facts  # noqa: PLC0415
    from ke_weights.trace.folder import TraceFolder  # noqa: PLC0415
    from ke_weights.trace.noise import check_rule  # noqa: PLC0415
    from ke_weights.tracing import specify, trace  # noqa: PLC0415  torch, seconds

    if given["chat"]:
        raise BadConfig("ke trace uses plain prompts", hint="leave out --chat")
    settings = _settings(given)
    check_rule(settings.noise)
    facts = read_facts(file)
    chosen = model_choice(given)
    with progress(err()) as shown:
        model = chosen.load(app.catalog, shown)
        spec = specify(model, chosen.describe(app.catalog, model), facts, settings)
        folder = TraceFolder.create(out or _place(spec), spec)
        store = ArtifactStore(cache_dir() / "artifacts")
        return trace(model, facts, folder, limit, artifacts=store, progress=shown)


def _settings(given: Mapping[str, Any]) -> TraceSettings:
    return TraceSettings(
        filter=given["which"],
        **{name: given[name] for name in ("kinds", "sever", "tokens", "noise", "samples", "window", "seed", "exact")},
    )


def _place(spec: TraceSpec) -> Path:
    return ROOT / f"{spec.model.id.replace('/', '-')}-{spec.id[:8]}"
