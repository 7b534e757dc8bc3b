"""The dataset classes of CompKE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from attrs import frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, digest_of, digest_of_json, user_file
from ke_benchmarks.graph import BuildTools, load_atlas
from ke_core.plugin import Case, Material, Prompt, Query
from ke_plugin_compke import COMPKE, CompkeBuild, CompkeConfig
from ke_plugin_compke.builder import CompkeBuilder
from ke_plugin_compke.cases import case
from ke_plugin_compke.prompts import FILES, prompt
from ke_plugin_compke.records import CompkeRecord
from ke_plugin_compke.relations import atlas_templates

ATLAS_CASES = 400
# The largest neighbor is omitted: it would have to be consistent with edited neighbors.
ATLAS_BUILD = CompkeBuild(share=0.3, popular=0.8, relations=",".join(atlas_templates()))


@frozen(kw_only=True)
class Compke(FileDataset):
    """A file, read record by record. Set operations combine its hops."""

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file. Raises BadData with file, case and field."""
        return (case(record, self.variant.file) for record in self.records(CompkeRecord))

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the few-shot prompt, with lists as answers; see :mod:`ke_plugin_compke.prompts`."""
        return prompt(query) if style == "direct" else None

    def material(self) -> Mapping[str, Material]:
        """Return the material of every family, and ``decompositions``: worked questions in MeLLo's format with logical
        steps.

        ``scoped-decompositions``: the same in PokeMQA's format.
        """
        return {
            **super().material(),
            "decompositions": Material(value=FILES.text("decompose.txt")),
            "scoped-decompositions": Material(value=FILES.text("scoped.txt")),
        }

    def checksum(self) -> str:
        """Return the checksum of the file and the demonstrations; empty if the file is missing."""
        own = super().checksum()
        return digest_of((own, FILES.sha256)) if own else ""


@frozen(kw_only=True)
class CompkeAtlas(EmbeddedDataset, Compke):
    """The builder applied to the embedded graph, with the same records and cases."""

    def cases(self) -> Iterator[Case]:
        """Return every case, ordered so that the first cases are representative."""
        return iter(_atlas())

    def checksum(self) -> str:
        """Return the checksum of the built records and the demonstrations."""
        return digest_of((_digest(), FILES.sha256))


def compke(config: CompkeConfig) -> Compke:
    """Return the dataset of the published file or of the option ``file``. Raises BadData if that file is missing."""
    if config.file is None:
        return Compke(variant=COMPKE, config=config)
    path = user_file(config.file, "compke", form="the format of the plugin's README")
    return Compke(variant=COMPKE.with_file(path), config=config)


@cache
def atlas_records() -> tuple[CompkeRecord, ...]:
    """Return the records of ``compke-atlas``, identical in every process."""
    builder = CompkeBuilder(config=ATLAS_BUILD, templates=atlas_templates())
    return tuple(builder.built(load_atlas(), BuildTools(cases=ATLAS_CASES)))


@cache
def _atlas() -> tuple[Case, ...]:
    return tuple(case(record, "compke-atlas") for record in atlas_records())


@cache
def _digest() -> str:
    return digest_of_json([record.json() for record in atlas_records()])
