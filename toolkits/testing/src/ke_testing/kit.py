"""Base of the contracts of editors: the editor, a model, a session, and checks of what is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from ke_core.plugin import Answer, Editor, EditorSpec, KEError, LanguageModel, Material, Reply, Session
from ke_testing.contract import ComponentContract
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import ChecksumModel, make_session

if TYPE_CHECKING:
    from ke_plugin_hf.testing import Family


DIGEST_RULES = "docs/digests.md describes what the digest of a model covers"


class EditorKit(ComponentContract):
    """Set ``name``; ``options`` for a tiny model; ``material`` if the method needs material of its dataset."""

    kind: ClassVar[str] = "editor"
    material: ClassVar[Mapping[str, Material]] = {}

    def model(self, dtype: str = "float32") -> LanguageModel:
        """Return the model to edit: a tiny decoder for methods that access weights, otherwise a
        ``ChecksumModel``.
        """
        model: LanguageModel = self.tiny(dtype=dtype) if self.needs_weights else ChecksumModel()
        return model

    def tiny(self, family: Family = "llama", *, dtype: str = "float32", seed: int = 0) -> Any:
        """Return a tiny decoder. Override it for methods that need other weights."""
        from ke_plugin_hf.testing import tiny_model

        return tiny_model(family, dtype=dtype, seed=seed)

    def on(self, model: LanguageModel, root: Path) -> Session[Any]:
        """Return a session with ``model`` and artifacts in ``root``. Override it for methods that need artifacts."""
        return make_session(model, material=self.material, root=root)

    @pytest.fixture(autouse=True)
    def _kind_of_editor(self, spec: EditorSpec) -> None:
        self.needs_weights = spec.needs_weights
        self.edits = [MOVE_TOWER] if spec.one_at_a_time else [MOVE_TOWER, MOVE_GATE]

    @pytest.fixture
    def editor(self, spec: EditorSpec, config: Any) -> Editor:
        return spec.build(config)

    @pytest.fixture
    def session(self, tmp_path: Path) -> Session[Any]:
        return self.on(self.model(), tmp_path)


def texts(replies: Sequence[Reply]) -> list[str]:
    """Return the answers as texts, and failures by their error."""
    return [reply.text if isinstance(reply, Answer) else repr(reply) for reply in replies]


def expect_same(model: LanguageModel, digest: str, what: str) -> None:
    """Fail with the sentence ``what`` unless the model still has the given ``digest``."""
    model.state()  # reads the weights again
    if model.digest != digest:
        raise AssertionError(f"{what}: its digest was {digest[:8]} and is {model.digest[:8]} now. {DIGEST_RULES}")


def expect_other(model: LanguageModel, digest: str, what: str) -> None:
    """Fail with the sentence ``what`` if the model still has the given ``digest``."""
    model.state()
    if model.digest == digest:
        raise AssertionError(f"{what}: its digest is still {digest[:8]}. {DIGEST_RULES}")


@contextmanager
def unchanged(model: LanguageModel) -> Iterator[None]:
    """Fail if the model differs at the end of the block, also after an exception."""
    before, digest = dict(model.state()), model.digest
    try:
        yield
    finally:
        after = dict(model.state())
        differs = sorted(str(mark) for mark in before | after if before.get(mark) != after.get(mark))
        if differs:
            raise AssertionError(f"the model is not restored: {', '.join(differs[:3])} differ. {DIGEST_RULES}")
        expect_same(model, digest, "the model is not restored")


@contextmanager
def one_clear_line(model: LanguageModel, error: type[KEError], why: str) -> Iterator[None]:
    """Check that the block raises ``error`` in one line with ``why`` and a hint, and does not change the model."""
    with unchanged(model), pytest.raises(error, match=why) as caught:
        yield
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.hint
