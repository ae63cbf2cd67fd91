"""Copies weights between forms of the same thing: `write(target, read(source))`.

What is no weight is not copied: how many heads there are, where the norms stand, the activation, dropout.

`read` takes the parameters out of any form, `write` puts them into any form; what lies between is
`AttentionParameters` (or `BlockParameters`), so that every pair is covered by one function each way.

| form | how it holds them |
|---|---|
| `CausalAttention` | one head, no projection out: as if that were the identity |
| `MultiHeadAttentionWrapper` | a list of heads, each with its own three projections |
| `MultiHeadAttention` | three packed projections and one out |
| `nn.MultiheadAttention` | q, k and v in one `in_proj_weight`, and `out_proj` |
| `TransformerBlock` | `BlockParameters`, name by name |
| `nn.TransformerEncoderLayer` | `self_attn`, `linear1`, `linear2`, `norm1`, `norm2` |
"""

from dataclasses import fields
from functools import singledispatch
from typing import Any, Final

import torch
from torch import Tensor, nn

from attention.block import TransformerBlock
from attention.ladder import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, packed_parameters, zeros
from attention.layer_norm import EPS
from attention.sample import AttentionParameters, BlockParameters

Parameters = AttentionParameters | BlockParameters

_LAYER: Final = {"norm_1": "norm1", "norm_2": "norm2", "1": "linear1", "2": "linear2"}


@singledispatch
def read(source: Any) -> Any:
    """The parameters of any of the forms, as copies; a bias that is not there is zeros.

    Raises:
        TypeError: it is none of the forms.
        ValueError: an `nn.MultiheadAttention` with other widths for keys or values, or extra keys; an
            `nn.TransformerEncoderLayer` without biases.
    """
    raise TypeError(f"weights cannot be read from {type(source).__name__}; it is none of the forms of attention here.")


@read.register
def _(source: CausalAttention) -> AttentionParameters:
    identity = torch.eye(len(source.W_query.weight), dtype=source.W_query.weight.dtype)
    layers = source.W_query, source.W_key, source.W_value
    q, k, v = ((_copy(x.weight), _copy(zeros(x) if x.bias is None else x.bias)) for x in layers)
    return AttentionParameters(*q, *k, *v, identity, zeros(source.W_query))


@read.register
def _(source: MultiHeadAttentionWrapper) -> AttentionParameters:
    heads = [read(head) for head in source.each_head()]
    stacked = (torch.cat([getattr(head, f.name) for head in heads]) for f in fields(AttentionParameters)[:6])
    out = _copy(source.out_proj.weight), _copy(source.out_proj.bias)
    return AttentionParameters(*(*stacked, *out))


@read.register
def _(source: MultiHeadAttention) -> AttentionParameters:
    held = packed_parameters(source)
    return AttentionParameters(*(_copy(getattr(held, f.name)) for f in fields(held)))


@read.register
def _(source: nn.MultiheadAttention) -> AttentionParameters:
    _check_plain(source)
    out = source.out_proj
    no_bias = zeros(out)
    biases = [no_bias] * 3 if source.in_proj_bias is None else source.in_proj_bias.chunk(3)
    q, k, v = ((_copy(w), _copy(b)) for w, b in zip(source.in_proj_weight.chunk(3), biases, strict=True))
    return AttentionParameters(*q, *k, *v, _copy(out.weight), _copy(no_bias if out.bias is None else out.bias))


@read.register
def _(source: TransformerBlock) -> BlockParameters:
    held = source.held()
    attention = AttentionParameters(*(_copy(getattr(held.attention, f.name)) for f in fields(held.attention)))
    return BlockParameters(attention, *(_copy(getattr(held, f.name)) for f in fields(held)[1:]))


@read.register
def _(source: nn.TransformerEncoderLayer) -> BlockParameters:
    if source.linear1.bias is None:
        raise ValueError("an nn.TransformerEncoderLayer with bias=False has not the parameters of a block here.")
    _check_eps(source)
    state = source.state_dict()
    rest = {name: _copy(state[place]) for name, place in _places_in_layer().items()}
    return BlockParameters(read(source.self_attn), **rest)


@singledispatch
def write(target: Any, parameters: Any) -> None:
    """Put parameters into any of the forms; numbers are rounded to the target's dtype.

    Raises:
        TypeError: the target is none of the forms.
        ValueError: they do not fit: other sizes, or numbers for which the target has no place (a bias, or
            a projection out). Nothing is changed then.
    """
    raise TypeError(f"weights cannot be written to {type(target).__name__}; it is none of the forms of attention here.")


@write.register
def _(target: CausalAttention, parameters: AttentionParameters) -> None:
    identity = torch.eye(len(parameters.w_o), dtype=parameters.w_o.dtype)
    if not torch.equal(parameters.w_o, identity) or parameters.b_o.any():
        raise ValueError("a CausalAttention has no projection out; only parameters whose w_o is the identity fit.")
    _load(target, _rows(parameters, slice(None), ""))


@write.register
def _(target: MultiHeadAttentionWrapper, parameters: AttentionParameters) -> None:
    count, total = len(target.heads), len(parameters.w_q)
    if total % count:
        raise ValueError(f"{total} rows of weights do not divide into {count} heads.")
    width = total // count
    state = {"out_proj.weight": parameters.w_o, "out_proj.bias": parameters.b_o}
    for head in range(count):
        state |= _rows(parameters, slice(head * width, (head + 1) * width), f"heads.{head}.")
    _load(target, state)


@write.register
def _(target: MultiHeadAttention, parameters: AttentionParameters) -> None:
    out = {"out_proj.weight": parameters.w_o, "out_proj.bias": parameters.b_o}
    _load(target, _rows(parameters, slice(None), "") | out)


@write.register
def _(target: nn.MultiheadAttention, parameters: AttentionParameters) -> None:
    _check_plain(target)
    _load(target, _packed(parameters))


@write.register
def _(target: TransformerBlock, parameters: BlockParameters) -> None:
    rest = {_in_module(f.name): getattr(parameters, f.name) for f in fields(parameters)[1:]}
    attention = {_in_module(f.name): getattr(parameters.attention, f.name) for f in fields(parameters.attention)}
    _load(target, attention | rest)


@write.register
def _(target: nn.TransformerEncoderLayer, parameters: BlockParameters) -> None:
    _check_eps(target)
    attention = {f"self_attn.{name}": tensor for name, tensor in _packed(parameters.attention).items()}
    _load(target, attention | {place: getattr(parameters, name) for name, place in _places_in_layer().items()})


def _check_plain(module: nn.MultiheadAttention) -> None:
    if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
        raise ValueError("an nn.MultiheadAttention with kdim, vdim, add_bias_kv or add_zero_attn is another attention.")


def _check_eps(layer: nn.TransformerEncoderLayer) -> None:
    for norm in (layer.norm1, layer.norm2):
        if norm.eps != EPS:
            raise ValueError(f"the layer's norms have eps {norm.eps:g}; a block here has {EPS:g}, always.")


def _rows(p: AttentionParameters, rows: slice, start: str) -> dict[str, Tensor]:
    """Rows of the projections, under the names that a head has for them."""
    return {
        f"{start}W_{name}.{kind}": getattr(p, f"{kind[0]}_{name[0]}")[rows]
        for name in ("query", "key", "value")
        for kind in ("weight", "bias")
    }


def _packed(p: AttentionParameters) -> dict[str, Tensor]:
    """The names and the packing of `nn.MultiheadAttention`."""
    return {
        "in_proj_weight": torch.cat([p.w_q, p.w_k, p.w_v]),
        "in_proj_bias": torch.cat([p.b_q, p.b_k, p.b_v]),
        "out_proj.weight": p.w_o,
        "out_proj.bias": p.b_o,
    }


def _in_module(name: str) -> str:
    """The place of `w_1` or `norm_1_bias` in a module: `w_1.weight`, `norm_1.bias`."""
    if name.startswith("norm"):
        layer, kind = name.rsplit("_", 1)
        return f"{layer}.{kind}"
    return f"w{name[1:]}.{'weight' if name[0] == 'w' else 'bias'}"


def _places_in_layer() -> dict[str, str]:
    """Where `nn.TransformerEncoderLayer` has what does not belong to its attention."""
    places = {}
    for field in fields(BlockParameters)[1:]:
        layer, kind = _in_module(field.name).split(".")
        places[field.name] = f"{_LAYER[layer.removeprefix('w_')]}.{kind}"
    return places


def _load(target: nn.Module, state: dict[str, Tensor]) -> None:
    """Check everything, then copy: a half-written module would be worse than none."""
    places = {name: tensor for name, tensor in target.state_dict().items() if not name.endswith("mask")}
    if strange := places.keys() - state.keys():
        raise ValueError(f"the target holds {', '.join(sorted(strange))}: it is another attention.")
    for name, tensor in state.items():
        if name not in places:
            if tensor.any():
                raise ValueError(f"{name} holds numbers, and the target has no place for them.")
        elif places[name].shape != tensor.shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}; the target takes {tuple(places[name].shape)}.")
    with torch.no_grad():
        for name, place in places.items():
            place.copy_(state[name])


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()
