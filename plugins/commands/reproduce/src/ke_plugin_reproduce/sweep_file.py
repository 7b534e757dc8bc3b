"""Read the file of ``ke sweep FILE.toml`` strictly.

A cell is one combination of an editor, a dataset, a model, a ``k``, a seed and the values under ``vary``. Other lists,
such as ``styles`` and ``metrics``, have the same value in every cell.

::

    editors = ["none", "memit", "mello"]
    datasets = ["atlas"]
    models = ["smollm2-135m"]
    k = [1, 100, "all"]
    seeds = [0, 1]
    limit = 100

    [options.memit]
    layers = [4, 5, 6]

    [vary.memit]
    steps = [10, 20]
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, fields_dict, frozen, validators

from ke_benchmarks import structure_record
from ke_core.app import option_text
from ke_core.plugin import BadConfig, Form, ModelRequest, read_toml

Options = Mapping[str, Mapping[str, str]]
Varied = Mapping[str, Mapping[str, tuple[str, ...]]]
HINT = "docs/sweeps.md shows what goes where"
LISTS = ("editors", "datasets", "models", "k", "seeds", "styles", "metrics")
"""Keys with a list of values. A single value needs no brackets."""
LOADING = [name for name in fields_dict(ModelRequest) if name not in ("id", "revision")]
"""The keys of the table ``model``."""
POSITIVE = validators.optional(validators.ge(1))


def _distinct(_instance: object, attribute: Attribute[Any], values: tuple[Any, ...]) -> None:
    if not values:
        raise ValueError(f"{attribute.name} is empty")
    if len({*values}) < len(values):
        raise ValueError(f"{attribute.name} contains a value twice")


@frozen(kw_only=True)
class SweepFile:
    """The content of a sweep file.

    ``k``: cases edited together, or for ``sample`` the number of edited cases; None means all. ``options`` apply to
    every cell with the component; ``vary`` lists the values of swept options. ``eval_every`` and ``eval_set``: for a
    ``sequential`` plan, as in ``ke eval`` (None: at the end). ``model``: how models are loaded.
    """

    editors: tuple[str, ...] = field(validator=_distinct)
    datasets: tuple[str, ...] = field(validator=_distinct)
    models: tuple[str, ...] = field(validator=_distinct)
    k: tuple[int | None, ...] = field(default=(1,), validator=[_distinct, validators.deep_iterable(POSITIVE)])
    seeds: tuple[int, ...] = field(default=(0,), validator=[_distinct, validators.deep_iterable(validators.ge(0))])
    protocol: Literal["partition", "sample"] = "partition"
    limit: int | None = field(default=None, validator=POSITIVE)
    eval_limit: int | None = field(default=None, validator=POSITIVE)
    sequential: bool = False
    eval_every: int | None = field(default=None, validator=POSITIVE)
    eval_set: Literal["new", "seen", "all"] = "seen"
    styles: tuple[str, ...] = ()
    edited_form: Form | None = None
    judge: str = ""
    metrics: tuple[str, ...] = ()
    prompts: str = ""
    data_dir: str = ""
    model: ModelRequest = field(factory=lambda: ModelRequest(id=""))
    options: Options = field(factory=dict)
    vary: Varied = field(factory=dict)


def read_sweep(path: Path) -> SweepFile:
    """Read the sweep in ``path``. Raises KEErrors that name file and key, and suggest the closest key."""
    raw = read_toml(path, error=BadConfig, hint=HINT)
    _reject_unknown(path, raw, list(fields_dict(SweepFile)), "")
    found: dict[str, Any] = {
        key: [value] if key in LISTS and not isinstance(value, list) else value for key, value in raw.items()
    }
    if "k" in found:
        found["k"] = [None if value == "all" else value for value in found["k"]]
    if found.get("eval_every") == "end":
        found["eval_every"] = None
    if isinstance(model := found.get("model"), dict):
        _reject_unknown(path, model, LOADING, "model.")
        found["model"] = {"id": "", **model}
    for name, convert in (("options", option_text), ("vary", _values)):
        for prefix, table in _table(found.get(name, {})):
            at = f"{path}: {name}.{prefix}"
            found[name] = {**found[name], prefix: {key: convert(value, f"{at}.{key}") for key, value in _table(table)}}
    sweep = structure_record(found, SweepFile, where=str(path), hint=HINT)
    _reject_without_effect(path, sweep, raw)
    return sweep


def _table(value: Any) -> list[tuple[str, Any]]:
    """Return the items of a table. Other values have none: ``structure_record`` reports them."""
    return list(value.items()) if isinstance(value, dict) else []


def _values(value: Any, at: str) -> list[str]:
    if not isinstance(value, list) or not value:
        raise BadConfig(f"{at} is not a list of values: {value!r}", hint="one value belongs under options")
    return [option_text(one, at) for one in value]


def _reject_unknown(path: Path, raw: Mapping[str, Any], known: list[str], under: str) -> None:
    for name in raw:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {under}{near[0]}?" if near else f"keys: {', '.join(known)}"
            raise BadConfig(f"{path}: unknown key {under}{name}", hint=hint)


def _reject_without_effect(path: Path, sweep: SweepFile, raw: Mapping[str, Any]) -> None:
    """Reject keys that have no effect in this sweep."""
    wrong, hint = "", HINT
    if not sweep.sequential and ("eval_every" in raw or "eval_set" in raw):
        wrong = "eval_every and eval_set need sequential = true"
    elif sweep.protocol == "sample" and sweep.sequential:
        wrong = 'sequential needs protocol = "partition"'
    elif sweep.protocol == "sample" and "k" not in raw:
        wrong, hint = 'protocol = "sample" needs k, the number of edited cases', "k = [1, 100]"
    for prefix, varied in sweep.vary.items():
        if twice := next((name for name in varied if name in sweep.options.get(prefix, {})), ""):
            wrong, hint = f"{prefix}.{twice} is set under vary and under options", "set it once"
    if wrong:
        raise BadConfig(f"{path}: {wrong}", hint=hint)
