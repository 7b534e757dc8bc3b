"""Toolkit for benchmark authors: published files, reproductions, knowledge graphs, audits. No torch here.

``ke_benchmarks.graph`` holds knowledge graphs and builders, ``ke_benchmarks.audit`` the audit of a dataset's edits.
"""

from ke_benchmarks.files.family import (
    CaseDataset,
    Deferred,
    FileDataset,
    Variant,
    digest_of,
    fit,
    folder_of,
    own_file,
    queries_of,
)
from ke_benchmarks.reproductions import ReproductionSpec, reproductions_in
from ke_core.datasets.checks import all_labelled, all_said, labelled, said, some_said

__all__ = [
    "CaseDataset", "Deferred", "FileDataset", "ReproductionSpec", "Variant", "all_labelled", "all_said", "digest_of",
    "fit", "folder_of", "labelled", "own_file", "queries_of", "reproductions_in", "said", "some_said",
]  # fmt: skip
