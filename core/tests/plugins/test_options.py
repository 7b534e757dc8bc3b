"""``-o component.option=value``, by the type of the config's field."""

from typing import Literal

import pytest
from attrs import field, frozen, validators

from ke_core.plugin import EditorSpec
from ke_core.plugins.options import configure, describe, reject_unused, split_options
from ke_core.spec.codec import to_json
from ke_core.spec.errors import BadConfig


@frozen(kw_only=True)
class Config:
    layers: tuple[int, ...] | None = field(default=None, metadata={"help": "which layers", "derived": True})
    words: tuple[str, ...] = ("a", "b")
    rate: float = field(default=0.5, validator=validators.gt(0))
    steps: int = 25
    flag: bool = True
    mode: Literal["fast", "exact"] = "fast"
    name: str = ""
    limit: int | None = None


SPEC = EditorSpec(name="swap-large", summary="s", config=Config, build=lambda config: None, family="swap")


def usual_or_number(_instance, attribute, value):
    if value != "usual" and not value.isdigit():
        raise ValueError(f"{attribute.name} is a number or usual, not {value!r}")


def not_25(_instance, _attribute, value):
    if value == 25:
        raise ValueError("a flag needs 26")


@frozen(kw_only=True)
class Bounded:
    layers: tuple[int, ...] = field(default=(), validator=validators.deep_iterable(validators.ge(0)))
    words: tuple[str, ...] = field(default=("a",), validator=validators.min_len(1))
    rate: float = field(default=0.5, validator=validators.gt(0))
    share: float = field(default=0.5, validator=[validators.ge(0), validators.le(1)])
    calls: int = field(default=1, validator=validators.ge(1))
    form: str = field(default="prose", validator=validators.in_(("prose", "list")))
    level: str = field(default="usual", validator=usual_or_number)
    steps: int = field(default=1, validator=not_25)


BOUNDED = EditorSpec(name="swap-large", summary="s", config=Bounded, build=lambda config: None, family="swap")


def config(**given):
    return configure(SPEC, given)


def test_configure_without_options_returns_defaults():
    assert config() == Config()


@pytest.mark.parametrize("text", ["false", "False", "no", "off", "0"])
def test_option_set_to_false_is_false(text):
    assert config(flag=text).flag is False


@pytest.mark.parametrize("text", ["true", "YES", "on", "1"])
def test_option_set_to_true_is_true(text):
    assert config(flag=text).flag is True


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("layers", "4,5, 6", (4, 5, 6)),
        ("layers", "none", None),
        ("words", "x", ("x",)),
        ("words", "", ()),
        ("rate", "1e-3", 0.001),
        ("steps", "7", 7),
        ("mode", "exact", "exact"),
        ("name", "none", "none"),
        ("name", "a=b", "a=b"),
        ("limit", "3", 3),
        ("limit", "None", None),
    ],
)
def test_a_value_takes_the_type_of_its_field(name, text, value):
    assert getattr(config(**{name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("flag", "maybe", "true or false"),
        ("steps", "1.5", "whole number"),
        ("rate", "much", "number"),
        ("rate", "inf", "number"),
        ("rate", "nan", "number"),
        ("layers", "4,five", "whole numbers, separated by commas, or none"),
        ("mode", "slow", "fast | exact"),
    ],
)
def test_error_for_a_wrong_type_names_the_option(name, text, hint):
    with pytest.raises(BadConfig, match=f"swap.{name} cannot be") as caught:
        config(**{name: text})
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("given", "says", "hint"),
    [
        ({"rate": "-1"}, "swap.rate cannot be -1", "must be > 0"),
        ({"share": "1.5"}, "swap.share cannot be 1.5", "must be <= 1"),
        ({"calls": "0"}, "swap.calls cannot be 0", "must be >= 1"),
        ({"words": ""}, "swap.words cannot be ''", "Length of 'words' must be >= 1"),
        ({"form": "verse"}, "swap.form cannot be 'verse'", "must be in ('prose', 'list')"),
        ({"level": "high"}, "swap.level cannot be 'high'", "level is a number or usual, not 'high'"),
        ({"layers": "1,-1"}, "swap.layers cannot be '1,-1'", "must be >= 0"),
        ({"steps": "25"}, "options of swap-large do not fit: a flag needs 26", "ke show swap-large"),
    ],
)
def test_error_for_a_value_out_of_range_names_the_option(given, says, hint):
    with pytest.raises(BadConfig) as caught:
        configure(BOUNDED, given)
    assert (str(caught.value), caught.value.hint) == (says, hint)


def test_unknown_option_suggests_a_similar_one():
    with pytest.raises(BadConfig, match="swap-large has no option 'layer'") as caught:
        config(layer="4")
    assert caught.value.hint == "did you mean swap.layers?"


def test_unknown_option_lists_all_options():
    with pytest.raises(BadConfig) as caught:
        config(xyzzy="4")
    assert caught.value.hint.startswith("its options: layers, words")


def test_options_are_split_at_the_first_dot_and_the_first_equals_sign():
    assert split_options(["swap.words=a.b=c", "toy.x= 1 "]) == {"swap": {"words": "a.b=c"}, "toy": {"x": "1"}}


@pytest.mark.parametrize("text", ["layers=4", "swap.layers", "swap=4", ".layers=4", "swap.=4", "="])
def test_malformed_option_is_refused(text):
    with pytest.raises(BadConfig, match="bad option") as caught:
        split_options([text])
    assert caught.value.hint == "write it as -o component.option=value"


def test_repeated_option_is_refused():
    with pytest.raises(BadConfig, match=r"swap\.steps is given twice"):
        split_options(["swap.steps=1", "swap.steps=2"])


def test_an_option_for_a_component_outside_the_run_is_refused():
    with pytest.raises(BadConfig, match=r"option swp\.steps is for 'swp', which this run does not use") as caught:
        reject_unused({"swp": {"steps": "1"}}, [SPEC])
    assert caught.value.hint == "did you mean swap.steps?"
    reject_unused({"swap": {"steps": "1"}}, [SPEC])


def test_hint_suggests_only_existing_options():
    with pytest.raises(BadConfig) as caught:
        reject_unused({"swp": {"targets": "all"}}, [SPEC])
    assert caught.value.hint == "in use: swap"


def test_options_are_described_with_type_default_and_help():
    told = {option.name: (option.type, option.default, option.help) for option in describe(SPEC)}
    assert told["layers"] == ("whole numbers, separated by commas, or none", "derived", "which layers")
    assert told["flag"][:2] == ("true or false", "true")
    assert told["mode"][:2] == ("fast | exact", "fast")
    assert told["words"][1] == "a,b"
    assert told["limit"][1] == "none"


def test_resolved_config_contains_every_option():
    assert to_json(config(steps="3"))["steps"] == 3
    assert set(to_json(config())) == {option.name for option in describe(SPEC)}
