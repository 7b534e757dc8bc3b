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
    "test_answers_each_ask_once_in_order",
    "test_answers_do_not_depend_on_batch_composition",
    "test_own_edits_are_read_only_if_declared",
    "test_hidden_edits_are_not_used",
    "test_no_edits_change_nothing",
    "test_what_is_added_and_taken_off_again_was_never_there",
    "test_same_seed_same_answers",
    "test_details_are_json",
    "test_model_is_given_back_bit_for_bit",
    "test_an_edit_does_not_leak_into_the_next",
    "test_edited_models_that_solve_stand_side_by_side",
    "test_v17_a_model_that_fails_is_no_answer",
    "test_m3_another_process_gives_the_same_answers",
    "test_s3_two_edited_models_share_nothing",
    "test_the_encoder_that_answers_rest_on_is_in_the_specification",
)
"""Tests whose result depends on the options. The others check the specification and the code, which profiles share."""


class EditorProfileContract(EditorContract):
    """The tests of ``EditorContract`` whose result depends on the options. Set ``name`` and ``options``."""


for _test in dir(EditorContract):
    if _test.startswith("test_") and _test not in BEHAVIOR:
        setattr(EditorProfileContract, _test, None)  # pytest collects callables only
