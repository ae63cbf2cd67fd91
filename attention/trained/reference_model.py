"""PyTorch's own answer for every step of a trained model, on the same numbers.

Nothing of what it computes with is shared with what it checks.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from attention import reference, reference_block
from attention.block import BlockTrace
from attention.layer_norm import EPS
from attention.trained.model import ACTIVATION, AttentionLayerTrace, Model


def embed(model: Model, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
    """Tokens and positions by `F.embedding`."""
    p, positions = model.parameters, torch.arange(tokens.shape[1])
    return torch.add(F.embedding(tokens, p["tokens"]), F.embedding(positions, p["positions"]))


def run_layer(model: Model, index: int, x: Float[Tensor, "B T E"]) -> AttentionLayerTrace | BlockTrace:
    """A block by `reference_block.run_block`; without feed-forward `F.layer_norm`, `reference.attend`, `torch.add`."""
    config, num_tokens = model.config, x.shape[1]
    attention, norm, block = model.layer(index)
    allowed = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    allowed = allowed.tril() if config.causal else allowed
    if block is not None:
        return reference_block.run_block(x, block, config.heads, allowed, norm_first=True, activation=ACTIVATION)
    norm_1 = F.layer_norm(x, (config.width,), *norm, eps=EPS)
    answer = reference.attend(norm_1, attention, config.heads, allowed)
    return AttentionLayerTrace(x, norm_1, answer, torch.add(x, answer.output))


def unembed(model: Model, x: Float[Tensor, "B T E"]) -> Float[Tensor, "B T V"]:
    """The logits by `F.linear`."""
    return F.linear(x, model.parameters["unembed.w"], model.parameters["unembed.b"])
