"""Every error a user is meant to read. Anything else is a bug and keeps its traceback.

House rule for the words: one line, lower case, no full stop; it says what is wrong and where
(file, record, field, option); the hint says what to do.
"""

from __future__ import annotations


class KEError(Exception):
    """A problem the user or the machine can mend: one sentence, and a hint that says what to do."""

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return "\n  ".join((self.message, *self.details))


class UnknownComponent(KEError):
    """No plugin offers a component of that kind and name."""


class PluginConflict(KEError):
    """Two plugins claim one name."""


class PluginBroken(KEError):
    """A plugin could not be imported, or does not match the hook specifications."""


class BadConfig(KEError):
    """Options that do not fit a component's config class, or one another."""


class BadData(KEError):
    """A data file that is missing, damaged, or holds a record that does not fit its format."""


class KEWarning(UserWarning):
    """A warning for the user, which the command line prints in one line."""


class DamagedArtifact(KEWarning):
    """A stored artifact whose checksum does not match, and which is computed again."""


class BadRun(KEError):
    """A run folder that is missing, damaged, or belongs to another plan."""


class BadPatch(KEError):
    """A patch file that is missing, damaged, not ke's, or made for other weights than these."""


class ModelUnavailable(KEError):
    """A model that cannot be found, fetched, converted or loaded."""


class NeedsWeights(KEError):
    """A weight editor was given a model without weights."""


class UnsupportedEdit(KEError):
    """An editor cannot express this edit, e.g. it needs a subject span and the edit has none."""


class UnsupportedChange(KEError):
    """An edited model cannot take an edit on or off without being built again."""


class EditFailed(KEError):
    """An edit went wrong numerically: NaN, a singular statistic, an update larger than the weight."""


class ContextOverflow(KEError):
    """A prompt longer than the model's context; it is never cut in silence."""


class NoLikelihood(KEError):
    """Log-probabilities were asked of something that gives none."""


class ServerFailed(KEError):
    """A model's server is down, too slow, refuses the request, or answers with what cannot be read."""


class ServerDown(ServerFailed):
    """Every try has failed. ``busy``: each time because of too many requests, so that others may get through."""

    def __init__(self, message: str, *, hint: str = "", busy: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.busy = busy


class ServerRefused(ServerFailed):
    """What every other request would meet as well: a refused key, a model that is not there, an exhausted account."""

    def __init__(self, message: str, *, status: int, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ContentRefused(KEError):
    """A model's server withheld its answer to this one request: a content filter, or a refusal it declares as one.

    ``charged``: it had written one, which is paid for and would be withheld again.
    """

    def __init__(self, message: str, *, hint: str = "", charged: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.charged = charged


class WeightsNotRestored(KEError):
    """An editor left the model different from how it found it."""


class ProcessLost(KEError):
    """One of the processes that share a run has died."""


class ToldToEnd(KeyboardInterrupt):
    """The launcher ends this process: as with Ctrl-C, no ``except Exception`` makes an answer of it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class TooManyFailures(KEError):
    """The same failure again and again: the run stops instead of recording thousands of them."""
