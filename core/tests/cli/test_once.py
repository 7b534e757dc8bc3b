"""What has one value and is given twice is refused: by the core's commands, those in groups, and plugins' own."""

import click
import pytest

from ke_core.plugin import hookimpl

RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


@pytest.mark.parametrize(
    ("command", "error", "hint"),
    [
        ((*RUN, "--dataset=toy"), "--dataset is given twice", "ke sweep FILE.toml runs several"),
        ((*RUN, "--batch", "1", "--batch", "2"), "--batch is given twice", "ke sweep FILE.toml runs several"),
        ((*RUN, "--chat", "--no-chat"), "--chat/--no-chat is given twice", "give it once"),
        (("sweep", "a.toml", "--out", "a", "--out", "b"), "--out is given twice", "give it once"),
        (("serve", "edits", "add", "a b", "--subject", "a", "--subject", "b"), "--subject is given twice", "give it"),
    ],
)
def test_it_is_said_in_one_line(ke, command, error, hint):
    for _again in range(2):  # a command is loaded once a process
        status, out, err = ke(*command)
        assert (status, out) == (2, "")
        assert err.splitlines()[0] == f"error: {error}"
        assert err.splitlines()[1].startswith(f"hint:  {hint}")


def test_what_may_be_repeated_may_be(ke):
    assert ke(*RUN, "--editor", "other", "-o", "sayer.word=Rome", "-o", "sayer.loud=yes", "--out", "both")[0] == 0
    assert ke("sweep", "none.toml", "--dry-run", "--dry-run")[2].startswith("error: ")
    assert ke(*RUN, "--dataset", "toy", "--help")[0] == 0


def test_so_does_a_command_of_a_plugin(ke, plugins):
    @click.command("greet")
    @click.option("--name")
    def greet(name):
        click.echo(name)

    class Greeter:
        @hookimpl
        def ke_commands(self, group):
            group.add_command(greet)

    plugins.register(Greeter(), "greeter")
    assert ke("greet", "--name", "a")[:2] == (0, "a\n")
    assert ke("greet", "--name", "a", "--name", "b")[2].startswith("error: --name is given twice\n")
