"""The behavioral part of ``EditorContract``, for further profiles of an editor.

Test an editor once in full, with ``EditorContract``, and each further profile with ``EditorProfileContract``::

    class TestDefault(EditorContract):
        name = "my-method"


    class TestPaper(EditorProfileContract):
        name = "my-method"
        options = {"profile": "paper"}
"""

from __future__ import annotations

from ke_testing.editor import EditorContract

BEHAVIOR = (
    "test_answers_each_request_once_in_order",
    "test_answers_do_not_depend_on_batch_composition",
    "test_own_edits_are_read_only_if_declared",
    "test_hidden_edits_are_not_used",
    "test_no_edits_change_nothing",
    "test_adding_and_removing_an_edit_restores_the_edited_model",
    "test_same_seed_same_answers",
    "test_details_are_json",
    "test_model_is_restored_bit_for_bit",
    "test_an_edit_does_not_leak_into_the_next",
    "test_edited_models_with_solve_are_independent",
    "test_model_failure_is_not_an_answer",
    "test_another_process_gives_the_same_answers",
    "test_two_edited_models_share_nothing",
    "test_encoder_is_in_the_specification",
)
"""Tests whose result depends on the options. The others check the specification and the code, which all profiles share.
"""


class EditorProfileContract(EditorContract):
    """The tests of ``EditorContract`` whose result depends on the options. Set ``name`` and ``options``."""


for _test in dir(EditorContract):
    if _test.startswith("test_") and _test not in BEHAVIOR:
        setattr(EditorProfileContract, _test, None)  # pytest collects callables only
