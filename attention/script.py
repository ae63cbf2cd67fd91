"""A scene as a plain PyTorch script that draws the same numbers, attends in the same steps, and prints them.

The script imports `math` and `torch` and nothing else. It runs the library's operations in their order, so that on one
machine its numbers are the library's to the last bit. Of each seed it carries the lower 32 bits, since PyTorch's CPU
generator takes no more. Trained weights come of no seed: such a scene's script reads them from a file, with `numpy`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import tee
from textwrap import fill, indent
from typing import Final

import torch
from torch import Tensor, nn

from attention import multi_head, sample, script_mask, verify_head
from attention import script_templates as templates
from attention.config import MAX_TOKENS, AttentionConfig
from attention.mask_config import MaskConfig
from attention.sample import AttentionParameters, BlockParameters
from attention.scenes import Scene, config_of
from attention.script_mask import has_empty_rows, mask_of
from attention.verify_block import BlockConfig, draw_blocks, each_block
from attention.verify_head import HeadConfig

MOST_SHOWN: Final = 16  # numbers of a row that are printed
FIRST_SHOWN: Final = 4  # numbers of the output
_ATTENTION: Final = tuple(field.name for field in fields(AttentionParameters))
_BLOCK: Final = tuple(field.name for field in fields(BlockParameters)[1:])
_CALLED: Final = {
    "E": "embed dim",
    "H": "heads",
    "D": "width of q and k",
    "V": "width of v",
    "N": "tokens",
    "T": "queries",
    "S": "keys",
    "F": "width in the feed-forward network",
}


@dataclass(frozen=True)
class Answer:
    """What the script of a scene has come to at its end: shapes (1, H, T, S) and (1, T, …)."""

    weights: Tensor
    output: Tensor
    apart: float


def text(scene: Scene, head: int = 0, query: int = 0, inputs: str = "inputs.npz") -> str:
    """The script of a scene.

    Args:
        scene: attention, one head, blocks, or attention under a mask of its own.
        head: whose row of weights is printed; of blocks, in the last of them.
        query: which row.
        inputs: the file that a scene with trained weights is read from, an NPZ of `tensors.inputs_of`.
    """
    config = config_of(scene)
    if isinstance(scene, BlockConfig):
        body = _blocks(scene, inputs)
    else:
        body = _one_head(scene, inputs) if isinstance(scene, HeadConfig) else _attention(scene, inputs)
    printing = templates.PRINTING.substitute(
        dtype=config.dtype,
        digits=_digits(config),
        head=head,
        named=_named(scene, head),
        query=query,
        most=MOST_SHOWN,
        first=FIRST_SHOWN,
    )
    return f"{body}{printing}"


def expected(scene: Scene, head: int = 0, query: int = 0) -> str:
    """What the script prints, from the library's own numbers. On one thread, as the script."""
    found, digits = answer(scene), _digits(config_of(scene))

    def show(numbers: Tensor) -> str:
        return " ".join(f"{number:.{digits}g}" for number in numbers.tolist())

    lines = (
        f"output {tuple(found.output.shape)} sum {found.output.double().sum().item():.{digits}g}",
        f"weights of head {_named(scene, head)}, query {query}: {show(found.weights[0, head, query, :MOST_SHOWN])}",
        f"output begins: {show(found.output.flatten()[:FIRST_SHOWN])}",
        f"largest difference from PyTorch's: {found.apart:.1e}",
    )
    return "\n".join(lines) + "\n"


@torch.no_grad()
def answer(scene: Scene) -> Answer:
    """The library's own weights and output of a scene, and how far PyTorch's single call is from them."""
    if isinstance(scene, BlockConfig):
        return _answer_of_blocks(scene)
    if isinstance(scene, HeadConfig):
        one = verify_head.attend_as_configured(scene)
        return Answer(one.weights, one.output, _from_kernel(one, mask_of(scene)))
    config, mask = scene if isinstance(scene, tuple) else (scene, None)
    trace = multi_head.draw_and_attend(config, mask)[1]
    return Answer(trace.weights, trace.output, _from_kernel(trace, mask_of(scene)))


def _named(scene: Scene, head: int) -> int:
    """What a head is called: one that was taken out of a layer is called as it is there."""
    return scene.head if isinstance(scene, HeadConfig) else head


def seed_of(name: str, seed: int) -> int:
    """What the generator of a named tensor begins with, from 0 to 2³² − 1."""
    return sample.generator(name, seed).initial_seed() % 2**32


def _attention(scene: AttentionConfig | tuple[AttentionConfig, MaskConfig], inputs: str) -> str:
    config, mask = config_of(scene), mask_of(scene)
    of_mask = scene[1] if isinstance(scene, tuple) else None
    sizes = {"E": config.embed_dim, "H": config.num_heads, "T": config.num_tokens}
    called = _CALLED | {"T": "tokens"}
    crossed = of_mask is not None and (of_mask.num_queries, of_mask.num_keys) != (config.num_tokens,) * 2
    if crossed and of_mask:
        sizes = sizes | {"T": of_mask.num_queries, "S": of_mask.num_keys, "N": config.num_tokens}
        called = _CALLED
    return (
        _opening(config, "Attention", sizes, called)
        + _source(config, {name: name for name in ("tokens", *_ATTENTION)}, inputs)
        + templates.ATTENTION.substitute(
            split=templates.SPLIT,
            tokens=templates.TAKEN_TOKENS if config.trained else _tokens('draw("tokens"', "N" if crossed else "T"),
            weight_and_bias=templates.TAKEN if config.trained else templates.DRAWN,
            q_k_v=templates.CROSS if crossed else templates.SELF,
            equation=_equation(mask, "S" if crossed else "T"),
            kernel=_kernel(mask),
        )
    )


def _one_head(scene: HeadConfig, inputs: str) -> str:
    config, mask = scene.scene, mask_of(scene)
    sizes = {"E": config.embed_dim, "D": scene.head_dim, "V": scene.value_dim, "T": config.num_tokens}
    names = {name: f"head/{name}" for name in ("w_q", "w_k", "w_v")}
    return (
        _opening(config, "One head", sizes, _CALLED | {"T": "tokens"})
        + _source(config, {"tokens": "tokens"} | names, inputs)
        + (templates.TRAINED_HEAD if config.trained else templates.ONE_HEAD).substitute(
            tokens=templates.TAKEN_TOKENS if config.trained else _tokens('draw("tokens"', "T"),
            equation=_equation(mask, "T"),
            kernel=_kernel(mask),
        )
    )


def _blocks(scene: BlockConfig, inputs: str) -> str:
    config, mask = scene.scene, mask_of(scene)
    half = config.dtype in ("bfloat16", "float16")
    hidden = len(sample.draw_block(config).w_1) if config.trained else 4 * config.embed_dim
    sizes = {"E": config.embed_dim, "H": config.num_heads, "T": config.num_tokens, "F": hidden}
    activation = templates.RELU if scene.activation == "relu" else templates.GELU
    title = f"{'A transformer block' if scene.depth == 1 else f'{scene.depth} transformer blocks'}"
    return _opening(config, title, sizes, _CALLED | {"T": "tokens"}) + templates.BLOCKS.substitute(
        of_attention=" ".join(_ATTENTION),
        of_block=" ".join(_BLOCK),
        source=templates.INPUTS.substitute(file=inputs) if config.trained else _seeds_of_blocks(scene),
        blocks=f"range({scene.depth})" if config.trained else "seeds",
        block=templates.TAKEN_BLOCK if config.trained else templates.DRAWN_BLOCK,
        split=templates.SPLIT,
        widened=templates.WIDENED if half else "",
        moved=templates.MOVED_IN_HALF if half else templates.MOVED,
        activation=templates.GELU_IN_HALF if half and scene.activation == "gelu" else activation,
        equation=indent(_equation(mask, "T"), "    "),
        called=scene.activation,
        norm_first=scene.norm_first,
        blocked="None" if mask is None else "torch.ones(T, T, dtype=torch.bool).triu(1)",
        tokens=templates.TAKEN_TOKENS if config.trained else _tokens(f"draw({seed_of('tokens', config.seed)}", "T"),
        flow=templates.PRE_NORM if scene.norm_first else templates.POST_NORM,
    )


def _opening(config: AttentionConfig, what: str, sizes: dict[str, int], called: dict[str, str]) -> str:
    return templates.OPENING.substitute(
        title=f"{what} as Attention Lab {_drawn(config)}, in plain PyTorch.",
        imports="import math\n\nimport numpy\nimport torch" if config.trained else "import math\n\nimport torch",
        names=", ".join(sizes),
        values=", ".join(map(str, sizes.values())),
        dtype=config.dtype,
        called=", ".join(called[name] for name in sizes),
    )


def _drawn(config: AttentionConfig) -> str:
    return f"{f'has it of {config.weights}' if config.trained else 'draws it'} for seed {config.seed}"


def _source(config: AttentionConfig, names: dict[str, str], inputs: str) -> str:
    """Where tensors come from: their seeds, or a file."""
    return templates.INPUTS.substitute(file=inputs) if config.trained else _seeds(config, names)


def _seeds(config: AttentionConfig, names: dict[str, str]) -> str:
    listed = ", ".join(f'"{shown}": {seed_of(name, config.seed)}' for shown, name in names.items())
    return templates.SEEDS.substitute(seeds=_wrapped(f"{listed},", "    "))


def _seeds_of_blocks(scene: BlockConfig) -> str:
    seed, names = scene.scene.seed, (*_ATTENTION, *_BLOCK)
    seeds = (
        f"[{', '.join(str(seed_of(_name_in_block(name, index), seed)) for name in names)}],"
        for index in range(scene.depth)
    )
    return templates.BLOCKS_FROM_SEEDS.substitute(seeds="\n".join(_wrapped(one, "    ", "     ") for one in seeds))


def _name_in_block(name: str, index: int) -> str:
    """What a tensor of a block is called where it is drawn: the attention of the first block is that of the scene."""
    return name if index == 0 and name in _ATTENTION else f"block {index}/{name}"


def _tokens(draw: str, count: str) -> str:
    return f"tokens = {draw}, {MAX_TOKENS}, E)[None, :{count}]  # cut from {MAX_TOKENS}: one more changes no other"


def _equation(mask: MaskConfig | None, keys: str) -> str:
    masked = [templates.NO_MASK] if mask is None else [*script_mask.lines(mask, "T", keys), templates.MASKED]
    softmax = templates.SOFTMAX_WITH_EMPTY_ROWS if has_empty_rows(mask) else templates.SOFTMAX
    return "\n".join((templates.SCORES, *masked, softmax))


def _kernel(mask: MaskConfig | None) -> str:
    return templates.KERNEL.substitute(mask="" if mask is None else ", attn_mask=allowed")


def _wrapped(words: str, first: str, other: str | None = None) -> str:
    return fill(words, 100, initial_indent=first, subsequent_indent=first if other is None else other)


def _digits(config: AttentionConfig) -> int:
    """How many significant digits tell any two numbers of the scene apart."""
    return 17 if config.dtype == "float64" else 9


def _from_kernel(trace: multi_head.AttentionTrace | verify_head.HeadTrace, mask: MaskConfig | None) -> float:
    allowed = None if mask is None else mask.allowed
    theirs = nn.functional.scaled_dot_product_attention(trace.q, trace.k, trace.v, attn_mask=allowed)
    return _apart(trace.context, theirs)


def _answer_of_blocks(scene: BlockConfig) -> Answer:
    """PyTorch's layers go on with their own output, as in the script."""
    config = scene.scene
    allowed = multi_head.allowed_by(config)
    blocked = None if allowed is None else ~allowed
    weights = output = theirs = sample.draw_stream(config)
    of_ours, of_theirs = tee(draw_blocks(scene))  # in step, so that one block's parameters are held at a time
    for drawn, trace in zip(of_theirs, each_block(scene, of_ours), strict=True):
        weights, output = trace.attention.weights, trace.output
        theirs = _layer(scene, drawn)(theirs, src_mask=blocked)
    return Answer(weights, output, _apart(output, theirs))


def _layer(scene: BlockConfig, drawn: BlockParameters) -> nn.TransformerEncoderLayer:
    """PyTorch's block with these parameters, in training mode, where it takes no shortcut.

    Built on the meta device, since it would draw its own from the random state of the whole process.
    """
    config, a = scene.scene, drawn.attention
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(
            config.embed_dim, config.num_heads, len(drawn.w_1), dropout=0.0, activation=scene.activation,
            batch_first=True, norm_first=scene.norm_first, dtype=config.torch_dtype,
        )  # fmt: skip
    numbers: Iterable[Tensor] = (
        torch.cat([a.w_q, a.w_k, a.w_v]), torch.cat([a.b_q, a.b_k, a.b_v]), a.w_o, a.b_o,
        drawn.w_1, drawn.b_1, drawn.w_2, drawn.b_2,
        drawn.norm_1_weight, drawn.norm_1_bias, drawn.norm_2_weight, drawn.norm_2_bias,
    )  # fmt: skip
    layer.load_state_dict(dict(zip(layer.state_dict(), numbers, strict=True)), assign=True)
    return layer.requires_grad_(False)


def _apart(ours: Tensor, theirs: Tensor) -> float:
    return (ours.double() - theirs.double()).abs().max().item()
