"""Choose the contract of a component, after trying to use it once.

A reason that prevents all checks is reported once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from attrs import evolve, field, frozen

from ke_core.app import Registration, build_component, configure, one_line_reason
from ke_core.plugin import Editor, EditorSpec, JudgeSpec, KEError, LanguageModel, Metric, PluginBroken, UnsupportedEdit
from ke_testing.checks import CheckResult
from ke_testing.examples import MATERIAL, MOVE_GATE, MOVE_TOWER, QUESTIONS
from ke_testing.fakes import ChecksumModel, make_session

FIX_FIRST = "fix this first: no other check can run before"


@frozen(kw_only=True)
class Contract:
    """The class ``base`` of ``module`` with ``settings``, and the example ``material`` that the options require.

    ``first``: the result of the first use, if only a simpler contract applies.
    """

    module: str = "ke_testing.contract"
    base: str = "ComponentContract"
    settings: Mapping[str, Any] = field(factory=dict)
    material: tuple[str, ...] = ()
    first: tuple[CheckResult, ...] = ()


def contract_of(kind: str, registration: Registration, options: Mapping[str, str], own: Path) -> Contract:
    """Return the contract of a component. It is built and, if it is an editor, applies an edit. ``own``: its code's
    folder.
    """
    spec, plain = registration.spec, Contract(settings={"kind": kind})
    if kind in ("model", "encoder"):  # building a model source loads a real model
        return evolve(plain, base="RegisteredContract", first=(_skipped("an id to load"),))
    if isinstance(spec, JudgeSpec) and (needed := _missing_for_judge(spec)):  # building it might download that
        return evolve(plain, first=(_skipped(f"{needed} (use JudgeContract in its own tests)"),))
    try:
        config = configure(spec, options)
        made = build_component(spec, config, plugin=registration.plugin.name)
        if isinstance(spec, EditorSpec):
            material = tuple(name for name in spec.oracle(config) if name in MATERIAL)
            edit_once(spec, made, material)
            return evolve(_of_editor(spec), material=material)
    except Exception as error:  # noqa: BLE001  every error is a result
        return evolve(plain, first=(_fault(error, own),))
    return _of_others(kind, made, plain)


def edit_once(spec: EditorSpec, editor: Editor, material: tuple[str, ...]) -> None:
    """Apply one edit, as every check of edits does. Raises the editor's errors."""
    model: LanguageModel = ChecksumModel()
    if spec.needs_weights:
        from ke_plugin_hf.testing import tiny_model

        model = tiny_model()
    edits = [MOVE_TOWER] if spec.one_at_a_time else [MOVE_TOWER, MOVE_GATE]
    with TemporaryDirectory() as folder:
        session = make_session(model, material={name: MATERIAL[name] for name in material}, root=Path(folder))
        with editor.edit(session, edits) as edited:
            edited.answer(QUESTIONS[:1])


def line_in(own: Path, error: pytest.ExceptionInfo[BaseException]) -> str:
    """Return FILE:LINE of the innermost frame in the plugin's own code; empty if there is none."""
    for entry in reversed(error.traceback):
        path = Path(entry.path).resolve()
        if own in path.parents:
            return f"{path.relative_to(own.parent).as_posix()}:{entry.lineno + 1}"
    return ""


def _of_editor(spec: EditorSpec) -> Contract:
    if spec.adaptor:
        return Contract(module="ke_weights.testing.adaptor", base="AdaptorContract")
    if spec.needs_weights:
        return Contract(module="ke_weights.testing.weights", base="WeightEditorContract", settings={"ranked": False})
    return Contract(module="ke_testing.editor", base="EditorContract")


def _of_others(kind: str, made: object, plain: Contract) -> Contract:
    if kind == "dataset":
        return Contract(module="ke_testing.dataset", base="DatasetContract")
    if kind == "judge":
        return Contract(module="ke_testing.judge", base="JudgeContract")
    if not isinstance(made, Metric):
        needed = "the record of an edited model (use ModelMetricContract in its own tests)"
        return evolve(plain, first=(_skipped(needed),))
    return Contract(module="ke_testing.metric", base="MetricContract")


def _missing_for_judge(spec: JudgeSpec) -> str:
    """Return what the contract of judges lacks for this one, or an empty text."""
    needs = {"a model": spec.needs_model, "log-probabilities": spec.scored, "facts to label": bool(spec.labels)}
    return ", ".join(what for what, needed in needs.items() if needed)


def _skipped(needed: str) -> CheckResult:
    return CheckResult(check="it can be used", outcome="skipped", found=f"its behavior, which needs {needed}")


def _fault(error: Exception, own: Path) -> CheckResult:
    """Return a failed result, or a skipped one if only a setting is missing."""
    hint = error.hint if isinstance(error, KEError) else ""
    if isinstance(error, KEError) and not isinstance(error, PluginBroken | UnsupportedEdit):
        return _skipped(f"another setting: {one_line_reason(error)}" + (f" ({hint})" if hint else ""))
    cause = error.__cause__ if isinstance(error, PluginBroken) and error.__cause__ else error
    return CheckResult(
        check="it can be built and used",
        outcome="failed",
        found=one_line_reason(error),
        where=line_in(own, pytest.ExceptionInfo.from_exception(cause)),
        do=hint or FIX_FIRST,
    )
