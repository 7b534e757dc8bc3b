"""Phrases of an answer that says that nothing is known. A list, once published, stays as it is: v2 would be another."""

from __future__ import annotations

from pathlib import Path

from ke_core.plugin import BadConfig, words

V1 = (
    "unknown", "not known", "is a mystery", "unclear", "no one", "nobody", "i don't know", "i do not know",
    "don't know", "cannot be determined", "can't be determined", "cannot be answered", "cannot determine",
    "can't determine", "not specified", "unspecified", "not mentioned", "not stated", "not provided", "not given",
    "no information", "not enough information", "insufficient information", "not sure", "unsure", "uncertain",
    "undisclosed", "not available", "n/a", "unable to", "cannot say", "can't say", "no answer", "undetermined",
    "not been determined", "not certain", "unidentified",
)  # fmt: skip
LISTS = {"v1": V1}


def read(source: str) -> tuple[str, ...]:
    """The phrases of a version, or of a file. Raises BadConfig, which names the file, for one without any."""
    if source in LISTS:
        return LISTS[source]
    try:
        lines = Path(source).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"error-types.phrases: {source} cannot be read", hint=f"a UTF-8 text file, or {', '.join(LISTS)}"
        ) from error
    found = tuple(" ".join(line.split()) for line in lines if words(line))
    if not found:
        raise BadConfig(f"error-types.phrases: {source} holds no phrase", hint="one phrase a line")
    return found
