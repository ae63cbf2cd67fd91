"""PyTorch's own answer for every step of a transformer block, on the same numbers.

Nothing here is shared with what it checks. Every option of `nn.TransformerEncoderLayer` is set, since
its defaults are others (ReLU, a width of 2048, dropout 0.1), and the mask is always handed over:
`is_causal=True` alone raises, or in eval mode without gradients masks nothing.

The layer has two paths. With `batch_first=False` it keeps to the ordinary one, and that is the reference. In
eval mode, without gradients, with `batch_first=True` and an even number of heads it takes a fused one,
`torch._transformer_encoder_layer_fwd`; `fused_output` gives what that says.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention import reference
from attention.block import BlockTrace
from attention.layer_norm import EPS
from attention.sample import BlockParameters


def run_block(
    x: Float[Tensor, "B T E"],
    parameters: BlockParameters,
    num_heads: int,
    allowed: Bool[Tensor, "T T"] | None = None,
    *,
    norm_first: bool = False,
    activation: str = "gelu",
) -> BlockTrace:
    """The steps of `block.run_block`, each by the PyTorch call that stands for it.

    | step | call |
    |---|---|
    | attention | `reference.attend` |
    | norm_1, norm_2 | `nn.LayerNorm` |
    | hidden, fed | `nn.Linear` |
    | activated | `F.gelu` or `F.relu` |
    | the last one | `nn.TransformerEncoderLayer` as a whole |
    """
    layer = as_layer(parameters, num_heads, norm_first=norm_first, activation=activation)

    def feed(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = layer.linear1(tokens)
        activated = layer.activation(hidden)
        return hidden, activated, layer.linear2(activated)

    norm_1 = layer.norm1(x) if norm_first else None
    attention = reference.attend_with(layer.self_attn, x if norm_1 is None else norm_1, allowed)
    sum_1 = torch.add(x, attention.output)
    output = layer(x.transpose(0, 1), src_mask=_blocked(allowed, x)).transpose(0, 1)
    if norm_1 is None:
        norm_1 = layer.norm1(sum_1)
        hidden, activated, fed = feed(norm_1)
        sum_2, norm_2 = torch.add(norm_1, fed), output
    else:
        norm_2 = layer.norm2(sum_1)
        hidden, activated, fed = feed(norm_2)
        sum_2 = output
    return BlockTrace(norm_first, x, attention, sum_1, norm_1, hidden, activated, fed, sum_2, norm_2)


@torch.no_grad()
def fused_output(
    x: Float[Tensor, "B T E"],
    parameters: BlockParameters,
    num_heads: int,
    allowed: Bool[Tensor, "T T"] | None = None,
    *,
    norm_first: bool = False,
    activation: str = "gelu",
) -> Float[Tensor, "B T E"]:
    """What the layer says as people use it for inference. With an odd number of heads that is the ordinary path too."""
    layer = as_layer(parameters, num_heads, norm_first=norm_first, activation=activation, batch_first=True)
    output: Tensor = layer(x, src_mask=_blocked(allowed, x))
    return output


def as_layer(
    parameters: BlockParameters, num_heads: int, *, norm_first: bool, activation: str, batch_first: bool = False
) -> nn.TransformerEncoderLayer:
    """`nn.TransformerEncoderLayer` in eval mode, holding these very parameters.

    Built on the meta device: the usual constructor draws from the global random state.
    """
    p = parameters
    hidden, embed_dim = p.w_1.shape
    layer = nn.TransformerEncoderLayer(
        embed_dim,
        num_heads,
        dim_feedforward=hidden,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=EPS,
        batch_first=batch_first,
        norm_first=norm_first,
        bias=True,
        device="meta",
        dtype=p.w_1.dtype,
    ).eval()
    attention = reference.as_module(p.attention, num_heads).state_dict()
    layer.load_state_dict(
        {
            **{f"self_attn.{name}": tensor for name, tensor in attention.items()},
            "linear1.weight": p.w_1,
            "linear1.bias": p.b_1,
            "linear2.weight": p.w_2,
            "linear2.bias": p.b_2,
            "norm1.weight": p.norm_1_weight,
            "norm1.bias": p.norm_1_bias,
            "norm2.weight": p.norm_2_weight,
            "norm2.bias": p.norm_2_bias,
        },
        assign=True,
    )
    return layer


def _blocked(allowed: Tensor | None, x: Tensor) -> Tensor:
    """The mask as the layer means it: True = blocked."""
    num_tokens = x.shape[1]
    return torch.zeros(num_tokens, num_tokens, dtype=torch.bool) if allowed is None else ~allowed
