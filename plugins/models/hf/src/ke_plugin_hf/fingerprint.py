"""Fingerprints that differ if anything in a model differs, and the digest of its weights.

The runner computes them before and after every edit. Checksums are computed on the weights' device without copying
them: about 0.1 s for half a gigabyte.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

import torch
from attrs import define, field
from torch import Tensor, nn

from ke_plugin_hf.adaptors import Adaptor, identities, state_tensors
from ke_plugin_hf.tensor_parallel import full, replaced_forward

WORDS = 4096  # of 8 bytes, in a row of the view that is summed
SAMPLED = 64  # values of a tensor
ROWS = 32  # rows at a time on the CPU: a megabyte fits into its cache
ROWS_DEVICE = 2048
MIX = -7046029254386353131  # an arbitrary odd number: 2^64 over the golden ratio, as a signed number
HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_state_dict_hooks", "_load_state_dict_pre_hooks",
)  # fmt: skip
PROCESS = secrets.token_hex(8)

Checksum = tuple[int, int]


def checksum(tensor: Tensor) -> Checksum:
    """Return two wrapping 64-bit sums of the tensor's bytes, weighted by position.

    Words are mixed first (``w xor w >> 29``), so that changes of the highest bits, such as two flipped signs, cannot
    cancel. The weights of the first sum vary along a row of the view, those of the second along a column.
    """
    if tensor.is_meta or tensor.numel() == 0:
        return 0, 0
    words = _words(full(tensor.detach()))
    device = words.device
    whole = words[: words.numel() // WORDS * WORDS].view(-1, WORDS)
    step = ROWS if device.type == "cpu" else ROWS_DEVICE
    columns = torch.zeros(WORDS, dtype=torch.int64, device=device)
    rows, scratch = whole.new_empty(len(whole)), whole.new_empty((min(step, len(whole)), WORDS))
    for part, sums in zip(torch.split(whole, step), torch.split(rows, step), strict=True):
        mixed = torch.bitwise_right_shift(part, 29, out=scratch[: len(part)])
        torch.sum(mixed.bitwise_xor_(part), 1, out=sums)
        columns += mixed.sum(0)
    across = torch.arange(1, WORDS + 1, device=device) * MIX
    first = (columns * across).sum()
    second = (rows * torch.arange(1, len(whole) + 1, device=device) * MIX).sum()
    rest = words[whole.numel() :]
    mixed = rest ^ (rest >> 29)
    first = first + (mixed * across[: len(rest)]).sum()
    second = second + mixed.sum() * ((len(whole) + 1) * (MIX | 1) % 2**62)
    one, two = torch.stack((first, second)).tolist()
    return one, two


def _words(tensor: Tensor) -> Tensor:
    """Return the bytes as int64; a view if length and alignment allow it."""
    flat = tensor.contiguous().view(-1)
    raw = flat.view(torch.uint8)
    if len(raw) % 8 == 0 and raw.storage_offset() % 8 == 0:
        return raw.view(torch.int64)
    padded = torch.zeros(-(-len(raw) // 8) * 8, dtype=torch.uint8, device=raw.device)
    padded[: len(raw)] = raw
    return padded.view(torch.int64)


@define
class Checksums:
    """Checksums by tensor, computed again only if the tensor was replaced or written to.

    torch counts in-place writes (``Tensor._version``). Writes through ``.data`` are not counted, so the runner uses
    ``fresh``, and the Python API ``recheck``. A new adapter may get the address and the count of the previous one, so
    the tensor itself is compared too.
    """

    _known: dict[str, tuple[ref[Tensor], tuple[int, int], Checksum]] = field(factory=dict, init=False)
    _samples: dict[str, Tensor] = field(factory=dict, init=False)

    def of(self, module: nn.Module, adaptors: Sequence[Adaptor] = (), *, fresh: bool) -> dict[str, Checksum]:
        """Return the checksum by name of every parameter and buffer, and of every tensor of the adaptors."""
        known = {} if fresh else self._known
        made: dict[str, tuple[ref[Tensor], tuple[int, int], Checksum]] = {}
        for name, tensor in (*_tensors(module), *state_tensors(adaptors)):
            stamp = (0 if tensor.is_meta else tensor.data_ptr(), tensor._version)  # noqa: SLF001  no public name
            old = (self._known if tensor.is_meta else known).get(name)  # a meta tensor cannot be written to
            if old is None or old[1] != stamp or not (tensor.is_meta or old[0]() is tensor):
                value = checksum(offloaded(module, name, tensor) if tensor.is_meta else tensor)
                old = ref(tensor), stamp, value
            made[name] = old
        self._known = made
        return {name: value for name, (_tensor, _stamp, value) in made.items()}

    def recheck(self, module: nn.Module) -> None:
        """Forget the checksum of each tensor whose ``sample`` differs from that of the last call."""
        found = {name: sample(tensor) for name, tensor in _tensors(module) if not tensor.is_meta}
        for name, bits in found.items():
            if name not in self._samples or not torch.equal(bits, self._samples[name]):
                self._known.pop(name, None)
        self._samples = found


def sample(tensor: Tensor) -> Tensor:
    """Return the bytes of at most 64 values, spread evenly over the tensor."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, -(-flat.numel() // SAMPLED))].clone().view(torch.uint8)


def offloaded(module: nn.Module, name: str, empty: Tensor) -> Tensor:
    """Return the weight of that name, which accelerate stores elsewhere (main memory, disk) while it is not used.

    Returns ``empty``, its placeholder, if it is stored nowhere: such a model cannot compute.
    """
    path, _, leaf = name.rpartition(".")
    hook: Any = getattr(module.get_submodule(path), "_hf_hook", None)
    held = [one.weights_map for one in getattr(hook, "hooks", (hook,)) if getattr(one, "weights_map", None) is not None]
    found: Tensor = held[0][leaf] if held else empty
    return found


def fingerprint(
    module: nn.Module, sums: Mapping[str, Checksum] | None = None, adaptors: Sequence[Adaptor] = ()
) -> dict[str, object]:
    """Return marks by name. Compare two with ``==``; names whose marks differ show what changed.

    ``parameter NAME`` and ``buffer NAME``: dtype, shape, requires_grad, checksum.
    ``scale NAME``: the same for the scales of a quantized weight.
    ``module NAME``: type, train mode, hooks, replaced ``forward``. ``attention``: the chosen implementation.
    ``adaptor N of LAYER``: the function, and its state.
    """
    if sums is None:
        sums = Checksums().of(module, adaptors, fresh=True)
    marks: dict[str, object] = {}
    for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, tensor in named:
            marks[f"{kind} {name}"] = (str(tensor.dtype), tuple(tensor.shape), tensor.requires_grad, sums[name])
    for name, tensor in _scales(module):
        marks[f"scale {name}"] = (str(tensor.dtype), tuple(tensor.shape), sums[name])
    for name, part in module.named_modules():
        own_forward = id(part.__dict__["forward"]) if "forward" in part.__dict__ else None
        marks[f"module {name}"] = (type(part).__qualname__, part.training, _hooks(part), own_forward)
    marks |= identities(adaptors)
    for name, tensor in state_tensors(adaptors):
        marks[name] = (str(tensor.dtype), tuple(tensor.shape), sums[name])
    marks["attention"] = getattr(getattr(module, "config", None), "_attn_implementation", None)
    return marks


def digest_of(module: nn.Module, sums: Mapping[str, Checksum] | None = None, adaptors: Sequence[Adaptor] = ()) -> str:
    """Identify what the model computes: equal in every process for equal weights and adaptors.

    SHA-256 over names, dtypes, shapes and checksums, and over the functions of adaptors. The effect of other hooks is
    unknown: with hooks that act on the forward pass, the digest is valid only in this process and for these hooks.
    """
    if sums is None:
        sums = Checksums().of(module, adaptors, fresh=True)
    text = hashlib.sha256()
    for name, function in identities(adaptors):
        text.update(f"{name}: {function}\n".encode())
    for name, tensor in sorted((*_tensors(module), *state_tensors(adaptors)), key=lambda pair: pair[0]):
        text.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {sums[name]}\n".encode())
    known = {hook for adaptor in adaptors for hook in adaptor.hooks}
    for name, part in module.named_modules():
        registered = (*part._forward_hooks, *part._forward_pre_hooks)  # noqa: SLF001  no public name
        acting = tuple(hook for hook in registered if hook not in known)
        replaced = 0 if hasattr(part, "_hf_hook") else replaced_forward(part)
        if acting or replaced:
            text.update(f"{name} {PROCESS} {acting} {replaced}\n".encode())
    return text.hexdigest()[:32]


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
    yield from _scales(module)


def _scales(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Return the scales of 4-bit weights: bitsandbytes stores them as attributes of the parameter, not as buffers."""
    for name, parameter in module.named_parameters():
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            twice = {"offset": state.offset, "state2.absmax": state.state2.absmax} if state.nested else {}
            for part, tensor in ({"absmax": state.absmax} | twice).items():
                yield f"{name}.{part}", tensor


def _hooks(part: nn.Module) -> tuple[tuple[int, ...], ...]:
    """Return the ids of the hooks by type. torch uses each id once."""
    return tuple(tuple(getattr(part, kind, ())) for kind in HOOKS)
