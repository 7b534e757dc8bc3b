"""Errors that users are meant to read. Any other exception is a bug and keeps its traceback.

A message is one line in lower case, without a period. It says what is wrong and where (file, record, field, option).
The hint says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class KEError(Exception):
    """A problem that the user can fix: one sentence, and a hint that says what to do, also shown in tracebacks."""

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        if hint:
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        return "\n  ".join((self.message, *self.details))


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for an unknown name: the known name most like it, or ``otherwise`` if none is similar."""
    near = get_close_matches(name, [*known], n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


class UnknownComponent(KEError):
    """No plugin provides a component of that kind and name."""


class PluginConflict(KEError):
    """Two plugins claim one name."""


class PluginBroken(KEError):
    """A plugin could not be imported, or does not match the hook specifications."""


class BadConfig(KEError):
    """Options that do not fit a component's config class, or that contradict each other."""


class BadData(KEError):
    """A data file that is missing or damaged, or a record that does not fit the format."""


class KEWarning(UserWarning):
    """A warning for the user, which the command line prints in one line."""


class DamagedArtifact(KEWarning):
    """A stored artifact has a wrong checksum and is computed again."""


class BadRun(KEError):
    """A run folder that is missing, damaged, or belongs to another plan."""


class BadPatch(KEError):
    """A patch file that is missing, damaged, of another format, or made for other weights."""


class ModelUnavailable(KEError):
    """A model that cannot be found, fetched, converted or loaded."""


class NeedsWeights(KEError):
    """A weight editor was given a model without weights."""


class UnsupportedEdit(KEError):
    """An editor cannot express this edit, e.g. it needs a subject span and the edit has none."""


class UnsupportedChange(KEError):
    """Edits cannot be added to or removed from an edited model without building it again."""


class EditFailed(KEError):
    """An edit failed numerically: NaN, a singular covariance, an update larger than the weight."""


class ContextOverflow(KEError):
    """A prompt is longer than the model's context. Prompts are never truncated silently."""


class NotFinite(KEError):
    """Logits or log-probabilities are NaN or infinite, so any continuation would be meaningless."""


class NoLikelihood(KEError):
    """The model or the method does not return log-probabilities."""


class ServerFailed(KEError):
    """A model's server is down, too slow, refuses the request, or sends an invalid response."""


class ServerDown(ServerFailed):
    """All attempts failed. ``busy``: each of them because of too many requests, so other requests may succeed."""

    def __init__(self, message: str, *, hint: str = "", busy: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.busy = busy


class ServerRefused(ServerFailed):
    """An error that every request would get: a refused key, an unknown model, an exhausted account."""

    def __init__(self, message: str, *, status: int, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ContentRefused(KEError):
    """A server withheld its answer to this request: a content filter, or a declared refusal.

    ``charged``: the answer was generated and is charged for. Another attempt would be charged too.
    """

    def __init__(self, message: str, *, hint: str = "", charged: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.charged = charged


class WeightsNotRestored(KEError):
    """The model is not what it was before the edit."""


class ProcessLost(KEError):
    """One of the processes that share a run has died."""


class ToldToEnd(KeyboardInterrupt):
    """The launcher ends this process. Like Ctrl-C, ``except Exception`` does not catch it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class TooManyFailures(KEError):
    """The same failure occurred many times in a row, so the run stops."""
