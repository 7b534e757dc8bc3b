"""``python several_devices.py EDITOR [OPTION=VALUE ...]``: edit a tiny model that is spread over two devices.

The devices are simulated on the CPU: their tensors wrap ordinary ones, and an operation on tensors of two devices fails
as it does on accelerators. The hooks of accelerate move the states, as with ``--device-map auto``. Gradients are not
simulated, so targets use one step (``steps=1``); the devices of tensors do not depend on it. The script needs its own
process, because torch cannot forget the simulated devices.
"""

from __future__ import annotations

import sys
from typing import Any, Self

import accelerate.hooks
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.runner.resolve import resolve_component
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_model
from ke_testing.examples import MOVE_TOWER
from ke_testing.fakes import make_session

ATEN, NAME, CPU = torch.ops.aten, "played", torch.device("cpu")
INDEXING = {ATEN.index.Tensor, ATEN.index_put.default, ATEN.index_put_.default, ATEN._index_put_impl_.default}
MOVING = {ATEN._to_copy.default, ATEN.copy_.default}


class There(Tensor):
    """A tensor on a simulated device. ``here`` holds its values."""

    here: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, here: Tensor, device: torch.device) -> Self:
        place = {"storage_offset": here.storage_offset(), "dtype": here.dtype, "device": device}
        made: Self = Tensor._make_wrapper_subclass(cls, here.size(), strides=here.stride(), **place)
        return made

    def __init__(self, here: Tensor, device: torch.device) -> None:
        del device
        self.here = here

    def tolist(self) -> Any:
        return self.here.tolist()

    def data_ptr(self) -> int:
        return self.here.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return done(op, args, kwargs or {})


class Played(TorchDispatchMode):
    """A context in which new tensors may be on simulated devices."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return done(op, args, kwargs or {})


def done(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run ``op`` on the device of its tensors. Raises RuntimeError if they are on different devices."""
    place = where(op, args, kwargs)
    if "device" in kwargs:
        kwargs = {**kwargs, "device": CPU}
    made = op(*tree_map(inside, args), **tree_map(inside, kwargs))
    if place.type != NAME:
        return made
    if op._schema.is_mutable and "out" not in kwargs:
        return args[0]
    wrapped = tree_map(lambda one: There(one, place) if isinstance(one, Tensor) else one, made)
    return return_and_correct_aliasing(op, args, kwargs, wrapped)


def where(op: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
    """Return the device of the result of ``op``."""
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    if op in INDEXING:  # indices may be on the CPU
        meeting = [args[0], *(one for one in args[1] if one is not None and one.device != CPU)]
        meeting += [one for one in args[2:3] if isinstance(one, Tensor) and one.dim()]
    else:
        meeting = [] if op in MOVING else [one for one in tensors if one.dim() or one.device != CPU]
    devices = {one.device for one in meeting}
    if len(devices) > 1:
        raise RuntimeError(f"Expected all tensors to be on the same device, {op} found {devices}")
    if kwargs.get("device") is not None:
        wanted = torch.device(kwargs["device"])
        return torch.device(NAME, 0) if wanted.type == NAME and wanted.index is None else wanted
    if op in INDEXING | MOVING:
        return torch.device(args[0].device)
    return next(iter(devices), tensors[0].device if tensors else CPU)


def inside(value: Any) -> Any:
    """Return the values of a simulated tensor, and anything else unchanged."""
    return value.here if isinstance(value, There) else value


def spread(module: nn.Module, places: dict[str, torch.device]) -> None:
    """Put each part on its device, with the hooks of ``accelerate.dispatch_model``."""
    for part_name, part in module.named_modules():
        for kind in (part._parameters, part._buffers):
            for name, tensor in [(name, one) for name, one in kind.items() if one is not None]:
                path = f"{part_name}.{name}"
                device = next(place for prefix, place in places.items() if path.startswith(prefix))
                moved = There(tensor.detach().clone(), device)
                kind[name] = nn.Parameter(moved, requires_grad=False) if kind is part._parameters else moved
    accelerate.hooks.set_module_tensor_to_device = lambda *_args, **_how: None  # they are there already
    accelerate.hooks.attach_align_device_hook_on_blocks(
        module,
        execution_device={**places, "": next(iter(places.values()))},
        offload=dict.fromkeys(places, False),
        skip_keys="past_key_values",
    )


def two_devices() -> HFModel:
    """Return the tiny LLaMA with its lower blocks on one device, and its upper blocks and head on another."""
    whole = tiny_model("llama")
    module, first, second = whole.module, torch.device(NAME, 0), torch.device(NAME, 1)
    module.lm_head.weight = nn.Parameter(module.lm_head.weight.detach().clone(), requires_grad=False)  # untied
    blocks = range(len(module.model.layers))
    places = {"model.embed_tokens": first, "model.rotary_emb": first}
    places |= {f"model.layers.{at}": first if at < len(blocks) // 2 else second for at in blocks}
    spread(module, places | {"model.norm": second, "lm_head": second})
    module.config._attn_implementation = "eager"
    return HFModel.from_parts(module, whole.tokenizer, id="spread")


def main(name: str, *options: str) -> None:
    """Edit, check that every weight is restored, and print how far the weights moved."""
    _setup_privateuseone_for_python_backend(NAME)
    make = torch.tensor
    torch.tensor = lambda data, *, device=None, **how: make(data, **how).to(device or CPU)  # type: ignore[assignment]
    model = two_devices()
    editor = resolve_component(
        read_catalog(discover()), "editor", name, {name: dict(option.split("=") for option in options)}
    ).build()
    with Played():
        before = model.state()
        with editor.edit(make_session(model), [MOVE_TOWER]) as edited:
            sys.stdout.write(f"{edited.details['relative_update_norms']}\n")
        assert model.state() == before


if __name__ == "__main__":
    main(*sys.argv[1:])
