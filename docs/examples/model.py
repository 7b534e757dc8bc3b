"""A model source: ``--model reverse:ID`` returns the last words of the prompt in reverse order."""

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
    """A language model without weights. Its methods get a list of requests, so that it can batch them."""

    context = 10_000

    def __init__(self, request: ModelRequest) -> None:
        self.id = f"reverse:{request.id}"
        self.digest = self.id

    def state(self) -> Mapping[str, object]:
        """Return the state that edits could change: none."""
        return {}

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return one result per request, in order."""
        texts = [" ".join(reversed(request.prompt.split()[-request.max_tokens :])) for request in requests]
        return [Generated(text=text, finish="eos", tokens=len(text.split())) for text in texts]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Raise NoLikelihood: this model has no log-probabilities."""
        raise NoLikelihood("the model source 'reverse' has no log-probabilities")


def build(request: ModelRequest) -> LanguageModel:
    """Open the model. Put heavy imports here."""
    return Reverse(request)


@hookimpl
def ke_models() -> list[ModelSpec]:
    """Register the source."""
    return [ModelSpec(name="reverse", summary="returns the prompt in reverse order", config=ModelRequest, build=build)]
