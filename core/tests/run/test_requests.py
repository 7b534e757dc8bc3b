from attrs import evolve

from ke_core.runner.requests import RequestBuilder, in_form, queries_of


def asker(fakes, **options):
    return RequestBuilder(
        dataset=fakes.Towers(made=()), styles=("direct", "cot"), **{"edited_form": "cloze", **options}
    )


def of(units, style, query):
    (unit,) = [unit for unit in units if unit.style == style]
    return next(question for question in unit.questions if question.query == query)


def test_an_edited_fact_is_asked_as_cloze_only_after_the_edit(fakes):
    case = fakes.tower(1)
    bank = {edit.id: edit for edit in case.edits}
    put = of(asker(fakes).after(case, bank, edited=True), "direct", "where")
    assert (put.form, put.texts, put.prompt.text) == ("cloze", ("Tower 1 is located in",), "Tower 1 is located in")
    for units in (asker(fakes).before(case), asker(fakes).after(case, {}, edited=False)):
        assert of(units, "direct", "where").form == "question"
    assert of(asker(fakes, edited_form="question").after(case, bank, edited=True), "direct", "where").form == "question"


def test_other_queries_keep_their_form(fakes):
    case = fakes.tower(1)
    (where, country) = queries_of(case, "after")
    assert in_form(country, "after", "cloze", edited=True) is country
    assert in_form(evolve(where, cloze=None), "after", "cloze", edited=True).form == "question"


def test_a_query_of_two_probes_is_asked_once_and_conditions_are_asked_before(fakes):
    case = fakes.tower(1)
    assert [query.id for query in queries_of(case, "after")] == ["where", "country"]
    assert [query.id for query in queries_of(case, "before")] == ["known", "where", "country"]


def test_styles_without_a_prompt_for_the_query_are_omitted(fakes):
    units = asker(fakes).before(fakes.tower(1))
    assert [[q.query for q in unit.questions] for unit in units] == [
        ["known", "where", "country"],
        ["known", "country"],
    ]


def test_own_edits_are_the_applied_ones_in_case_order(fakes):
    one, two = fakes.tower(1), fakes.tower(2)
    case = evolve(one, edits=(two.edits[0], one.edits[0]))
    bank = {edit.id: edit for edit in (*one.edits, *two.edits)}
    assert of(asker(fakes).after(case, bank, edited=True), "direct", "where").own == tuple(e.id for e in case.edits)
    del bank[two.edits[0].id]
    assert of(asker(fakes).after(case, bank, edited=True), "direct", "where").own == (one.edits[0].id,)
    assert of(asker(fakes).after(case, bank, edited=False), "direct", "where").own == ()


def test_own_prompts_use_the_first_style_that_asks_the_query(fakes):
    units = asker(fakes, own_prompt=True, edited_form="question").after(fakes.tower(1), {}, edited=True)
    assert [unit.style for unit in units] == ["own"]
    assert of(units, "own", "where").prompt.text.startswith("direct Q:")
    assert of(units, "own", "where").id == "1/after/own/where"


def test_a_cases_own_edits_are_never_hidden_from_it(fakes):
    class HidesAll(fakes.Towers):
        def hides(self, case, bank, *, edited):
            return frozenset(bank)

    one, two = fakes.tower(1), fakes.tower(2)
    bank = {edit.id: edit for edit in (*one.edits, *two.edits)}
    make = evolve(asker(fakes), dataset=HidesAll(made=()), hides=True)
    edited, control = (of(make.after(one, bank, edited=made), "direct", "where").hidden for made in (True, False))
    assert edited == {edit.id for edit in two.edits}
    assert control == frozenset(bank)


def test_control_requests_are_those_of_the_edited_model(fakes):
    """Conditions belong to the benchmark and are the same for every editor."""
    (unit,) = asker(fakes, own_prompt=True).control(fakes.tower(1))
    assert (unit.phase, unit.style, [question.query for question in unit.questions]) == (
        "before",
        "own",
        ["where", "country"],
    )
    assert all(question.own == () and question.form == "question" for question in unit.questions)


def test_a_query_with_contexts_is_scored_after_a_prompt_for_each_continuation(fakes):
    case = fakes.tower(1)
    probe = case.probes[0]
    contexts = ("Tower 1 is because the tower", "Tower 1 is because the city")
    query = evolve(probe.queries[0], id="which", edit=None, contexts=contexts, continuations=(" is tall",) * 2)
    case = evolve(case, probes=(evolve(probe, queries=(query,), given=()),))
    put = of(asker(fakes).after(case, {}, edited=True), "direct", "which")
    assert (put.prompt, put.texts) == ("", contexts)
    assert put.prompts == tuple(f"direct Q: {text} A:" for text in contexts)


def test_requests_do_not_contain_query_tags(fakes):
    case = fakes.tower(1)
    probe = case.probes[0]
    tagged = evolve(probe.queries[0], tags={"language": "de"})
    with_tags = evolve(case, probes=(evolve(probe, queries=(tagged,)), *case.probes[1:]))
    assert asker(fakes).after(with_tags, {}, edited=True) == asker(fakes).after(case, {}, edited=True)
