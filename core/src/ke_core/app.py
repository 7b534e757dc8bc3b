"""The facade for authors of commands: console, options, run folders, runs, scores and tables.

It contains re-exports only.
"""

from ke_core import builtin
from ke_core.api.editing import EditedModel
from ke_core.api.models import CallProgress, Model, installed_catalog
from ke_core.api.tables import Table
from ke_core.cli import completion, console, options
from ke_core.cli.app import App
from ke_core.cli.console import err, out, progress
from ke_core.cli.errors import DONE, FAILED
from ke_core.cli.main import main
from ke_core.cli.options import component_options, json_option, print_json, print_rows, server_options
from ke_core.cli.report import opened_runs, print_report
from ke_core.cli.running import model_choice
from ke_core.engine.batching import BatchingEngine
from ke_core.engine.models import NO_MODEL, NoModel, known_models, open_model
from ke_core.plugins.catalog import KINDS, Catalog, Registration, read_catalog, registered_specs
from ke_core.plugins.directory import directory_entries
from ke_core.plugins.faults import CORE_DISTRIBUTION, declares_core, name_conflict, one_line_reason
from ke_core.plugins.manager import Installed, Plugins, discover, empty_manager
from ke_core.plugins.options import configure, option_text, reject_unused, split_options
from ke_core.results.aggregate import BUCKET, PART_TAG, TESTED, Population, aggregate, observed_values
from ke_core.results.agreement import Agreement, AgreementCheck, agreement_warning, kept, save_check
from ke_core.results.difference import first_difference
from ke_core.results.folder import (
    CHOOSE_OTHER_FOLDER,
    DAMAGED,
    PART,
    RECORDS,
    RUN,
    SCORES,
    RunFolder,
    environment,
    read_records,
    runs_in,
)
from ke_core.results.footer import WARNING, losses, score_warnings, spent_words, unfinished
from ke_core.results.formatting import (
    NO_VALUE,
    SECONDS,
    SHORTEST_SECONDS,
    count_noun,
    duration,
    format_interval,
    format_score,
    literal,
    no_interval,
    plain_table,
    shown_unit,
    titled,
)
from ke_core.results.grid import (
    AFTER,
    PROMPT,
    UNEDITED,
    ColumnHeader,
    Grid,
    Line,
    ReportRow,
    column_measure,
    edited_rows,
    prompt_name,
    score_grids,
    unedited_rows,
    value_notes,
)
from ke_core.results.index import Index, key_of
from ke_core.results.intervals import DIGITS, RESAMPLES, bootstrap, bootstrap_average, percentile_interval
from ke_core.results.lines import LOG, refuse_other, to_bytes, whole_lines
from ke_core.results.load import progress_json, read_report, read_scores
from ke_core.results.reported import (
    MetricColumn,
    Reported,
    columns_by_table,
    metric_columns,
    plan_words,
    run_labels,
    without_model,
)
from ke_core.results.sanitize import escaped, one_line, sanitize, table_row
from ke_core.results.seal import SEAL
from ke_core.results.short import summary
from ke_core.results.tally import ANSWERS_TITLE, NO_METRIC, Tally, tally_of
from ke_core.results.writer import open_writer
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.blinding import ByOpaqueId
from ke_core.runner.edit_files import FIELD_NAMES, STATE_FIELD, edit_from, normalize_statement, read_edits, read_rows
from ke_core.runner.evaluate import LoadedRuns, evaluate, judge_folder, load_report, load_runs, score_folder
from ke_core.runner.judging import JudgeModel, gold_of, judge_items, judge_run, metrics_of, open_judge, waiting_items
from ke_core.runner.plan import Group, groups, select
from ke_core.runner.prepare import load_model, refuse_edits, refuse_weightless, resolve_run
from ke_core.runner.recorded import RecordedRun, StoredCases, read_dataset, recorded_run
from ke_core.runner.requests import RequestBuilder, RequestGroup, in_form, queries_of
from ke_core.runner.resolve import (
    DATA_DIR,
    Options,
    ResolvedComponent,
    build_component,
    choose_again,
    naming_files,
    resolve_component,
    with_data_dir,
    with_flag,
)
from ke_core.runner.run import EvalRequest, OpenJudge, ResolvedRun
from ke_core.runner.scoring import build_metrics, dataset_judge, judge_and_metrics, measures_of, records_of, score_run
from ke_core.runner.session import ModelChoice, open_session
from ke_core.runner.steps import UNEDITED_BATCH
from ke_core.runner.tables import UNFINISHED, evaluations
from ke_core.runner.usage import Prices, measured_phase
from ke_core.runner.world import started, world
from ke_core.spec import errors
from ke_core.spec.codec import converter
from ke_core.spec.records import OWN, Batch, Judged, Probed, Record, Replied, unanswered
from ke_core.spec.runspec import IMPORTED, SCHEMA, Component, DataRef, ModelRef, Plan, RunSpec
from ke_core.storage.json_reading import SourceLine, parse_lines, read_lines, text_field, texts_field

__all__ = [
    "AFTER", "ANSWERS_TITLE", "BUCKET", "CHOOSE_OTHER_FOLDER", "CORE_DISTRIBUTION", "DAMAGED", "DATA_DIR", "DIGITS",
    "DONE", "FAILED", "FIELD_NAMES", "IMPORTED", "KINDS", "LOG", "NO_METRIC", "NO_MODEL", "NO_VALUE", "OWN", "PART",
    "PART_TAG", "PROMPT", "RECORDS", "RESAMPLES", "RUN", "SCHEMA", "SCORES", "SEAL", "SECONDS", "SHORTEST_SECONDS",
    "STATE_FIELD", "TESTED", "UNEDITED", "UNEDITED_BATCH", "UNFINISHED", "WARNING", "Agreement", "AgreementCheck",
    "App", "Batch", "BatchingEngine", "ByOpaqueId", "CallProgress", "Catalog", "ColumnHeader", "Component", "DataRef",
    "EditApplier", "EditedModel", "EvalRequest", "Grid", "Group", "Index", "Installed", "JudgeModel", "Judged", "Line",
    "LoadedRuns", "MetricColumn", "Model", "ModelChoice", "ModelRef", "NoModel", "OpenJudge", "Options", "Plan",
    "Plugins", "Population", "Prices", "Probed", "Record", "RecordedRun", "Registration", "Replied", "ReportRow",
    "Reported", "RequestBuilder", "RequestGroup", "ResolvedComponent", "ResolvedRun", "RunFolder", "RunSpec",
    "SourceLine", "StoredCases", "Table", "Tally", "aggregate", "agreement_warning", "bootstrap", "bootstrap_average",
    "build_component", "build_metrics", "builtin", "choose_again", "column_measure", "columns_by_table", "completion",
    "component_options", "configure", "console", "converter", "count_noun", "dataset_judge", "declares_core",
    "directory_entries", "discover", "duration", "edit_from", "edited_rows", "empty_manager", "environment", "err",
    "errors", "escaped", "evaluate", "evaluations", "first_difference", "format_interval", "format_score", "gold_of",
    "groups", "in_form", "installed_catalog", "json_option", "judge_and_metrics", "judge_folder", "judge_items",
    "judge_run", "kept", "key_of", "known_models", "literal", "load_model", "load_report", "load_runs", "losses",
    "main", "measured_phase", "measures_of", "metric_columns", "metrics_of", "model_choice", "name_conflict",
    "naming_files", "no_interval", "normalize_statement", "observed_values", "one_line", "one_line_reason",
    "open_judge", "open_model", "open_session", "open_writer", "opened_runs", "option_text", "options", "out",
    "parse_lines", "percentile_interval", "plain_table", "plan_words", "print_json", "print_report", "print_rows",
    "progress", "progress_json", "prompt_name", "queries_of", "read_catalog", "read_dataset", "read_edits",
    "read_lines", "read_records", "read_report", "read_rows", "read_scores", "recorded_run", "records_of",
    "refuse_edits", "refuse_other", "refuse_weightless", "registered_specs", "reject_unused", "resolve_component",
    "resolve_run", "run_labels", "runs_in", "sanitize", "save_check", "score_folder", "score_grids", "score_run",
    "score_warnings", "select", "server_options", "shown_unit", "spent_words", "split_options", "started", "summary",
    "table_row", "tally_of", "text_field", "texts_field", "titled", "to_bytes", "unanswered", "unedited_rows",
    "unfinished", "untouched", "value_notes", "waiting_items", "whole_lines", "with_data_dir", "with_flag",
    "without_model", "world",
]  # fmt: skip
