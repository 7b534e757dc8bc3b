"""The harness's own numbers from recorded replies, missing values, and the requests of each type of task."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from attrs import evolve

from ke_core.plugin import Answer, BadConfig, Failure, Likelihood, ModelRecord, PassthroughModel, Question, Scored
from ke_plugin_hf.testing import tiny_model
from ke_plugin_lm_eval import LmEvalConfig, build, ke_metrics, metric_of, requests
from ke_testing.fakes import make_session
from ke_testing.metric import ModelMetricContract

pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed: pip install 'lm_eval>=0.4.13'")

import datasets
from lm_eval.api.instance import Instance
from lm_eval.evaluator import evaluate

from ke_plugin_lm_eval.choices import choice_prompt, chosen
from ke_plugin_lm_eval.generation import decoding_of
from ke_plugin_lm_eval.recorded import NO_CHOICE, NOT_ASKED, generation, likelihood, text_of
from ke_plugin_lm_eval.suite import SEED, load, numbers, suite_of

CONFIG = LmEvalConfig(limit=6)
SPEC = ke_metrics()[0]
FILES = {
    "inverted.yaml": """
task: inverted
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_choice: ["yes", "no"]
doc_to_target: label
metric_list: [{{metric: acc_mutual_info}}, {{metric: f1}}]
""",
    "last_word.yaml": """
task: last_word
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: loglikelihood
test_split: test
doc_to_text: "{{{{question}}}} "
doc_to_target: answer
target_delimiter: ""
metric_list: [{{metric: perplexity}}, {{metric: acc}}]
""",
    "shuffled.yaml": """
task: shuffled
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
process_docs: !function shuffling.shuffled
doc_to_text: question
doc_to_choice: options
doc_to_target: 0
metric_list: [{{metric: acc}}]
""",
    "shuffling.py": """
import random
import datasets
import numpy as np

def shuffled(documents):
    options = [str(n) for n in range(9)]
    random.shuffle(options)
    options.append(str(np.random.rand()))
    return datasets.Dataset.from_list([{{**document, "options": options}} for document in documents])
""",
    "both.yaml": """
group: both
task: [inverted, ke_choice]
aggregate_metric_list: [{{metric: acc, weight_by_size: false}}]
""",
}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
        yield


@pytest.fixture(scope="module")
def own_tasks(tmp_path_factory) -> LmEvalConfig:
    """Return the configuration of tasks in files: mutual information, and the last word with ``is_greedy``."""
    folder = tmp_path_factory.mktemp("tasks")
    data = folder / "data.jsonl"
    data.write_text(
        '{"question": "Is the sky blue?", "label": 0, "answer": "blue"}\n'
        '{"question": "Is fire cold?", "label": 1, "answer": "cold"}\n'
    )
    for name, text in FILES.items():
        (folder / name).write_text(text.format(data=data))
    return LmEvalConfig(tasks="inverted,last_word", path=str(folder))


@pytest.fixture(scope="module", params=[False, True], ids=["without bos", "bos"])
def model(request):
    return tiny_model("llama", bos=request.param)


def replies_of(model, config, tmp_path) -> dict[str, object]:
    asked = requests(config)
    session = make_session(model, root=tmp_path)
    found = PassthroughModel(session).answer(asked)
    return {ask.query: reply for ask, reply in zip(asked, found, strict=True)}


def values(record: ModelRecord, config=CONFIG) -> dict[str, float | None]:
    return {value.aspect: value.value for value in build(config).model_values(record)}


def harness(model, config, *, batch: int, **settings) -> dict[str, float]:
    """Return the numbers of the harness with its own model class."""
    from lm_eval.models.huggingface import HFLM  # imports much

    loaded = load(config)
    for task in loaded["tasks"].values():
        task.set_fewshot_seed(seed=SEED)
    lm = HFLM(pretrained=model.module, tokenizer=model.tokenizer, batch_size=batch, **settings)
    found = evaluate(lm, loaded, limit=config.limit or None, bootstrap_iters=0, log_samples=False)["results"]
    return {f"{name}/{metric}": value for name, own in found.items() for metric, value in numbers(own)}


class TestLmEval(ModelMetricContract):
    name = "lm-eval"

    @pytest.fixture
    def record(self) -> ModelRecord:
        return invented()


def invented(config=None, **changes) -> ModelRecord:
    """Return a record in which every reply is the same."""
    replies = {
        ask.query: Answer(text="cold", raw=" cold")
        if isinstance(ask, Question)
        else Scored.of([(-float(place + 1), 2, 2 - bool(place)) for place, _text in enumerate(ask.continuations)])
        for ask in requests(config or LmEvalConfig())
    }
    return ModelRecord(**{"batch": "b", "edits": 1, "replies": replies, "unedited": replies, **changes})


@pytest.mark.integration
@pytest.mark.parametrize("batch", [1, 8])
def test_numbers_equal_those_of_the_harness(model, batch, tmp_path) -> None:
    config = evolve(CONFIG, tasks="ke_choice,ke_context,ke_generate")
    found = values(ModelRecord(batch="b", replies=replies_of(model, config, tmp_path)), config)
    assert found == pytest.approx(harness(model, config, batch=batch), rel=1e-4)
    assert len(found) == 4


@pytest.mark.integration
def test_perplexity_equals_that_of_the_harness(model, tmp_path) -> None:
    """If a tokenizer adds a start token to texts, the harness would score that token too: ``add_bos_token=False``."""
    config = evolve(CONFIG, tasks="ke_text")
    found = values(ModelRecord(batch="b", replies=replies_of(model, config, tmp_path)), config)
    assert found == pytest.approx(harness(model, config, batch=4, add_bos_token=False), rel=1e-4)
    assert len(found) == 2


@pytest.mark.integration
def test_numbers_of_own_tasks_equal_those_of_the_harness(model, own_tasks, tmp_path) -> None:
    """Mutual information scores choices without a context; the trailing space of a context moves."""
    found = values(ModelRecord(batch="b", replies=replies_of(model, own_tasks, tmp_path)), own_tasks)
    assert found == pytest.approx(harness(model, own_tasks, batch=1), rel=1e-4)
    assert set(found) == {"inverted/acc_mutual_info", "inverted/f1", "last_word/perplexity", "last_word/acc"}


def test_first_choice_is_right_in_a_quarter_of_the_documents() -> None:
    """The first continuation is always the most probable one, so accuracy is the fraction of answers at place 0."""
    suite = suite_of(LmEvalConfig())
    docs = [*suite.loaded["tasks"]["ke_choice"].test_docs()]
    found = values(invented(), LmEvalConfig())
    assert found["ke_choice/acc"] == pytest.approx(sum(doc["answer"] == 0 for doc in docs) / 40)
    assert found["ke_generate/exact_match/first-word"] == 0
    words = sum(len(doc["text"].split()) for doc in suite.loaded["tasks"]["ke_text"].test_docs())
    assert found["ke_text/word_perplexity"] == pytest.approx(math.exp(8 / words))


def test_generated_letters_choose_options() -> None:
    """The reply is always "B", so accuracy is the fraction of answers at place 1."""
    config = LmEvalConfig(choices="generated")
    asked = requests(config)
    assert all(isinstance(ask, Question) for ask in asked)
    record = ModelRecord(batch="b", replies={ask.query: Answer(text="The answer is B.") for ask in asked})
    found = {value.aspect: value for value in build(config).model_values(record)}
    docs = [*suite_of(config).loaded["tasks"]["ke_choice"].test_docs()]
    assert found["ke_choice/mcq-generated"].value == pytest.approx(sum(doc["answer"] == 1 for doc in docs) / 40)
    assert found["ke_context/mcq-generated"].value is not None
    assert not [aspect for aspect in found if "/acc" in aspect]
    assert found["ke_text/word_perplexity"].skipped_because == NO_CHOICE


def test_prompts_of_lettered_options() -> None:
    shared = choice_prompt([("The sky is", " blue"), ("The sky is", " red")])
    assert shared.startswith("The sky is\n\nWhich option continues this text?\nA. blue\nB. red\n")
    own = choice_prompt([("Ann left Bo because Ann", " was late"), ("Ann left Bo because Bo", " was late")])
    assert own.startswith("Which text is right?\nA. Ann left Bo because Ann was late\nB. Ann left Bo because Bo")


@pytest.mark.parametrize(
    ("text", "place"),
    [("B", 1), ("(c)", None), ("C. Oslo", 2), ("Because A is", 0), ("A good one is C.", 2), ("D", None)],
)
def test_first_letter_of_an_option_counts(text: str, place: int | None) -> None:
    """A text without one counts as a random choice that is equal in every run."""
    found = {chosen(text, f"task/{number}", 3) for number in range(50)}
    assert found == ({0, 1, 2} if place is None else {place})
    assert chosen("no idea", "task/1", 3) == chosen("none", "task/1", 3)


@pytest.mark.parametrize("logprob", [-1e6, math.nan])
def test_perplexity_of_a_damaged_model_is_missing(logprob: float) -> None:
    """The reason is not that some replies lack ``matches``."""
    record = invented()
    replies = {
        query: evolve(reply, logprobs=(logprob,), matches=(None,)) if query.startswith("ke_text/") else reply
        for query, reply in record.replies.items()
    }
    found = {value.aspect: value for value in build(LmEvalConfig()).model_values(evolve(record, replies=replies))}
    assert found["ke_text/word_perplexity"].skipped_because == "the value is infinite or undefined"
    assert found["ke_choice/acc"].value is not None


def test_group_stands_for_its_tasks(own_tasks) -> None:
    config = evolve(own_tasks, tasks="both,last_word")
    assert list(values(invented(config), config)) == ["both/acc", "last_word/perplexity", "last_word/acc"]


def test_failed_reply_makes_only_its_task_missing() -> None:
    record = invented()
    first = next(query for query in record.replies if query.startswith("ke_context/"))
    lost = evolve(record, replies={**record.replies, first: Failure(error="ContextOverflow", message="too long")})
    missing = [value for value in build(LmEvalConfig()).model_values(lost) if value.value is None]
    assert [(value.aspect, value.skipped_because) for value in missing] == [
        ("ke_context/acc", "1 of 24 requests have no usable reply: too long")
    ]


def test_editor_without_log_probabilities_has_the_numbers_of_generated_answers() -> None:
    record = invented()
    words = Failure(error="NoLikelihood", message="it answers in words")
    replies = {query: words if isinstance(reply, Scored) else reply for query, reply in record.replies.items()}
    found = {v.aspect: v for v in build(LmEvalConfig()).model_values(evolve(record, replies=replies))}
    assert [aspect for aspect, value in found.items() if value.value is not None] == [
        "ke_generate/exact_match/first-word"
    ]
    assert found["ke_text/bits_per_byte"].skipped_because.endswith("it answers in words")


def test_unknown_is_greedy_makes_only_metrics_that_need_it_missing(own_tasks) -> None:
    known = invented(own_tasks)
    replies = {query: evolve(reply, matches=(None,) * len(reply.tokens)) for query, reply in known.replies.items()}
    found = values(evolve(known, replies=replies), own_tasks)
    assert found == {**values(known, own_tasks), "last_word/acc": None}


def test_replies_to_a_changed_task_are_not_used() -> None:
    record = invented(CONFIG)
    (reason,) = {v.skipped_because for v in build(evolve(CONFIG, fewshot=1)).model_values(record) if v.value is None}
    assert reason == f"6 of 6 requests have no usable reply: {NOT_ASKED}"


def test_requests_by_type() -> None:
    """One request for each document, with one prompt for each choice where these differ."""
    by_task = {}
    for ask in requests(LmEvalConfig()):
        by_task.setdefault(ask.query.partition("/")[0], []).append(ask)
    assert {task: len(some) for task, some in by_task.items()} == {
        "ke_choice": 40, "ke_context": 24, "ke_text": 8, "ke_generate": 40,
    }  # fmt: skip
    assert by_task["ke_choice"][0].prompt == "You can cut paper with"
    assert by_task["ke_choice"][0].continuations[2] == " a pair of scissors"
    assert by_task["ke_context"][0].continuations == (" big.", " big.")
    assert by_task["ke_context"][0].prompts[1].endswith("because the suitcase was too")
    assert by_task["ke_text"][0].prompt == ""
    assert by_task["ke_generate"][0].prompt.text.count("Question: ") == 5
    assert by_task["ke_generate"][0].prompt.decoding.stop == ("\n",)


def test_spaces_at_the_end_of_a_context_belong_to_the_continuation() -> None:
    ask = likelihood("t", 0, [("One ", "two"), ("", " three")])
    assert (ask.prompts, ask.continuations) == (("One", ""), (" two", " three"))
    assert isinstance(ask, Likelihood)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"until": "\n"}, (256, ("\n",), 0.0, 0)),
        ({"until": ["", "Q:"], "max_new_tokens": 5, "do_sample": False, "temperature": 0.7}, (5, ("Q:",), 0.0, 0)),
        ({"max_gen_toks": 9, "max_tokens": 5, "temperature": 0.5, "top_k": 3}, (9, (), 0.5, 3)),
        ({"do_sample": False, "top_p": 0.9}, (256, (), 0.0, 0)),
    ],
)
def test_generation_settings(settings, expected) -> None:
    found = decoding_of(instance(settings))
    assert (found.max_tokens, found.stop, found.temperature, found.top_k) == expected


def test_sampling_that_ke_does_not_support_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"lm-eval\.tasks: some_task samples with top_p"):
        decoding_of(instance({"do_sample": True, "temperature": 0.5, "top_p": 0.9}))


def instance(settings) -> Instance:
    return Instance("generate_until", {}, ("Q", settings), 0, metadata=("some_task", 0, 1))


def test_repeated_generations_are_requests_of_their_own() -> None:
    decoding = decoding_of(instance({}))
    one, two = (generation("t", f"0.{repeat}", "Q", decoding) for repeat in (1, 2))
    assert one.query != two.query


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Answer(text="Rome", raw=" Rome\n"), " Rome\n"),
        (Answer(text="Rome", raw="Thought: Italy.\nAnswer: Rome"), "Rome"),
        (Answer(text="", raw="", outcome="unparsed"), ""),
    ],
)
def test_text_keeps_its_spaces_but_not_the_steps_before_it(reply, text) -> None:
    assert text_of(reply) == text


@pytest.mark.parametrize(
    ("aspect", "unit", "less"),
    [
        ("hellaswag/acc_norm", None, False),
        ("gsm8k/exact_match/strict-match", None, False),
        ("wikitext/word_perplexity", "", True),
        ("cola/mcc", "", False),
        ("cola/mcq-generated", None, False),
        ("cola/mcq-generated-mcc", "", False),  # a correlation, from -1 to 1
    ],
)
def test_units_and_directions(aspect, unit, less) -> None:
    assert SPEC.measures.get(aspect) == unit
    assert SPEC.less_is_better(aspect) is less
    assert "/" not in metric_of(aspect)


@pytest.mark.parametrize(("tasks", "says"), [(" , ", "is empty"), ("ke_choise", r"unknown task 'ke_choise'")])
def test_unknown_task_is_named(tasks, says, monkeypatch) -> None:
    monkeypatch.setattr("ke_plugin_lm_eval.suite.TaskManager", only_own)
    with pytest.raises(BadConfig, match=says) as caught:
        requests(LmEvalConfig(tasks=tasks))
    assert tasks == " , " or caught.value.hint.startswith("did you mean ke_choice")


def only_own(include_path, **_settings):
    """Return a task manager without the harness's thousands of tasks, whose index takes seconds."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=include_path, include_defaults=False)


def test_missing_data_is_one_error(tmp_path) -> None:
    (tmp_path / "gone.yaml").write_text(FILES["inverted.yaml"].format(data=tmp_path / "nowhere.jsonl"))
    with pytest.raises(BadConfig, match=r"lm-eval\.tasks: cannot load inverted: .*nowhere"):
        requests(LmEvalConfig(tasks="inverted", path=str(tmp_path)))


def test_shuffled_documents_are_the_same_in_every_process(own_tasks) -> None:
    config = evolve(own_tasks, tasks="shuffled")
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  the generator that tasks use
        states = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
        suite_of.cache_clear()
        found.append(requests(config))
        assert (random.getstate(), np.random.get_state()[1].tolist()) == states  # noqa: NPY002
    assert found[0] == found[1]
    values(invented(config), config)
    assert suite_of(config).requests == found[0]
