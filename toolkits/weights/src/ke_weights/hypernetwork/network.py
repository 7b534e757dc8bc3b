"""A hypernetwork: it transforms the factors (x, g) of a token to pseudo-factors (x~, g~).

    y_0 = [norm(x); norm(g)]
    y   = y + max(0, s * (U V y + b) + t)          in each layer, U of rank r
    [x~; g~] = y of the last layer

U and b start at zero, so the network starts as the identity. One network serves all matrices of a shape; s and t are
separate for each matrix. MEND introduced it (section 3); MALMEN and RLEdit have other layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from ke_core.plugin import BadConfig, BadData
from ke_plugin_hf.decoding.float64 import double, home
from ke_plugin_hf.guard import quantized, whole_instead
from ke_weights.hooks import default_dtype
from ke_weights.hypernetwork.factors import GradientFactors

PREFIX = "network."
"""Of the network's arrays in a checkpoint."""
EPSILON = 1e-7  # added to the standard deviation, as MEND published
ROUNDING = 1e-12  # largest standard deviation of a constant feature relative to its mean, in float64

NetworkShape = tuple[int, int]


class Normalizer(nn.Module):
    """Elementwise mean and standard deviation of every training vector (Welford), in float64.

    ``ignore_constant``: normalize features without variance in training to 0. Otherwise one that differs in an edit,
    such as a ReLU neuron that was 0 in training, is divided by 1e-7, as released, and outweighs all others.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, size: int, *, ignore_constant: bool = True) -> None:
        super().__init__()
        self.ignore_constant = ignore_constant
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(size, dtype=torch.float64))

    @torch.no_grad()
    def update(self, vectors: Tensor) -> None:
        """Add [M, size], which equals adding the vectors one by one up to rounding (Chan et al. 1979). M may be 0 or 1.

        Vectors that are not finite are skipped, because they would make the mean NaN permanently.
        """
        new = double(vectors[vectors.isfinite().all(dim=1)])
        if not len(new):
            return
        count, mean = len(new), new.mean(dim=0)
        total = self.count + count
        difference = mean - self.mean
        self.squares += (new - mean).square().sum(dim=0) + difference.square() * self.count * count / total
        self.mean += difference * count / total
        self.count.copy_(total)

    @property
    def std(self) -> Tensor:
        """The standard deviation, [size]; 0 for a single vector, never NaN."""
        return (self.squares / (self.count - 1).clamp(min=1)).sqrt()

    def forward(self, vectors: Tensor) -> Tensor:
        """Return (v - mean) / (std + 1e-7), in the vectors' dtype; 0 for an ignored feature."""
        std = self.std
        normalized = (double(vectors) - self.mean) / (std + EPSILON)
        if self.ignore_constant:
            normalized = normalized.where(std > ROUNDING * self.mean.abs(), 0.0)
        return normalized.to(vectors)


class LowRankResidual(nn.Module):
    """y + max(0, s * (U V y + b) + t), with s and t [matrices, n].

    Elements of V start as N(0, 1/n), so that those of V y have unit size, or as N(0, 1) without ``scaled``. The clamp's
    gradient at 0 is 1, and a ReLU's is 0: with U = 0, everything starts at 0, and a ReLU would never train.
    """

    def __init__(self, size: int, rank: int, matrices: int, rng: torch.Generator, *, scaled: bool = True) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(size, rank))
        self.v = nn.Parameter(torch.randn(rank, size, generator=rng) / (size**0.5 if scaled else 1.0))
        self.b = nn.Parameter(torch.zeros(size))
        self.scale = nn.Parameter(torch.ones(matrices, size))
        self.shift = nn.Parameter(torch.zeros(matrices, size))

    def forward(self, y: Tensor, matrix: int) -> Tensor:
        """``y`` [M, n] of one matrix."""
        inner = y @ self.v.T @ self.u.T + self.b
        return y + (self.scale[matrix] * inner + self.shift[matrix]).clamp(min=0)


class ShapeNetwork(nn.Module):
    """The network for the matrices of one shape (in, out)."""

    def __init__(self, shape: NetworkShape, layers: Sequence[LowRankResidual], *, ignore_constant: bool = True) -> None:
        super().__init__()
        self.inputs = shape[0]
        self.norm_x, self.norm_g = (Normalizer(size, ignore_constant=ignore_constant) for size in shape)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, g: Tensor, matrix: int) -> tuple[Tensor, Tensor]:
        """Return x~ [M, in] and g~ [M, out] of the ``matrix``-th matrix of this shape."""
        y = torch.cat([self.norm_x(x), self.norm_g(g)], dim=-1)
        for layer in self.layers:
            y = layer(y, matrix)
        return y[..., : self.inputs], y[..., self.inputs :]


class Hypernetwork(nn.Module):
    """The networks of all shapes. ``shapes``: (in, out) by layer name. Subclasses add what is learned per matrix.

    ``scaled``: see ``LowRankResidual``. ``ignore_constant``: see ``Normalizer``.
    """

    layer: ClassVar[type[LowRankResidual]] = LowRankResidual

    def __init__(
        self,
        shapes: Mapping[str, NetworkShape],
        *,
        rank: int,
        layers: int,
        seed: int = 0,
        scaled: bool = True,
        ignore_constant: bool = True,
    ) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(seed)
        self.shapes = dict(shapes)
        by_shape: dict[NetworkShape, list[str]] = {}
        for name, shape in shapes.items():
            by_shape.setdefault(shape, []).append(name)
        self.networks = nn.ModuleDict(
            {
                _key(shape): ShapeNetwork(
                    shape,
                    [self.layer(sum(shape), rank, len(names), rng, scaled=scaled) for _ in range(layers)],
                    ignore_constant=ignore_constant,
                )
                for shape, names in by_shape.items()
            }
        )
        self._number = {name: number for names in by_shape.values() for number, name in enumerate(names)}

    def observe(self, seen: Mapping[str, GradientFactors]) -> None:
        """Update the normalizers with the factors of a training batch."""
        for name, found in seen.items():
            network = self.network(name)
            network.norm_x.update(found.x)
            network.norm_g.update(found.g)

    def pseudo_factors(self, name: str, found: GradientFactors) -> tuple[Tensor, Tensor]:
        """Return x~ [M, in] and g~ [M, out] of one matrix."""
        pair: tuple[Tensor, Tensor] = self.network(name)(found.x, found.g, self._number[name])
        return pair

    def place(self, name: str) -> int:
        """Return the index of the matrix in the parameters that have one element per matrix."""
        return list(self.shapes).index(name)

    def network(self, name: str) -> ShapeNetwork:
        """Return the network of the layer's shape."""
        return cast("ShapeNetwork", self.networks[_key(self.shapes[name])])


def shapes_of(module: nn.Module, names: Sequence[str], editor: str) -> dict[str, NetworkShape]:
    """Return (in, out) of each layer, by the module's type (GPT-2's Conv1D stores [in, out]).

    Raises BadConfig, which names the ``editor``, for quantized weights.
    """
    found = {}
    for name in names:
        part = module.get_submodule(name)
        weight = part.get_parameter("weight")
        if quantized(weight):
            raise BadConfig(
                f"{editor} cannot edit quantized weights: {name}.weight is {weight.dtype}", hint=whole_instead(weight)
            )
        rows, columns = weight.shape
        found[name] = (int(columns), int(rows)) if isinstance(part, nn.Linear) else (int(rows), int(columns))
    return found


N = TypeVar("N", bound=Hypernetwork)


def placed(module: nn.Module, make: Callable[[], N]) -> N:
    """Return an untrained network from ``make`` on the device of the model's input, in float32 or better."""
    with default_dtype(torch.float32):
        network = make()
    weight = module.get_input_embeddings().weight  # type: ignore[operator]  # the device of the input
    if weight.dtype == torch.float64:
        network.double()
    for parameter in network.parameters():
        parameter.data = parameter.data.to(weight.device)
    for buffer in network.buffers():  # of the normalizers, float64
        buffer.data = buffer.data.to(home(weight.device))
    return network


def ignores_constant(recipe: Mapping[str, Any]) -> bool:
    """Return whether the normalizers ignore features without variance; older recipes do not state it."""
    return bool(recipe.get("ignore_constant", recipe["scaled_v"]))  # both are false in the paper profile only


def load_network(network: Hypernetwork, saved: Mapping[str, Any]) -> None:
    """Load the arrays of a checkpoint. Raises BadData if they do not fit."""
    state = {name.removeprefix(PREFIX): array for name, array in saved.items() if name.startswith(PREFIX)}
    try:
        network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()})
    except RuntimeError as error:
        raise BadData(
            "the checkpoint does not match its recipe", hint="train the network again with ke train"
        ) from error


def _key(shape: NetworkShape) -> str:
    return f"{shape[0]}x{shape[1]}"
