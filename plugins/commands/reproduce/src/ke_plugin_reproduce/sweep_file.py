"""Read the file of ``ke sweep FILE.toml`` strictly. Every list is an axis; a cell is one combination of values.

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
from typing import Any, Literal, get_args

from attrs import field, fields, fields_dict, frozen

from ke_core.app import option_text
from ke_core.plugin import BadConfig, Form, ModelRequest, read_toml

Options = Mapping[str, Mapping[str, str]]
Varied = Mapping[str, Mapping[str, tuple[str, ...]]]
LOADING = tuple(name for name in fields_dict(ModelRequest) if name not in ("id", "revision"))
"""The keys of the table ``model``: how models are loaded or reached, as in the options of ``ke eval``."""
PROTOCOLS = ("partition", "sample")
ASKED = ("new", "seen", "all")


@frozen(kw_only=True)
class SweepFile:
    """The content of a sweep file.

    ``k``: cases edited together, or for ``sample`` the number of edited cases; None means all. ``options`` apply to
    every cell with the component; ``vary`` lists the values of swept options. ``eval_every`` and ``eval_set``: for a
    ``sequential`` plan, as in ``ke eval`` (None: at the end). ``model``: how models are loaded.
    """

    editors: tuple[str, ...]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    k: tuple[int | None, ...] = (1,)
    seeds: tuple[int, ...] = (0,)
    protocol: Literal["partition", "sample"] = "partition"
    limit: int | None = None
    eval_limit: int | None = None
    sequential: bool = False
    eval_every: int | None = None
    eval_set: Literal["new", "seen", "all"] = "seen"
    styles: tuple[str, ...] = ()
    edited_form: Form | None = None
    judge: str = ""
    metrics: tuple[str, ...] = ()
    prompts: str = ""
    data_dir: str = ""
    model: Mapping[str, Any] = field(factory=dict)
    options: Options = field(factory=dict)
    vary: Varied = field(factory=dict)


def read_sweep(path: Path) -> SweepFile:
    """Read the sweep in ``path``. Raises BadConfig that names file and key, and suggests the closest key."""
    return _Reader(path).sweep(read_toml(path, error=BadConfig, hint="docs/sweeps.md shows one"))


class _Reader:
    """Reads the file key by key. Every error names the file and the key."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sweep(self, raw: dict[str, Any]) -> SweepFile:
        self._refuse_unknown(raw, [each.name for each in fields(SweepFile)], "")
        found: dict[str, Any] = {name: self._texts(raw, name) for name in ("editors", "datasets", "models")}
        for name, texts in found.items():
            if not texts:
                raise self._wrong(name, "is missing", hint=f'{name} = ["...", "..."]')
        read: dict[str, Any] = {
            "k": self._ks, "seeds": self._seeds, "limit": self._count, "eval_limit": self._count,
            "eval_every": self._eval_every, "sequential": self._flag, "styles": self._texts, "metrics": self._texts,
            "judge": self._text, "prompts": self._text, "data_dir": self._text, "model": self._model,
            "options": self._options, "vary": self._vary,
        }  # fmt: skip
        choices = {"protocol": PROTOCOLS, "eval_set": ASKED, "edited_form": get_args(Form)}
        for name in raw:
            if name in read:
                found[name] = read[name](raw, name)
            elif name in choices:
                found[name] = self._choice(raw, name, choices[name])
        made = SweepFile(**found)
        self._refuse_misfits(made, raw)
        return made

    def _refuse_misfits(self, made: SweepFile, raw: Mapping[str, Any]) -> None:
        """Reject keys that would have no effect."""
        if not made.sequential and (name := next((name for name in ("eval_every", "eval_set") if name in raw), "")):
            raise self._wrong(name, "belongs to sequential = true")
        if made.sequential and made.protocol == "sample":
            raise self._wrong("sequential", 'edits the batches of protocol = "partition" one after another')
        if made.protocol == "sample" and "k" not in raw:
            raise self._wrong("k", 'is missing: protocol = "sample" edits k cases and asks all', hint="k = [1, 100]")
        for prefix, varied in made.vary.items():
            if twice := next((name for name in varied if name in made.options.get(prefix, {})), ""):
                raise self._wrong(f"vary.{prefix}.{twice}", "is also set under options", hint="set it once")

    def _refuse_unknown(self, raw: Mapping[str, Any], known: list[str], under: str) -> None:
        for name in raw:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                raise self._wrong(
                    f"{under}{name}",
                    "is no key of a sweep",
                    hint=f"did you mean {under}{near[0]}?" if near else f"keys: {', '.join(known)}",
                )

    def _texts(self, raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
        return self._list(raw, name, lambda one: isinstance(one, str) and bool(one.strip()), "texts")

    def _seeds(self, raw: Mapping[str, Any], name: str) -> tuple[int, ...]:
        return self._list(raw, name, lambda one: isinstance(one, int) and not isinstance(one, bool), "whole numbers")

    def _ks(self, raw: Mapping[str, Any], name: str) -> tuple[int | None, ...]:
        found = self._list(raw, name, lambda one: one == "all" or _positive(one), 'numbers from 1 on, or "all"')
        return tuple(None if one == "all" else one for one in found)

    def _list(self, raw: Mapping[str, Any], name: str, fits: Any, what: str) -> tuple[Any, ...]:
        given = raw.get(name, [])
        values = given if isinstance(given, list) else [given]
        if not all(fits(one) for one in values):
            raise self._wrong(name, f"is no list of {what}: {given!r}")
        if twice := next((one for one in values if values.count(one) > 1), None):
            raise self._wrong(name, f"holds {twice!r} twice")
        if name in raw and not values:
            raise self._wrong(name, "is empty")
        return tuple(values)

    def _count(self, raw: Mapping[str, Any], name: str) -> int:
        if not _positive(raw[name]):
            raise self._wrong(name, f"is no number from 1 on: {raw[name]!r}")
        return int(raw[name])

    def _eval_every(self, raw: Mapping[str, Any], name: str) -> int | None:
        given = raw[name]
        if given != "end" and not _positive(given):
            raise self._wrong(name, f'is neither "end" nor a number of batches: {given!r}')
        return None if given == "end" else int(given)

    def _flag(self, raw: Mapping[str, Any], name: str) -> bool:
        if not isinstance(raw[name], bool):
            raise self._wrong(name, f"is neither true nor false: {raw[name]!r}")
        return bool(raw[name])

    def _text(self, raw: Mapping[str, Any], name: str) -> str:
        if not isinstance(raw[name], str):
            raise self._wrong(name, f"is no text: {raw[name]!r}")
        return str(raw[name])

    def _choice(self, raw: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
        if raw[name] not in choices:
            raise self._wrong(name, f"cannot be {raw[name]!r}", hint=f"one of: {', '.join(choices)}")
        return str(raw[name])

    def _model(self, raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        given = self._table(raw[name], name)
        self._refuse_unknown(given, list(LOADING), f"{name}.")
        for key, value in given.items():
            usual = getattr(ModelRequest(id=""), key)
            allowed = (int, float) if isinstance(usual, float) else type(usual)
            if not isinstance(value, allowed) or isinstance(value, bool) != isinstance(usual, bool):
                raise self._wrong(f"{name}.{key}", f"cannot be {value!r}", hint=f"the default is {usual!r}")
        return given

    def _options(self, raw: Mapping[str, Any], name: str) -> Options:
        tables = {prefix: self._table(of, f"{name}.{prefix}") for prefix, of in self._table(raw[name], name).items()}
        return {
            prefix: {key: option_text(value, f"{self._path}: {name}.{prefix}.{key}") for key, value in table.items()}
            for prefix, table in tables.items()
        }

    def _vary(self, raw: Mapping[str, Any], name: str) -> Varied:
        tables = {prefix: self._table(of, f"{name}.{prefix}") for prefix, of in self._table(raw[name], name).items()}
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for prefix, table in tables.items():
            for key, values in table.items():
                at = f"{name}.{prefix}.{key}"
                if not isinstance(values, list) or not values:
                    raise self._wrong(
                        at, f"is not a list of values: {values!r}", hint="one value belongs under options"
                    )
                found.setdefault(prefix, {})[key] = tuple(option_text(value, f"{self._path}: {at}") for value in values)
        return found

    def _table(self, value: Any, at: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(at, f"is not a table: {value!r}", hint=f"[{at}] and its keys below")
        return value

    def _wrong(self, key: str, what: str, *, hint: str = "docs/sweeps.md shows what goes where") -> BadConfig:
        return BadConfig(f"{self._path}: {key} {what}", hint=hint)


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
