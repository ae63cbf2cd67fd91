"""The verdict on one head, whose widths are free: `single_head.SelfAttention` against PyTorch."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from attention import masks, reference, sample
from attention.compare import Check, Tolerance
from attention.config import AttentionConfig, check_whole
from attention.multi_head import allowed_by
from attention.sample import HeadWeights
from attention.single_head import HeadTrace, SelfAttention
from attention.verify import ARITHMETIC, MATHS, Report, Sides, Verdict, report

MAX_WIDTH = 1024


@dataclass(frozen=True)
class HeadConfig:
    """A scene of one head: that of the config, whose head count is not asked, with widths of its own.

    With trained weights it is that head of their layer, whose widths it has.

    Raises:
        ValueError: a width is no whole number from 1 to 1024, or there is no such head, or it is of another width.
    """

    scene: AttentionConfig
    head_dim: int
    value_dim: int
    head: int = 0

    def __post_init__(self) -> None:
        layer = self.scene.trained
        check_whole("head", self.head, 0, layer.heads - 1 if layer else 0)
        check_whole("head_dim", self.head_dim, 1, MAX_WIDTH)
        check_whole("value_dim", self.value_dim, 1, MAX_WIDTH)
        if layer and not self.head_dim == self.value_dim == layer.head_dim:
            raise ValueError(
                f"head_dim is {self.head_dim} and value_dim {self.value_dim}; the heads of {layer.name} are "
                f"{layer.head_dim} wide."
            )


def draw(config: HeadConfig) -> tuple[Tensor, HeadWeights]:
    """The tokens and weights of a scene."""
    weights = sample.draw_head(config.scene, config.head_dim, config.value_dim, config.head)
    return sample.draw_tokens(config.scene), weights


@torch.no_grad()
def attend_as_configured(config: HeadConfig, dtype: torch.dtype | None = None) -> HeadTrace:
    """The trace of a scene, in its own dtype or another."""
    tokens, weights = draw(config)
    return _ours(tokens, weights, allowed_by(config.scene), dtype or config.scene.torch_dtype)


@torch.no_grad()
def verify_head(config: HeadConfig, tolerance: Tolerance | None = None, ours: HeadTrace | None = None) -> Verdict:
    """Check a scene of one head against PyTorch, in float64 and in its own dtype."""
    tokens, weights = draw(config)
    allowed = allowed_by(config.scene)

    def exact() -> tuple[HeadTrace, HeadTrace]:
        wide = tokens.double(), {name: weight.double() for name, weight in weights.items()}
        return _ours(*wide, allowed, torch.float64), reference.attend_one(*wide, allowed)

    ours = ours or _ours(tokens, weights, allowed, tokens.dtype)
    sides = Sides(ours, reference.attend_one(tokens, weights, allowed), exact)
    return sides.judge(tolerance or ARITHMETIC[config.scene.dtype], probe())


@cache
@torch.no_grad()
def probe() -> Report:
    """Two fixed scenes that hide nothing, in float64: every size another prime, biases, sharp weights, a causal mask.

    In the second, scores are so large that their exponentials overflow, and one query may attend to nothing.
    """
    embed_dim, head_dim, value_dim, num_tokens = 11, 5, 3, 7
    scene = AttentionConfig(embed_dim=embed_dim, num_heads=1, num_tokens=num_tokens, seed=11)
    tokens = sample.draw_tokens(scene).double()
    drawn = {name: weight.double() for name, weight in sample.draw_head(scene, head_dim, value_dim).items()}
    weights = drawn | {name.replace("weight", "bias"): weight[:, 0] for name, weight in drawn.items()}
    causal = masks.grid(masks.causal, num_tokens)
    with_empty_row = causal.clone()
    with_empty_row[2] = False
    checks: list[Check] = []
    for loudness, allowed in ((3, causal), (60, with_empty_row)):
        ours = _ours(loudness * tokens, weights, allowed, torch.float64)
        checks += report(ours, reference.attend_one(loudness * tokens, weights, allowed), MATHS).checks
    return Report(tuple(checks))


def _ours(tokens: Tensor, weights: HeadWeights, allowed: Tensor | None, dtype: torch.dtype) -> HeadTrace:
    """The module itself, holding these weights; built on the meta device, as it would draw its own otherwise."""
    w = {name: weight.to(dtype) for name, weight in weights.items()}
    with torch.device("meta"):
        (head_dim, embed_dim), value_dim = w["w_q.weight"].shape, len(w["w_v.weight"])
        module = SelfAttention(embed_dim, head_dim, value_dim, bias="w_q.bias" in w)
    module.load_state_dict(w, assign=True)
    return module.trace(tokens.to(dtype), allowed)
