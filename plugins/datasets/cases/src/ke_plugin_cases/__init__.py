"""Dataset ``cases``: a file in ke's own format, as written by ``ke datasets export``."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from ke_benchmarks import HIDE, find_data, folder_of, mask_option, read_header
from ke_core.plugin import EFFICACY, SINGLE_ASPECTS, BadConfig, Dataset, DatasetSpec, Defaults, hookimpl, option

MULTI_HOP = ("instance", "multi-hop")
CLASSIC = tuple(name for name in SINGLE_ASPECTS if name != EFFICACY)


@frozen(kw_only=True)
class CasesConfig:
    """Options: the file, and whether to hide edits."""

    file: str = option("the file, as written by `ke datasets export` (JSON lines)", "")
    mask: bool = mask_option(HIDE)
    data_dir: str | None = option("another folder to search for the file; also searched: KE_DATA_DIR, cache", None)


def path_of(config: CasesConfig) -> Path:
    """Return the file: the given path, otherwise a file of that name in the data folders. Raises BadConfig, BadData."""
    if not config.file:
        raise BadConfig(
            "dataset cases: no file given", hint="pass -o cases.file=FILE; `ke datasets export` writes such a file"
        )
    named = Path(config.file).expanduser()
    if named.is_file():
        return named
    return find_data("cases", named.name, explicit=folder_of(config.data_dir, "cases"))


def build(config: CasesConfig) -> Dataset:
    """Build the dataset."""
    from ke_plugin_cases.dataset import Cases  # noqa: PLC0415  built late

    return Cases(config=config, path=path_of(config))


def defaults(config: CasesConfig) -> Defaults:
    """Return the default metrics: those for the aspects in the file's header, and those that the header names."""
    header = read_header(path_of(config))
    found = ["multi-hop"] if set(MULTI_HOP) & set(header.aspects) or not header.aspects else []
    found += ["classic"] if set(CLASSIC) & set(header.aspects) else []
    found += [name for name in header.metrics if name not in ("multi-hop", "classic")]
    return Defaults(judge=header.judge or "alias", metrics=tuple(found) or ("multi-hop",))


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register ``cases``."""
    return [
        DatasetSpec(
            name="cases",
            summary="cases from a file: exported, built from a graph, or written manually (-o cases.file=FILE)",
            config=CasesConfig,
            build=build,
            aspects=(*SINGLE_ASPECTS, *MULTI_HOP),
            styles=("direct",),
            metrics=("multi-hop", "classic"),
            judge="alias",
            hides=lambda config: bool(config.mask),
            defaults=defaults,
        )
    ]
