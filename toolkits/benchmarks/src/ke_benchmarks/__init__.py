"""Toolkit for benchmark authors: published files, reproductions, knowledge graphs, audits. No torch here.

``ke_benchmarks.graph`` holds knowledge graphs and builders, ``ke_benchmarks.audit`` the audit of a dataset's edits.
"""

from ke_benchmarks.files.embedded import EmbeddedDataset, PromptFiles, digest_of_json
from ke_benchmarks.files.family import (
    CaseDataset,
    FileDataset,
    LazyMapping,
    Variant,
    digest_of,
    fit,
    folder_of,
    queries_of,
    user_file,
)
from ke_benchmarks.options import HIDE, data_dir_option, file_option, mask_option, relations_option
from ke_benchmarks.reproductions import ReproductionSpec, reproductions_in
from ke_core.plugin import all_have_labels, all_not_blank, has_label, not_blank, some_not_blank

__all__ = [
    "HIDE",
    "CaseDataset",
    "EmbeddedDataset",
    "FileDataset",
    "LazyMapping",
    "PromptFiles",
    "ReproductionSpec",
    "Variant",
    "all_have_labels",
    "all_not_blank",
    "data_dir_option",
    "digest_of",
    "digest_of_json",
    "file_option",
    "fit",
    "folder_of",
    "has_label",
    "mask_option",
    "not_blank",
    "queries_of",
    "relations_option",
    "reproductions_in",
    "some_not_blank",
    "user_file",
]  # fmt: skip
