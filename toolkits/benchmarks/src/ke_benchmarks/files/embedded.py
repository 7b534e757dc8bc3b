"""Datasets built from the embedded graph, and demonstrations included in a package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, TypeVar

from attrs import frozen

from ke_benchmarks.files.family import Variant
from ke_benchmarks.files.records import structure_record
from ke_core.plugin import DataFile

T = TypeVar("T")
ATLAS_LICENSE = "Apache-2.0; facts: GeoNames, CC BY 4.0, and countryinfo, MIT (ATLAS-NOTICE.txt in ke-benchmarks)"
ATLAS_URL = "built from the atlas of ke_benchmarks.graph"


class EmbeddedDataset:
    """Mixin (first base class) of a dataset that a builder makes from the embedded graph. It reads no file."""

    __slots__ = ()

    def files(self) -> tuple[DataFile, ...]:
        """Return no files."""
        return ()

    @property
    def data_dir(self) -> str | None:
        """Return no folder."""
        return None


@frozen
class PromptFiles:
    """Demonstrations in the folder ``prompts`` of a package."""

    package: str
    names: tuple[str, ...]

    def text(self, name: str) -> str:
        """Return one file without surrounding white space."""
        return files(self.package).joinpath("prompts", name).read_text(encoding="utf-8").strip()

    @property
    def sha256(self) -> str:
        """Return the digest of all ``names``."""
        return hashlib.sha256("\0".join(map(self.text, self.names)).encode()).hexdigest()


def atlas_variant(family: str, summary: str, cite: str, *, cases: int | None = None, url: str = ATLAS_URL) -> Variant:
    """Return the variant ``FAMILY-atlas``: cases in the format of ``family``, built from the embedded graph."""
    return Variant(
        name=f"{family}-atlas",
        family=family,
        summary=summary,
        file="",
        url=url,
        license=ATLAS_LICENSE,
        cite=cite,
        published={} if cases is None else {"cases": cases},
    )


def digest_of_json(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def embedded_records(raw: Iterable[Mapping[str, Any]], into: type[T], dataset: str) -> list[T]:
    """Return embedded records of ``dataset`` as ``into``, with the checks for records of a file."""
    return [
        structure_record(item, into, where=f"{dataset}, record {place}", hint="report this bug")
        for place, item in enumerate(raw, start=1)
    ]
