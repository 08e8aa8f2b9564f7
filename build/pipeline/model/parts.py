"""The parts every causal language model has: token table, layers, final norm, output matrix; and what flows through them.

Names differ from model to model (`transformer.h`, `model.layers`), so the parts are found by what they do. Knows no slide.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import BadInput
from pipeline.lab import Lab

FEWEST = 6  # tokens: in fewer there is little to look back at


@dataclass(frozen=True)
class Anatomy:
    """The modules of one model. `scale` is what the model multiplies the output matrix's scores by; 1 for most."""

    backbone: Any  # holds the layers and what runs directly before and after them
    table: Any
    layers: Any
    norm: Any
    head: Any
    scale: float


def anatomy(lab: Lab) -> Anatomy:
    """Find the parts; one call on one token shows which module runs after the last layer. Raises BadInput."""
    model = lab.model
    backbone, layers = _layers(model, lab.torch.nn.ModuleList)
    ran: list[Any] = []
    beside = [(child, lambda module, *_: ran.append(module)) for child in backbone.children() if child is not layers]
    with hooked([*beside, (layers[-1], lambda *_: ran.clear())]):
        lab.logits(lab.ids[:1])
    if len(ran) != 1:
        raise BadInput(f"this deck needs a model with one norm between its last layer and its output matrix, not {len(ran)}")
    scale = getattr(model.config, "logit_scale", None) or 1 / (getattr(model.config, "logits_scaling", None) or 1)
    return Anatomy(backbone, model.get_input_embeddings(), layers, ran[0], model.get_output_embeddings(), float(scale))


def _layers(model: Any, module_list: Any) -> tuple[Any, Any]:
    """The outermost list of as many modules as the model has layers, and the module that holds it."""
    for owner in model.modules():
        for child in owner.children():
            if isinstance(child, module_list) and len(child) == model.config.num_hidden_layers:
                return owner, child
    raise BadInput("this deck needs a model whose layers stand in one list")


@contextlib.contextmanager
def hooked(watched: Iterable[tuple[Any, Callable]]) -> Iterator[None]:
    """Call each function with (module, args, kwargs, output) after its module runs, as long as the block lasts."""
    handles = [module.register_forward_hook(function, with_kwargs=True) for module, function in watched]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def enough_tokens(lab: Lab) -> list[int]:
    """The sentence; one of fewer than FEWEST tokens is followed by as much of its completion as that takes."""
    return lab.ids + lab.completion[: max(0, FEWEST - len(lab.ids))]


def first_tensor(*values: Any) -> Any:
    """The first tensor of what goes into a module, or of what comes out of it."""
    for value in values:
        if hasattr(value, "shape"):
            return value
        if isinstance(value, tuple | list | dict):
            found = first_tensor(*(value.values() if isinstance(value, dict) else value))
            if found is not None:
                return found
    return None


def hidden_states(lab: Lab, ids: list[int]) -> np.ndarray:
    """What goes into the first layer and what comes out of each, the final norm not yet applied: [layers + 1, n, width]."""
    layers = anatomy(lab).layers
    states: list[np.ndarray] = []

    def keep(tensor: Any) -> None:
        states.append(tensor[0].float().numpy().copy())  # [1, n, width] -> [n, width]

    into = (layers[0], lambda module, args, kwargs, output: keep(first_tensor(args, kwargs)))
    with hooked([into, *((layer, lambda module, args, kwargs, output: keep(first_tensor(output))) for layer in layers)]):
        lab.logits(ids)
    return np.stack(states)
