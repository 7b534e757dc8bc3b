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
from ke_benchmarks.probes import perplexity_probes, question_entities, single_edit_probes, sub_questions
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
    "perplexity_probes",
    "queries_of",
    "question_entities",
    "read_cases",
    "read_header",
    "read_records",
    "reproductions_in",
    "scan_cases",
    "single_edit_probes",
    "some_not_blank",
    "structure_record",
    "sub_questions",
    "write_cases",
]  # fmt: skip
