"""The module that authors of commands import from: console, options, run folders, runs, scores and tables.

It contains re-exports only.
"""

from ke_core import builtin, errors
from ke_core.cli import console, options
from ke_core.cli.app import App
from ke_core.cli.console import BarProgress, LineProgress, err, out, progress
from ke_core.cli.errors import DONE, FAILED
from ke_core.cli.judge import judge_model, say_spent
from ke_core.cli.main import main
from ke_core.cli.options import component_options, json_option, print_json, server_options
from ke_core.cli.running import model_choice, recorded_model_choice
from ke_core.data.records import OWN, Batch, Judged, Probed, Record, Replied, unanswered
from ke_core.data.runspec import IMPORTED, SCHEMA, Component, DataRef, ModelRef, Plan, RunSpec
from ke_core.data.statistics import count_cases
from ke_core.engine.absent import NO_MODEL, NoModel
from ke_core.engine.engine import BatchingEngine
from ke_core.plugins.built import build_component
from ke_core.plugins.catalog import KINDS, Catalog, Registration, read_catalog
from ke_core.plugins.directory import directory_entries
from ke_core.plugins.faults import CORE_DISTRIBUTION, declares_core, name_conflict, one_line_reason
from ke_core.plugins.manager import Installed, Plugins, discover, empty_manager
from ke_core.plugins.offers import registered_specs
from ke_core.plugins.options import configure, reject_unused, split_options
from ke_core.report.answers import AnsweredCase, QueryKey, RunDataset, read_answers, run_dataset
from ke_core.report.clean import one_line, sanitize
from ke_core.report.effort import ANSWERS_TITLE, NO_METRIC
from ke_core.report.footer import (
    WARNING,
    component_words,
    judge_warnings,
    missing_answers,
    run_summary,
    shared_settings,
)
from ke_core.report.grid import (
    AFTER,
    COST_MEASURES,
    UNEDITED,
    ColumnHeader,
    Grid,
    ReportRow,
    edited_rows,
    score_grids,
    slice_grids,
    sorted_tag_values,
    unedited_rows,
)
from ke_core.report.load import LoadedRuns, load_report
from ke_core.report.markup import escaped, table_row
from ke_core.report.naming import run_names
from ke_core.report.numbers import (
    NO_VALUE,
    SECONDS,
    SHORTEST_SECONDS,
    count_noun,
    duration,
    format_interval,
    format_score,
    shown_unit,
)
from ke_core.report.page import report_page
from ke_core.report.run import (
    MetricColumn,
    Reported,
    columns_by_table,
    metric_columns,
    plan_words,
    run_labels,
    without_model,
)
from ke_core.report.text import literal, plain_table, titled
from ke_core.results.aggregate import PART_TAG, TESTED, Observation, aggregate, observations
from ke_core.results.agreement import Agreement, AgreementCheck, agreement_warning, measure_agreement, save_check
from ke_core.results.difference import first_difference
from ke_core.results.folder import CHOOSE_OTHER_FOLDER, SCORES, RunFolder, environment, runs_in
from ke_core.results.intervals import bootstrap, bootstrap_average
from ke_core.results.lines import refuse_other, to_bytes, whole_lines
from ke_core.results.measured import read_scores
from ke_core.results.verdicts import VERDICTS, VERDICTS_SPEC, Verdicts
from ke_core.results.writer import open_writer
from ke_core.run.asking import refuse_weightless
from ke_core.run.asks import aspects_of, in_form, queries_of
from ke_core.run.blinding import ByOpaqueId
from ke_core.run.components import DATA_DIR, Options, ResolvedComponent, naming_files, resolve_component, with_flag
from ke_core.run.edit_files import (
    FIELD_NAMES,
    STATE_FIELD,
    edit_from,
    edit_from_sentence,
    given_fields,
    normalize_statement,
    read_edits,
    read_rows,
)
from ke_core.run.estimate import EarlierRuns, Rates, Workload, workload_of
from ke_core.run.evaluation import (
    EvalRequest,
    ResolvedRun,
    complete_job,
    judge_folder,
    resolve_request,
    run_job,
    score_folder,
)
from ke_core.run.guard import untouched
from ke_core.run.judges import ChosenJudge, JudgeModel, OpenJudge, metrics_of, open_judge, resolve_judge
from ke_core.run.judging import gold_of, judge_items, judge_run
from ke_core.run.lines import SourceLine, parse_lines, read_lines, text_field, texts_field
from ke_core.run.loop import UNEDITED_BATCH
from ke_core.run.making import EditApplier
from ke_core.run.measures import build_metrics, judge_and_metrics, measures_of
from ke_core.run.phases import measured_phase
from ke_core.run.plan import groups, select
from ke_core.run.recorded import Datasets, RecordedRun, StoredCases, recorded_run
from ke_core.run.recorder import count_failures
from ke_core.run.saved_edits import SavedEdit, is_saved_edit, opened_edit, read_saved_edit, write_saved_edit
from ke_core.run.scoring import records_of, score_run
from ke_core.run.session import ModelChoice, open_session
from ke_core.run.tables import UNFINISHED
from ke_core.runner.world import world

__all__ = [
    "AFTER",
    "ANSWERS_TITLE",
    "CHOOSE_OTHER_FOLDER",
    "CORE_DISTRIBUTION",
    "COST_MEASURES",
    "DATA_DIR",
    "DONE",
    "FAILED",
    "FIELD_NAMES",
    "IMPORTED",
    "KINDS",
    "NO_METRIC",
    "NO_MODEL",
    "NO_VALUE",
    "OWN",
    "PART_TAG",
    "SCHEMA",
    "SCORES",
    "SECONDS",
    "SHORTEST_SECONDS",
    "STATE_FIELD",
    "TESTED",
    "UNEDITED",
    "UNEDITED_BATCH",
    "UNFINISHED",
    "VERDICTS",
    "VERDICTS_SPEC",
    "WARNING",
    "Agreement",
    "AgreementCheck",
    "AnsweredCase",
    "App",
    "BarProgress",
    "Batch",
    "BatchingEngine",
    "ByOpaqueId",
    "Catalog",
    "ChosenJudge",
    "ColumnHeader",
    "Component",
    "DataRef",
    "Datasets",
    "EarlierRuns",
    "EditApplier",
    "EvalRequest",
    "Grid",
    "Installed",
    "JudgeModel",
    "Judged",
    "LineProgress",
    "LoadedRuns",
    "MetricColumn",
    "ModelChoice",
    "ModelRef",
    "NoModel",
    "Observation",
    "OpenJudge",
    "Options",
    "Plan",
    "Plugins",
    "Probed",
    "QueryKey",
    "Rates",
    "Record",
    "RecordedRun",
    "Registration",
    "Replied",
    "ReportRow",
    "Reported",
    "ResolvedComponent",
    "ResolvedRun",
    "RunDataset",
    "RunFolder",
    "RunSpec",
    "SavedEdit",
    "SourceLine",
    "StoredCases",
    "Verdicts",
    "Workload",
    "aggregate",
    "agreement_warning",
    "aspects_of",
    "bootstrap",
    "bootstrap_average",
    "build_component",
    "build_metrics",
    "builtin",
    "columns_by_table",
    "complete_job",
    "component_options",
    "component_words",
    "configure",
    "console",
    "count_cases",
    "count_failures",
    "count_noun",
    "declares_core",
    "directory_entries",
    "discover",
    "duration",
    "edit_from",
    "edit_from_sentence",
    "edited_rows",
    "empty_manager",
    "environment",
    "err",
    "errors",
    "escaped",
    "first_difference",
    "format_interval",
    "format_score",
    "given_fields",
    "gold_of",
    "groups",
    "in_form",
    "is_saved_edit",
    "json_option",
    "judge_and_metrics",
    "judge_folder",
    "judge_items",
    "judge_model",
    "judge_run",
    "judge_warnings",
    "literal",
    "load_report",
    "main",
    "measure_agreement",
    "measured_phase",
    "measures_of",
    "metric_columns",
    "metrics_of",
    "missing_answers",
    "model_choice",
    "name_conflict",
    "naming_files",
    "normalize_statement",
    "observations",
    "one_line",
    "one_line_reason",
    "open_judge",
    "open_session",
    "open_writer",
    "opened_edit",
    "options",
    "out",
    "parse_lines",
    "plain_table",
    "plan_words",
    "print_json",
    "progress",
    "queries_of",
    "read_answers",
    "read_catalog",
    "read_edits",
    "read_lines",
    "read_rows",
    "read_saved_edit",
    "read_scores",
    "recorded_model_choice",
    "recorded_run",
    "records_of",
    "refuse_other",
    "refuse_weightless",
    "registered_specs",
    "reject_unused",
    "report_page",
    "resolve_component",
    "resolve_judge",
    "resolve_request",
    "run_dataset",
    "run_job",
    "run_labels",
    "run_names",
    "run_summary",
    "runs_in",
    "sanitize",
    "save_check",
    "say_spent",
    "score_folder",
    "score_grids",
    "score_run",
    "select",
    "server_options",
    "shared_settings",
    "shown_unit",
    "slice_grids",
    "sorted_tag_values",
    "split_options",
    "table_row",
    "text_field",
    "texts_field",
    "titled",
    "to_bytes",
    "unanswered",
    "unedited_rows",
    "untouched",
    "whole_lines",
    "with_flag",
    "without_model",
    "workload_of",
    "world",
    "write_saved_edit",
]
