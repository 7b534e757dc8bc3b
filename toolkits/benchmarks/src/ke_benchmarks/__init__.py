"""Toolkit for benchmark authors: published files, reproductions, knowledge graphs, audits. No torch here.

``ke_benchmarks.graph`` holds knowledge graphs and builders, ``ke_benchmarks.audit`` the audit of a dataset's edits.
"""

from ke_benchmarks.checks import all_have_labels, all_not_blank, has_label, not_blank, some_not_blank
from ke_benchmarks.files.cases import CaseHeader, read_cases, read_header, scan_cases, write_cases
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
from ke_benchmarks.files.records import read_records, structure_record
from ke_benchmarks.reproductions import ReproductionSpec, reproductions_in

__all__ = [
    "CaseDataset",
    "CaseHeader",
    "Deferred",
    "FileDataset",
    "ReproductionSpec",
    "Variant",
    "all_have_labels",
    "all_not_blank",
    "digest_of",
    "fit",
    "folder_of",
    "has_label",
    "not_blank",
    "own_file",
    "queries_of",
    "read_cases",
    "read_header",
    "read_records",
    "reproductions_in",
    "scan_cases",
    "some_not_blank",
    "structure_record",
    "write_cases",
]  # fmt: skip
