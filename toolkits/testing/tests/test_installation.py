"""Checks of ``ke plugins check`` that run no contract."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, make_class

from ke_core.app import empty_manager
from ke_core.plugin import EditorSpec, hookimpl
from ke_testing.checks import installation_checks, registrations

How = Enum("How", ["FAST"])


def failed_option_check(name, default, annotation):
    """Return the failed check of the options of an editor with one option, if it fails."""
    config = make_class("Config", {name: field(default=default)}, frozen=True)
    config.__annotations__ = {} if annotation is None else {name: annotation}

    class Plugin:
        @hookimpl
        def ke_editors(self):
            return [EditorSpec(name="odd", summary="an editor", config=config, build=lambda config: None)]

    plugins = empty_manager()
    plugins.register(Plugin(), "ke-plugin-odd")
    results = installation_checks(plugins, registrations(plugins), "ke-plugin-odd")
    return next(one for one in results if one.check == "the options of editor odd can be set")


@pytest.mark.parametrize("default", [[3, 4], {}, set(), bytearray(), type("Box", (), {})()])
def test_mutable_default_is_named_with_its_option(default):
    found = failed_option_check("layers", default, Any)
    assert found.found.startswith("option layers has a mutable default, ")
    assert found.do == "make the default of Config.layers a tuple, text, number or frozen class"


@pytest.mark.parametrize(
    ("default", "annotation", "reason"),
    [
        (3, object, "option size is of type <class 'object'>, which cannot be read from text"),
        (3j, complex, "option size is of type <class 'complex'>, which cannot be read from text"),
        (3, "Missing", "the types of its options cannot be resolved: name 'Missing' is not defined"),
        (3, None, "option size has no type"),
    ],
)
def test_option_without_a_readable_type_is_named(default, annotation, reason):
    found = failed_option_check("size", default, annotation)
    assert found.found == reason
    assert "Config" in found.do


@pytest.mark.parametrize(
    ("default", "annotation"),
    [(Path("x"), Path), (How.FAST, How), (None, tuple[int, ...] | Literal["all"] | None), (1.0, "float")],
)
def test_paths_choices_and_enumerations_are_options(default, annotation):
    assert failed_option_check("option", default, annotation).outcome == "passed"
