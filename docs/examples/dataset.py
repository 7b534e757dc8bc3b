"""A benchmark from a table of your own: one case a row, asked once as it is and once in other words."""

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
    """The options of the benchmark."""

    first: int = field(default=3, metadata={"help": "how many teams, from the top of the table"})


class Teams:
    """Cases, and how they are asked."""

    def __init__(self, config: TeamsConfig) -> None:
        self.config = config

    def cases(self) -> Iterator[Case]:
        """One case a team."""
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
            gold, stale = Gold(entities=after.objects), Gold(entities=before.objects)
            ask = Query(
                id="ask", texts=(f"Who leads team {team}?",), cloze=edit.cloze.prompt if edit.cloze else None,
                gold=gold, stale=stale, edit=edit.id,
            )  # fmt: skip
            reworded = Query(id="reworded", texts=(f"Team {team} reports to whom?",), gold=gold, stale=stale)
            yield Case(
                id=team,
                edits=(edit,),
                probes=(
                    Probe(id="efficacy", aspect=EFFICACY, queries=(ask,), edits=(edit.id,)),
                    Probe(id="paraphrase", aspect="paraphrase", queries=(reworded,), edits=(edit.id,), phase="both"),
                ),
                facts_before=(before,),
                facts_after=(after,),
            )

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Zero-shot. Return None for a style in which a query is not asked."""
        text = query.texts[0] if query.form == "cloze" else f"Q: {query.texts[0]}\nA:"
        return Prompt(text=text, decoding=Decoding(max_tokens=12, stop=("\n",)))

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """No split of its own: the runner draws one."""
        return None

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """No case needs an edit hidden."""
        return frozenset()

    def material(self) -> Mapping[str, Material]:
        """Gold answers for the oracle control, flagged as what they are."""
        answers = {
            f"{case.id}/{query.id}": query.gold.entities[0].label
            for case in self.cases()
            for probe in case.probes
            for query in probe.queries
        }
        return {"answers": Material(value=answers, oracle=True)}

    def info(self) -> DatasetInfo:
        """Where it comes from; ``sha256`` would be that of the file it was read from."""
        return DatasetInfo(title="Teams", license="CC0-1.0", source="made up", sha256="0" * 64, published={"cases": 3})


def build(config: TeamsConfig) -> Dataset:
    """Built when the dataset is used."""
    return Teams(config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer the benchmark."""
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
