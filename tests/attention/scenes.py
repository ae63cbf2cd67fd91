"""Tensors and modules for the tests, made without the library's own sampling and reference."""

from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from attention.multi_head import AttentionTrace, attend
from attention.reference import ReferenceTrace
from attention.sample import AttentionParameters, BlockParameters

Module = TypeVar("Module", bound=nn.Module)
Attention = AttentionTrace | ReferenceTrace

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers from a generator of their own."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def coin(seed: int, *shape: int) -> Tensor:
    """A mask of random True and False."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


def random_parameters(seed: int, embed_dim: int, dtype: torch.dtype = torch.float64) -> AttentionParameters:
    """Weights of deviation 1/√E and biases of deviation 1: a dropped bias is not to be missed."""
    drawn = {}
    for place, field in enumerate(fields(AttentionParameters)):
        shape = (embed_dim, embed_dim) if field.name.startswith("w") else (embed_dim,)
        drawn[field.name] = normal(100 * seed + place, *shape, dtype=dtype) / embed_dim ** (0.5 * (len(shape) - 1))
    return AttentionParameters(**drawn)


def torch_module(parameters: AttentionParameters, num_heads: int) -> nn.MultiheadAttention:
    """PyTorch's module on these numbers, made the ordinary way; it is in training mode, where gradients flow."""
    p = parameters
    module = nn.MultiheadAttention(p.w_q.shape[0], num_heads, batch_first=True, dtype=p.w_q.dtype)
    module.load_state_dict(
        {
            "in_proj_weight": torch.cat([p.w_q, p.w_k, p.w_v]).detach(),
            "in_proj_bias": torch.cat([p.b_q, p.b_k, p.b_v]).detach(),
            "out_proj.weight": p.w_o.detach(),
            "out_proj.bias": p.b_o.detach(),
        }
    )
    return module


def module_answer(module: nn.MultiheadAttention, tokens: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of every head, and the output; True = blocked is what this module means."""
    batch, num_tokens, _ = tokens.shape
    per_head = allowed.expand(batch, module.num_heads, num_tokens, num_tokens).reshape(-1, num_tokens, num_tokens)
    output, weights = module(tokens, tokens, tokens, attn_mask=~per_head, average_attn_weights=False)
    return weights, output


def assert_same(actual: Attention, expected: Attention, rtol: float = 1e-7, atol: float = 1e-9) -> None:
    """Every step of the one is close to that of the other; exactly equal with both tolerances 0."""
    for field in fields(AttentionTrace):
        say = partial("{}: {}".format, field.name)  # which step it was, before what was wrong
        assert_close(getattr(actual, field.name), getattr(expected, field.name), rtol=rtol, atol=atol, msg=say)


def hard_scene() -> tuple[Tensor, AttentionParameters, int, Tensor]:
    """Tokens, parameters, heads and mask with a different prime for every size and a mask for each sequence."""
    batch, num_heads, num_tokens, head_dim = 2, 3, 7, 5
    lower = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    allowed = torch.stack([lower, lower | coin(3, num_tokens, num_tokens)])[:, None]
    embed_dim = num_heads * head_dim
    return 2 * normal(1, batch, num_tokens, embed_dim), random_parameters(2, embed_dim), num_heads, allowed


def hard_trace() -> AttentionTrace:
    """The hard scene, attended to."""
    return attend(*hard_scene())


def random_block(seed: int, embed_dim: int, hidden: int, dtype: torch.dtype = torch.float64) -> BlockParameters:
    """Parameters of a block, norms included, none of them at what a fresh module begins with."""
    shapes = {"w_1": (hidden, embed_dim), "b_1": (hidden,), "w_2": (embed_dim, hidden)}
    drawn = {}
    for place, field in enumerate(fields(BlockParameters)[1:]):
        shape = shapes.get(field.name, (embed_dim,))
        numbers = normal(1000 * seed + place, *shape) / (shape[-1] ** 0.5 if len(shape) == 2 else 2)
        drawn[field.name] = (numbers + 1 if field.name.endswith("weight") else numbers).to(dtype)
    return BlockParameters(random_parameters(seed, embed_dim, dtype), **drawn)


def torch_layer(
    parameters: BlockParameters, num_heads: int, *, norm_first: bool, activation: str, batch_first: bool = True
) -> nn.TransformerEncoderLayer:
    """PyTorch's layer on these numbers, made the ordinary way; it is in training mode, without dropout."""
    p = parameters
    layer = nn.TransformerEncoderLayer(
        p.w_1.shape[1],
        num_heads,
        p.w_1.shape[0],
        dropout=0.0,
        activation=activation,
        norm_first=norm_first,
        batch_first=batch_first,
        dtype=p.w_1.dtype,
    )
    attention = torch_module(p.attention, num_heads).state_dict()
    numbers = {
        "linear1": (p.w_1, p.b_1),
        "linear2": (p.w_2, p.b_2),
        "norm1": (p.norm_1_weight, p.norm_1_bias),
        "norm2": (p.norm_2_weight, p.norm_2_bias),
    }
    rest = {
        f"{layer}.{kind}": tensor.detach()
        for layer, pair in numbers.items()
        for kind, tensor in zip(("weight", "bias"), pair, strict=True)
    }
    layer.load_state_dict({f"self_attn.{name}": tensor for name, tensor in attention.items()} | rest)
    return layer


def filled(module: Module, seed: int) -> Module:
    """The module with all of its parameters drawn anew: a fresh one hides what it does with biases and norms."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(100 * seed + place, *parameter.shape) / parameter.shape[-1] ** 0.5)
    return module


def generator(seed: int) -> torch.Generator:
    """Chance that begins at a seed."""
    return torch.Generator().manual_seed(seed)


class Recorder(TorchDispatchMode):
    """Which of PyTorch's operators ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))
