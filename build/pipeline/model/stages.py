"""What one call runs through, stage by stage: shapes as hooks saw them, parameters counted once, the last norm's numbers."""

from typing import Any

from pipeline.lab import Lab
from pipeline.model.parts import Anatomy, first_tensor, hooked
from pipeline.slide import Data


def run_through(lab: Lab, parts: Anatomy) -> Data:
    """What one call runs through, in order, with the shapes that hooks saw and the parameters that no stage before had."""
    ran: dict[Any, tuple[list[int], list[int]]] = {}  # module -> shapes in and out, without the batch of one

    def note(module: Any, args: tuple, kwargs: dict, output: Any) -> None:
        into, out = (list(first_tensor(*value).shape[1:]) for value in ((args, kwargs), (output,)))
        ran[module] = into, out

    chain = {parts.table: "token table"}
    chain |= {block: f"block {number}" for number, block in enumerate(parts.layers, 1)}
    chain |= {parts.norm: "final norm", parts.head: "output matrix"}
    others = (module for module in parts.backbone.children() if module not in chain and module is not parts.layers)
    beside = [module for module in others if list(module.parameters())]
    first = (named for block in parts.layers[:1] for named in block.named_modules())
    inside = {module: name for name, module in first if list(module.parameters(recurse=False))}
    with hooked([(module, note) for module in [*chain, *beside, *inside]]):
        lab.logits(lab.ids)
    seen: set[int] = set()

    def stage(module: Any, name: str) -> Data:
        new = {id(weight): weight.numel() for weight in module.parameters() if id(weight) not in seen}
        seen.update(new)
        into, out = ran[module]
        return {"name": name, "into": into, "out": out, "parameters": sum(new.values()), "beside": module in beside}

    table, *rest = chain.items()
    tables = [(module, "position table" if hasattr(module, "num_embeddings") else type(module).__name__) for module in beside]
    stages = [stage(module, name) for module, name in [table, *tables, *rest]]
    block = [
        {"name": inside[module], "into": into[-1], "out": out[-1], "parameters": own_parameters(module)}
        for module, (into, out) in ran.items()
        if module in inside
    ]
    return {"stages": stages, "block": block}


def own_parameters(module: Any) -> int:
    return sum(weight.numel() for weight in module.parameters(recurse=False))


def last_norm(lab: Lab, parts: Anatomy) -> Data:
    """What the final norm does, in numbers: its kind (rms or layer), weight and bias [width], and epsilon."""
    torch, norm = lab.torch, parts.norm
    rms = "rms" in type(norm).__name__.lower()
    eps = float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-5)))
    with torch.inference_mode():
        # an RMS norm hands back its own scale for a vector of ones, however it stores it
        ones = torch.ones(1, parts.head.weight.shape[-1])
        weight = norm(ones)[0] * (1 + eps) ** 0.5 if rms else getattr(norm, "weight", ones[0])
    bias = getattr(norm, "bias", None)
    kept = None if bias is None else bias.detach()
    return {"kind": "rms" if rms else "layer", "weight": weight.detach(), "bias": kept, "eps": eps}
