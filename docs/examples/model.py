"""A model source: ``--model reverse:anything`` answers with the prompt's last words in reverse order."""

from collections.abc import Mapping, Sequence

from ke_core.plugin import (
    Generate,
    Generated,
    LanguageModel,
    ModelRequest,
    ModelSpec,
    NoLikelihood,
    Score,
    Scored,
    hookimpl,
)


class Reverse:
    """A language model without weights; a list of requests comes together, so that it can batch them."""

    context = 10_000

    def __init__(self, request: ModelRequest) -> None:
        self.id = f"reverse:{request.id}"
        self.digest = self.id

    def state(self) -> Mapping[str, object]:
        """Nothing can change, so nothing marks a change."""
        return {}

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """One result a request, in order."""
        texts = [" ".join(reversed(request.prompt.split()[-request.max_tokens :])) for request in requests]
        return [Generated(text=text, finish="eos", tokens=len(text.split())) for text in texts]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """This model gives no log-probabilities."""
        raise NoLikelihood("the source 'reverse' gives no log-probabilities")


def build(request: ModelRequest) -> LanguageModel:
    """Open the model; heavy imports belong here."""
    return Reverse(request)


@hookimpl
def ke_models() -> list[ModelSpec]:
    """Offer the source."""
    return [ModelSpec(name="reverse", summary="says it backwards", config=ModelRequest, build=build)]
