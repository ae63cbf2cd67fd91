"""What holds of every attention, whatever PyTorch says: properties that follow from the equation.

| property | why |
|---|---|
| rows sum to 1 | the softmax over keys |
| forbidden weights are 0 | exp(−∞) |
| a future token changes nothing before it, to the last bit | under a causal mask its weight there is 0 |
| permuting tokens permutes outputs | without a mask nothing knows a token's place |
| the context lies in the hull of v | it is a mean of values, with weights from 0 to 1 |
| a constant on a row of scores changes nothing | it cancels in the softmax |

Everything in float64.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from attention import masks, sample
from attention.bugs.pieces import RIGHT, Pieces, attend
from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace, draw

# numbers here are of about unit size; correct code is off by 1e-14
_CLOSE: Final = 1e-9
_DIRECTIONS: Final = 32
# on scores of about unit size; their exponentials overflow in float64, which a softmax must not mind
_CONSTANT: Final = 1000.0


@dataclass(frozen=True)
class Property:
    """One property: whether it holds, and by how much it is missed, which is 0 where it is exact.

    `off` is None where the scene cannot say: `found` then says why.
    """

    name: str
    holds: bool
    found: str
    off: float | None = None


@dataclass(frozen=True)
class _Scene:
    """A scene in float64, and how it is attended to."""

    tokens: Tensor
    allowed: Tensor
    run: Callable[..., AttentionTrace]
    trace: AttentionTrace


@torch.no_grad()
def properties(config: AttentionConfig, pieces: Pieces = RIGHT) -> tuple[Property, ...]:
    """The properties of a scene's attention, in the order of the table; its pieces are the right ones unless given."""
    tokens, parameters = draw(replace(config, dtype="float64"))
    allowed = masks.grid(masks.causal if config.causal else masks.full, config.num_tokens)

    def run(tokens: Tensor, allowed: Tensor, pieces: Pieces = pieces) -> AttentionTrace:
        return attend(tokens, parameters, config.num_heads, allowed, pieces)

    scene = _Scene(tokens, allowed, run, run(tokens, allowed))
    return (
        _rows_sum_to_one(scene),
        _forbidden_are_zero(scene),
        _future_changes_nothing(scene, config),
        _permuting_tokens(scene, config),
        _within_hull(scene, config),
        _constant_changes_nothing(scene, pieces),
    )


def _rows_sum_to_one(scene: _Scene) -> Property:
    off = (scene.trace.weights.sum(dim=-1) - scene.allowed.any(dim=-1).double()).abs()
    return _close("rows sum to 1", off, "a row's sum is off by up to")


def _forbidden_are_zero(scene: _Scene) -> Property:
    name = "forbidden weights are exactly 0"
    forbidden = scene.trace.weights.abs()[..., ~scene.allowed]
    if not forbidden.numel():
        return Property(name, True, "nothing is forbidden")
    largest = _largest(forbidden)
    return Property(name, largest == 0, f"the largest is {largest:.2g}", largest)


def _future_changes_nothing(scene: _Scene, config: AttentionConfig) -> Property:
    name = "a changed future token leaves earlier outputs as they were, to the last bit"
    last = config.num_tokens - 1
    if not config.causal or not last:
        return Property(name, True, "there is no mask" if not config.causal else "there is no earlier token")
    changed = scene.tokens.clone()
    changed[:, last] = 3 - changed[:, last]
    before, after = scene.trace.output[:, :last], scene.run(changed, scene.allowed).output[:, :last]
    moved = int((before != after).any(dim=-1).sum())
    what = f"of {last} earlier outputs {moved} changed when token {last} did"
    return Property(name, moved == 0, what, _largest(before - after))


def _permuting_tokens(scene: _Scene, config: AttentionConfig) -> Property:
    name = "without a mask, permuting tokens permutes the outputs"
    if config.num_tokens == 1:
        return Property(name, True, "there is one token")
    order = torch.randperm(config.num_tokens, generator=sample.generator("an order of tokens", config.seed))
    order = order.roll(1) if torch.equal(order, order.sort().values) else order  # an order that changes something
    full = torch.ones_like(scene.allowed)
    permuted = scene.run(scene.tokens[:, order], full).output
    off = permuted - scene.run(scene.tokens, full).output[:, order]
    return _close(name, off, "outputs are off by up to")


def _within_hull(scene: _Scene, config: AttentionConfig) -> Property:
    """In every direction, no context reaches further than the value that reaches furthest."""
    trace, width = scene.trace, scene.trace.v.shape[-1]
    drawn = torch.randn(
        width, _DIRECTIONS, generator=sample.generator("directions", config.seed), dtype=torch.float32
    ).double()
    directions = torch.cat([torch.eye(width, dtype=torch.float64), drawn / drawn.norm(dim=0)], dim=1)
    # of right attention v is what is mixed; where another is, its own hull would hide that
    reach = trace.v @ directions  # (B, H, S, directions)
    # one query after the other: all at once would be the largest thing here by far
    furthest = [reach[..., may, :].amax(dim=-2) for may in scene.allowed]  # T of (B, H, directions)
    beyond = (trace.context @ directions - torch.stack(furthest, dim=-2)).clamp_min(0)
    return _close("every context lies in the hull of the values that its query may see", beyond, "beyond it by up to")


def _constant_changes_nothing(scene: _Scene, pieces: Pieces) -> Property:
    num_tokens = len(scene.allowed)
    constants = torch.linspace(-_CONSTANT, _CONSTANT, num_tokens, dtype=torch.float64)[:, None]  # one for each row
    shifted = replace(pieces, scale=lambda *given: pieces.scale(*given) + constants)
    off = scene.run(scene.tokens, scene.allowed, shifted).weights - scene.trace.weights
    name = f"a constant (up to ±{_CONSTANT:g}) on a row of scaled scores changes nothing"
    return _close(name, off, "weights are off by up to")


def _close(name: str, off: Tensor, what: str) -> Property:
    largest = _largest(off)
    return Property(name, largest <= _CLOSE, f"{what} {largest:.2g}", largest)


def _largest(off: Tensor) -> float:
    """The largest size; infinite where a number is none."""
    if not off.numel():
        return 0.0
    return torch.where(off.isnan(), torch.inf, off.abs()).max().item()


def broken(found: tuple[Property, ...]) -> Iterator[Property]:
    """Those that do not hold."""
    return (one for one in found if not one.holds)
