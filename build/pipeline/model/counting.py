"""How much arithmetic a call takes: floating-point operations, by torch's own counter. Knows no slide."""

from collections.abc import Callable
from typing import Any

from pipeline.lab import Lab


def operations(lab: Lab, call: Callable[[], Any]) -> tuple[int, int, Any]:
    """The floating-point operations of a call, in all and in the output matrix; and what it returned."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        returned = call()
    output = lab.model.get_output_embeddings()
    name = next(name for name, module in lab.model.named_modules() if module is output)
    inside = counter.get_flop_counts()[f"{type(lab.model).__name__}.{name}"]
    return counter.get_total_flops(), sum(inside.values()), returned
