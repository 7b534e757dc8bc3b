"""A benchmark from a table: one case per row, with the question in two wordings."""

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from ke_core.plugin import (
    EFFICACY,
    Case,
    Cloze,
    Dataset,
    DatasetInfo,
    DatasetSpec,
    Decoding,
    Edit,
    Entity,
    Fact,
    Gold,
    Material,
    Probe,
    Prompt,
    Query,
    Relation,
    hookimpl,
)

LEADS = Relation(label="head of team", cloze="The head of team {} is", question="Who leads team {}?")
TEAMS = [
    ("Apollo", "Ana Ruiz", "Ben Okafor"),
    ("Borealis", "Chen Wei", "Dora Lind"),
    ("Cygnus", "Eli Park", "Fay Moss"),
]


@frozen(kw_only=True)
class TeamsConfig:
    """Options of the benchmark."""

    first: int = field(default=3, metadata={"help": "number of teams, from the top of the table"})


class Teams:
    """The cases and their prompts."""

    def __init__(self, config: TeamsConfig) -> None:
        self.config = config

    def cases(self) -> Iterator[Case]:
        """Yield one case per team."""
        for team, old, new in TEAMS[: self.config.first]:
            subject = Entity(label=team)
            before = Fact(subject=subject, relation=LEADS, objects=(Entity(label=old),))
            after = Fact(subject=subject, relation=LEADS, objects=(Entity(label=new),))
            edit = Edit(
                id=team.lower(),
                statement=f"The head of team {team} is {new}",
                before=before,
                after=after,
                cloze=Cloze(template="The head of team {} is", subject=team),
                question=f"Who leads team {team}?",
            )
            gold, pre_edit = Gold(entities=after.objects), Gold(entities=before.objects)
            question = Query(
                id="question", texts=(f"Who leads team {team}?",), cloze=edit.cloze.prompt if edit.cloze else None,
                gold=gold, pre_edit=pre_edit, edit=edit.id,
            )  # fmt: skip
            reworded = Query(id="reworded", texts=(f"Who is the head of team {team}?",), gold=gold, pre_edit=pre_edit)
            yield Case(
                id=team,
                edits=(edit,),
                probes=(
                    Probe(id="efficacy", aspect=EFFICACY, queries=(question,), edits=(edit.id,)),
                    Probe(id="paraphrase", aspect="paraphrase", queries=(reworded,), edits=(edit.id,), phase="both"),
                ),
                facts_before=(before,),
                facts_after=(after,),
            )

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the zero-shot prompt. Return None for a style that does not apply to a query."""
        text = query.texts[0] if query.form == "cloze" else f"Q: {query.texts[0]}\nA:"
        return Prompt(text=text, decoding=Decoding(max_tokens=12, stop=("\n",)))

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Return None: the runner samples the edited cases."""
        return None

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """Return the ids of edits to hide from a case: none."""
        return frozenset()

    def material(self) -> Mapping[str, Material]:
        """Return the gold answers for the upper bound ``oracle``, marked as oracle material."""
        answers = {
            f"{case.id}/{query.id}": query.gold.entities[0].label
            for case in self.cases()
            for probe in case.probes
            for query in probe.queries
        }
        return {"answers": Material(value=answers, oracle=True)}

    def info(self) -> DatasetInfo:
        """Return license, source and counts. ``sha256`` is the checksum of the data file, if there is one."""
        return DatasetInfo(title="Teams", license="CC0-1.0", source="made up", sha256="0" * 64, published={"cases": 3})


def build(config: TeamsConfig) -> Dataset:
    """Build the dataset when a command uses it."""
    return Teams(config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the benchmark."""
    return [
        DatasetSpec(
            name="teams",
            summary="who leads which team",
            config=TeamsConfig,
            build=build,
            aspects=(EFFICACY, "paraphrase"),
            styles=("zero-shot",),
            metrics=("accuracy",),
            judge="first-word",
        )
    ]
