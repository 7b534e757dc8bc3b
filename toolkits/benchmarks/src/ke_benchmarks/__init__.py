"""Toolkit for benchmark authors: published files, reproductions, knowledge graphs, audits. Does not import torch.

``ke_benchmarks.graph`` contains knowledge graphs and builders, ``ke_benchmarks.audit`` the audit of a dataset's edits.
"""

from ke_benchmarks.answered import FORCED, FORCED_ASPECTS, both_phases, one_of, scored_query, truth_names, with_decoys
from ke_benchmarks.answers import QUESTION_STYLES, SUB_QUESTION, long_answer_prompt, short_answer_prompt
from ke_benchmarks.checks import all_have_labels, all_not_blank, has_label, not_blank, some_not_blank
from ke_benchmarks.counts import count_cases
from ke_benchmarks.files.cases import CaseHeader, read_cases, read_header, scan_cases, write_cases
from ke_benchmarks.files.download import find_data
from ke_benchmarks.files.embedded import (
    ATLAS_LICENSE,
    EmbeddedDataset,
    PromptFiles,
    atlas_variant,
    digest_of_json,
    embedded_records,
)
from ke_benchmarks.files.family import (
    CaseDataset,
    FileDataset,
    LazyMapping,
    Variant,
    digest_of,
    folder_of,
    queries_of,
    user_file,
    variant_specs,
)
from ke_benchmarks.files.records import read_records, structure_record
from ke_benchmarks.options import (
    HIDE,
    answer_end_option,
    data_dir_option,
    file_option,
    mask_option,
    max_tokens_option,
    relations_option,
)
from ke_benchmarks.probes import (
    perplexity_probes,
    question_entities,
    single_edit_cases,
    single_edit_probes,
    sort_key,
    sub_questions,
)
from ke_benchmarks.question_edits import cloze_edit, question_edit, text_edit
from ke_benchmarks.reproductions import ReproductionSpec, reproductions_in
from ke_benchmarks.texts import (
    CONSISTENT,
    FACT_LABELS,
    FACT_UNSURE,
    INCONSISTENT,
    NO_THOUGHTS,
    NOT_SUPPORT,
    SUPPORT,
    SUPPORT_LABELS,
    SUPPORT_UNSURE,
    UNRELATED,
    ngram_entropy,
    sentences,
    thoughts_of,
)

__all__ = [
    "ATLAS_LICENSE",
    "CONSISTENT",
    "FACT_LABELS",
    "FACT_UNSURE",
    "FORCED",
    "FORCED_ASPECTS",
    "HIDE",
    "INCONSISTENT",
    "NOT_SUPPORT",
    "NO_THOUGHTS",
    "QUESTION_STYLES",
    "SUB_QUESTION",
    "SUPPORT",
    "SUPPORT_LABELS",
    "SUPPORT_UNSURE",
    "UNRELATED",
    "CaseDataset",
    "CaseHeader",
    "EmbeddedDataset",
    "FileDataset",
    "LazyMapping",
    "PromptFiles",
    "ReproductionSpec",
    "Variant",
    "all_have_labels",
    "all_not_blank",
    "answer_end_option",
    "atlas_variant",
    "both_phases",
    "cloze_edit",
    "count_cases",
    "data_dir_option",
    "digest_of",
    "digest_of_json",
    "embedded_records",
    "file_option",
    "find_data",
    "folder_of",
    "has_label",
    "long_answer_prompt",
    "mask_option",
    "max_tokens_option",
    "ngram_entropy",
    "not_blank",
    "one_of",
    "perplexity_probes",
    "queries_of",
    "question_edit",
    "question_entities",
    "read_cases",
    "read_header",
    "read_records",
    "relations_option",
    "reproductions_in",
    "scan_cases",
    "scored_query",
    "sentences",
    "short_answer_prompt",
    "single_edit_cases",
    "single_edit_probes",
    "some_not_blank",
    "sort_key",
    "structure_record",
    "sub_questions",
    "text_edit",
    "thoughts_of",
    "truth_names",
    "user_file",
    "variant_specs",
    "with_decoys",
    "write_cases",
]  # fmt: skip
