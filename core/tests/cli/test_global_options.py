"""Help by section, --quiet, --verbose, --config, --json, completion, and the kind of a component."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ke_core import builtin
from ke_core.cli.completion import component
from ke_core.plugin import EditorSpec, hookimpl
from ke_testing.toy import ToyConfig

RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")
SECTIONS = ("Evaluate", "Edit and ship", "Inspect", "Prepare", "Extend")


def section(text, title):
    """The lines under a heading of a help page."""
    return text.split(f"\n{title}:\n")[1].split("\n\n")[0].splitlines()


def test_help_lists_commands_by_section_in_one_line_each(ke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = ke("--help")[1]
    places = [out.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    for name, (title, summary) in builtin.COMMANDS.items():
        line = next(line for line in section(out, title) if line.split()[0] == name)
        assert line.endswith(f"  {summary}")
        assert len(line) <= 80


def test_a_plugin_names_the_section_of_its_command_else_it_is_other(ke, plugins):
    class Commands:
        @hookimpl
        def ke_commands(self, group):
            named = click.Command("named", short_help="In a section.")
            named.section = "Inspect"
            group.add_command(named)
            group.add_command(click.Command("plain", short_help="In none."))
            group.add_command(click.Command("secret", hidden=True))

    plugins.register(Commands(), "commands")
    out = ke("--help")[1]
    assert any(line.split()[0] == "named" for line in section(out, "Inspect"))
    assert [line.split()[0] for line in section(out, "Other")] == ["plain"]
    assert "secret" not in out


def test_options_of_eval_are_listed_by_section_and_those_for_servers_last(ke):
    out = ke("eval", "--help")[1]
    titles = [line[:-1] for line in out.splitlines() if line.endswith(":") and line[:1].strip()]
    assert titles == [
        "Method and data", "Model", "Protocol", "Prompts and scoring", "Run", "Other options", "Models behind HTTP",
    ]  # fmt: skip
    assert "--editor" in "".join(section(out, "Method and data"))
    assert "--price-in" in "".join(section(out, "Models behind HTTP"))
    assert section(out, "Other options") == ["  -h, --help  Show this message and exit."]


def test_a_command_without_sections_lists_its_options_as_options(ke):
    out = ke("score", "--help")[1]
    assert "--metric" in "".join(section(out, "Options"))
    assert "Other options" not in out


@pytest.mark.parametrize("arguments", [("-q", *RUN), (*RUN, "--quiet")])
def test_quiet_prints_results_only(ke, arguments):
    status, out, err = ke(*arguments)
    assert status == 0
    assert "sayer" in out
    assert err == ""


def test_quiet_prints_errors(ke):
    assert ke("-q", "show", "nothing-like-it")[2].startswith("error: no component called 'nothing-like-it'\n")


def test_quiet_and_verbose_exclude_each_other(ke):
    assert ke("-q", "runs", "-v")[2].startswith("error: --quiet and --verbose exclude each other\n")


def test_global_options_after_two_dashes_are_arguments(ke, plugins):
    @click.command("say")
    @click.argument("words", nargs=-1)
    def say(words):
        click.echo(" ".join(words))

    class Sayer:
        @hookimpl
        def ke_commands(self, group):
            group.add_command(say)

    plugins.register(Sayer(), "says")
    assert ke("say", "-v", "a", "--", "-v", "-q")[1] == "a -v -q\n"


def test_verbose_prints_log_messages_and_ends_with_the_command(ke, plugins):
    @click.command("talk")
    def talk():
        logging.getLogger("library").debug("loading shard 1")

    class Talker:
        @hookimpl
        def ke_commands(self, group):
            group.add_command(talk)

    plugins.register(Talker(), "talks")
    level = logging.getLogger().level
    err = ke("-v", "talk")[2]
    assert "DEBUG library: loading shard 1\n" in err
    assert logging.getLogger().level == level
    assert "loading shard" not in ke("talk")[2]


def test_verbose_prints_warnings_that_python_hides():
    code = """
import sys, warnings
from ke_core.cli.errors import guarded
guarded(lambda: warnings.warn("slow path", PendingDeprecationWarning, stacklevel=1), verbose="-v" in sys.argv)
"""
    run = [sys.executable, "-c", code]
    hidden, shown = (subprocess.run([*run, *more], check=True, capture_output=True, text=True) for more in ([], ["-v"]))
    assert "PendingDeprecationWarning: slow path" in shown.stderr
    assert hidden.stderr == ""


CONFIG = """
editor = ["sayer", "other"]
dataset = "toy"
model = "echo:1"
batch = "all"
limit = 1
chat = true

[options.sayer]
word = "Rome"
loud = true
"""


def spec_of(path):
    return json.loads((path / "run.json").read_text())["spec"]


def test_config_sets_options_and_the_command_line_overrides_them(ke, tmp_path):
    Path("eval.toml").write_text(CONFIG)
    assert ke("eval", "--config", "eval.toml", "--out", "both")[0] == 0
    specs = {spec["editor"]["name"]: spec for spec in map(spec_of, (tmp_path / "both").iterdir())}
    assert set(specs) == {"sayer", "other"}
    assert specs["sayer"]["plan"]["limit"] == 1
    assert specs["sayer"]["plan"]["size"] is None
    assert specs["sayer"]["model"]["chat"] is True
    assert specs["sayer"]["editor"]["options"] == {"word": "Rome", "loud": True}
    given = ("--editor", "sayer", "--limit", "2", "--no-chat", "-o", "sayer.word=Oslo")
    assert ke("eval", "--config", "eval.toml", *given, "--out", "one")[0] == 0
    spec = spec_of(tmp_path / "one")
    assert (spec["plan"]["limit"], spec["model"]["chat"]) == (2, False)
    assert spec["editor"]["options"] == {"word": "Oslo", "loud": True}


def test_a_single_value_of_a_repeatable_option_needs_no_list_in_config(ke, tmp_path):
    Path("eval.toml").write_text('editor = "sayer"\ndataset = "toy"\nmodel = "echo:1"\nout = "here"\n')
    assert ke("eval", "--config", "eval.toml")[0] == 0
    assert spec_of(tmp_path / "here")["editor"]["name"] == "sayer"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ('datset = "toy"', "unknown key 'datset' (eval.toml)", "did you mean 'dataset'?"),
        ("zzz = 1", "unknown key 'zzz' (eval.toml)", "keys: "),
        ('config = "x"', "unknown key 'config' (eval.toml)", ""),
        ("dataset = true", "dataset cannot be True (eval.toml)", "see --dataset in ke eval --help"),
        ("limit = [1, 2]", "limit cannot be [1, 2] (eval.toml)", "see --limit"),
        ('sequential = "yes"', "sequential cannot be 'yes' (eval.toml)", "see --sequential"),
        ("options = 3", "options cannot be 3 (eval.toml)", "write [options.NAME]"),
        ("[options.sayer]\nword = {}", "options.sayer.word (eval.toml) cannot be {}", "a text, a number"),
        ("limit = 0", "invalid value for '--limit': 0 is not in the range x>=1", ""),
        ("limit =", "eval.toml is not TOML: ", ""),
    ],
)
def test_a_mistake_in_config_is_named(ke, text, error, hint):
    Path("eval.toml").write_text(text)
    status, out, err = ke("eval", "--config", "eval.toml")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {error}")
    assert hint in err


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("show", "sayer"), "options"),
        (("plugins",), 0),
        (("plugins", "search", "memit"), 0),
        (("datasets", "list"), 0),
        (("datasets", "info", "toy"), "license"),
        (("datasets", "stats", "toy"), "counts"),
        (("datasets", "sample", "toy"), 0),
        (("judges", "list"), 0),
        (("models", "list"), 0),
        (("runs", "list", "."), 0),
        (("runs", "show", "done"), "scores"),
        (("runs", "prune", "."), None),
        (("report", "done"), 0),
        (("score", "done"), 0),
        (("judge", "done"), 0),
        (("reproduce", "list"), None),
        (("audit", "toy"), None),
        (("leaderboard", "."), None),
    ],
)
def test_json_instead_of_tables(ke, evaluated, command, key):
    status, out, _err = ke(*command, "--json")
    found = json.loads(out)
    assert status == 0
    assert key is None or found[key]


def test_eval_and_demo_print_json(ke):
    (run,) = json.loads(ke(*RUN, "--json")[1])
    assert (run["editor"], run["dataset"]) == ("sayer", "toy")
    assert {"metric", "aspect", "value", "n", "interval"} <= set(run["scores"][0])
    demo = ("demo", "--editor", "sayer", "--editor", "other", "--dataset", "toy", "--model", "echo:1", "--json")
    assert [run["editor"] for run in json.loads(ke(*demo)[1])] == ["sayer", "other"]


def test_report_writes_files_or_prints_json_not_both(ke, evaluated):
    assert "--json prints on standard output" in ke("report", "done", "--json", "--csv", "a.csv")[2]


def test_show_finds_the_kind_of_a_component(ke):
    assert ke("show", "sayer")[1] == ke("show", "editor", "sayer")[1]
    assert ke("show", "toy")[1].startswith("toy: two cases")


def test_show_of_a_name_of_several_kinds_lists_the_kinds(ke, plugins):
    class Twin:
        @hookimpl
        def ke_editors(self):
            return [EditorSpec(name="toy", summary="mine", config=ToyConfig, build=lambda config: None)]

    plugins.register(Twin(), "twin")
    status, _out, err = ke("show", "toy")
    assert (status, err) == (2, "error: 'toy' is ambiguous: editor, dataset\nhint:  ke show editor toy\n")
    assert ke("show", "dataset", "toy")[0] == 0


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        ("sayr", "no component called 'sayr'", "did you mean 'sayer'?"),
        ("mello", "no editor called 'mello'", "pip install ke-plugin-mello"),
        ("zzzzzz", "no component called 'zzzzzz'", "ke plugins lists the installed components"),
    ],
)
def test_show_of_an_unknown_name_says_what_to_type_or_install(ke, name, error, hint):
    assert ke("show", name)[2] == f"error: {error}\nhint:  {hint}\n"


def completions(ke, monkeypatch, capsys, line):
    monkeypatch.setenv("_KE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit):
        ke()
    return [found.partition(",")[2] for found in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ke eva", ["eval"]),
        ("ke eval --edit", ["--editor", "--edits-per-batch", "--edited-form"]),
        ("ke eval --editor s", ["sayer", "surgeon"]),
        ("ke eval --dataset t", ["toy"]),
        ("ke eval --judge e", ["exact"]),
        ("ke eval --metric a", ["accuracy"]),
        ("ke eval --model smol", ["smollm2-135m"]),
        ("ke eval --editor sayer -o sayer.", ["sayer.loud=", "sayer.word="]),
        ("ke show to", ["toy"]),
        ("ke score runs/d", ["runs/demo/done"]),
        ("ke datasets stats t", ["toy"]),
    ],
)
def test_the_shell_completes_values(ke, evaluated, monkeypatch, capsys, line, found):
    Path("runs/demo").mkdir(parents=True)
    evaluated.rename("runs/demo/done")
    assert completions(ke, monkeypatch, capsys, line) == found


def test_completion_without_ke_offers_nothing():
    assert component("editor")(click.Context(click.Command("x")), click.Option(["-x"]), "") == []
