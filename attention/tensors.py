"""Every tensor of a scene by name, to be taken home: tokens, parameters, each step of its trace, and what pages add.

A dot in a name stands between whose it is and the step: "ours.weights".
"""

from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

import torch
from torch import Tensor

from attention import multi_head, verify_head
from attention.bugs.caught import Scene as Breakable
from attention.bugs.caught import both_with
from attention.bugs.pieces import BlockPieces
from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.differences import differ
from attention.four_ways import FourWays
from attention.multi_head import SQUARE
from attention.residual import look_into_both
from attention.sample import AttentionParameters, BlockParameters, draw_block, draw_parameters, draw_stream, draw_tokens
from attention.scenes import Scene, config_of
from attention.verify import Trace
from attention.verify_block import BlockConfig, both_placements, draw_blocks
from attention.verify_head import HeadConfig

Tensors = dict[str, Tensor]

# rows and columns of the steps that are not (token, dimension)
_ROWS_AND_COLUMNS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("q", "context"), ("query", "dimension")),
    **dict.fromkeys(("k", "v"), ("key", "dimension")),
    **dict.fromkeys(SQUARE, ("query", "key")),
}
# what comes before them, by the number of axes
_BEFORE: Final[dict[int, tuple[str, ...]]] = {2: (), 3: ("batch",), 4: ("batch", "head")}


@torch.no_grad()
def of_scene(scene: Scene, index: int = 0) -> Tensors:
    """Tokens, parameters and every step of a scene.

    Of blocks those of one, `index`, under both placements of the norm, the scene's own first; its `x` is what went in.
    """
    if isinstance(scene, BlockConfig):
        return _of_block(scene, index)
    if isinstance(scene, HeadConfig):
        return {**inputs_of(scene), **of_trace(verify_head.attend_as_configured(scene))}
    config, mask = scene if isinstance(scene, tuple) else (scene, None)
    (tokens, parameters), trace = multi_head.draw_and_attend(config, mask)
    return {"tokens": tokens, **of_parameters(parameters), **of_trace(trace)}


def inputs_of(scene: Scene) -> Tensors:
    """Tokens and parameters of a scene; of blocks with the block's number before each name: "0.w_q"."""
    if isinstance(scene, HeadConfig):
        tokens, weights = verify_head.draw(scene)
        kinds = {"weight": "w", "bias": "b"}
        split = ((name.split("."), tensor) for name, tensor in weights.items())
        return {"tokens": tokens, **{f"{kinds[kind]}{to.removeprefix('w')}": tensor for (to, kind), tensor in split}}
    config = config_of(scene)
    if isinstance(scene, BlockConfig):
        blocks = enumerate(draw_blocks(scene))
        named = {f"{index}.{name}": x for index, block in blocks for name, x in of_parameters(block).items()}
        return {"tokens": draw_stream(config), **named}
    return {"tokens": draw_tokens(config), **of_parameters(draw_parameters(config))}


def of_two(b: AttentionConfig, a: AttentionConfig) -> Tensors:
    """Tokens, parameters and every step of two scenes, named "A." and "B."."""
    return {f"{name}.{step}": found for name, scene in (("A", a), ("B", b)) for step, found in of_scene(scene).items()}


def with_mistake(scene: Breakable, pieces: BlockPieces) -> Tensors:
    """A scene whose ours is made of these pieces: tokens, parameters, "ours." and "pytorch." with every step."""
    ours, pytorch = both_with(scene, pieces)
    config = config_of(scene)
    is_block = isinstance(scene, BlockConfig)
    tokens, drawn = (
        (draw_stream(config), draw_block(config)) if is_block else (draw_tokens(config), draw_parameters(config))
    )
    return {"tokens": tokens, **of_parameters(drawn), **of_trace(ours, "ours"), **of_trace(pytorch, "pytorch")}


def of_ways(config: AttentionConfig, dropout: float) -> Tensors:
    """A causal scene four ways: tokens, parameters, and weights and output by each way, dropout included."""
    ways = FourWays(config, dropout)
    found = {"tokens": ways.tokens, **of_parameters(ways.parameters)}
    for answer in ways.answers():
        found |= {f"{answer.way}.weights": answer.weights, f"{answer.way}.output": answer.output}
    return found


def of_calls(config: AttentionConfig, topic: str, name: str, head: int, tolerance: Tolerance) -> Tensors:
    """What two calls of `differences` gave, "left." and "right.", each (rows, columns); nothing of one that raised."""
    shown = differ(config, topic, name, head, tolerance)
    step, both = shown.difference.step, (("left", shown.left), ("right", shown.right))
    return {f"{side}.{step}": found for side, found in both if found is not None}


def of_trace(trace: Trace, name: str = "") -> Tensors:
    """Every step of a trace, with a name before it if one is given: "ours.weights"."""
    before = f"{name}." if name else ""
    return {f"{before}{step}": attrgetter(step)(trace) for step in trace.steps}


def of_parameters(parameters: AttentionParameters | BlockParameters) -> Tensors:
    """The weights and biases; those of a block's attention first."""
    found: Tensors = {}
    for field in fields(parameters):
        value: Any = getattr(parameters, field.name)
        found |= {field.name: value} if isinstance(value, Tensor) else of_parameters(value)
    return found


def axes(name: str, num_axes: int) -> tuple[str, ...]:
    """What the axes of a tensor are called, from the last part of its name and how many there are, 1 to 4.

    Example:
        >>> axes("ours.weights", 4)
        ('batch', 'head', 'query', 'key')
        >>> axes("w_q", 2)
        ('out', 'in')
    """
    step = name.rpartition(".")[2]
    if step.startswith(("w_", "b_")):
        return ("out", "in")[:num_axes]
    if num_axes == 1:
        return ("dimension",)
    return (*_BEFORE[num_axes], *_ROWS_AND_COLUMNS.get(step, ("token", "dimension")))


def _of_block(scene: BlockConfig, index: int) -> Tensors:
    config = scene.scene
    found: Tensors = {"tokens": draw_stream(config), **of_parameters(draw_block(config, index))}
    for placed, inside in zip(both_placements(scene), look_into_both(scene, index), strict=True):
        name = "pre-norm" if placed.norm_first else "post-norm"
        found |= {f"{name}.x": inside.trace.x, **of_trace(inside.trace, name)}
    return found
