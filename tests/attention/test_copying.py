"""Weights from any form to any other: every number arrives, and what does not fit is refused, with nothing changed."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attention.block import TransformerBlock
from attention.copying import read, write
from attention.ladder import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from attention.multi_head import attend
from attention.sample import AttentionParameters, BlockParameters
from tests.attention.scenes import filled, normal, random_block, random_parameters, torch_layer, torch_module

EMBED_DIM, HEADS, CONTEXT, HIDDEN = 15, 3, 7, 11
Make = Callable[[], nn.Module]

ATTENTIONS: dict[str, Make] = {
    "list": lambda: MultiHeadAttentionWrapper(EMBED_DIM, EMBED_DIM // HEADS, CONTEXT, 0.0, HEADS, True).double(),
    "packed": lambda: MultiHeadAttention(EMBED_DIM, EMBED_DIM, CONTEXT, 0.0, HEADS, True).double(),
    "PyTorch": lambda: nn.MultiheadAttention(EMBED_DIM, HEADS, dtype=torch.float64),
}
BLOCKS: dict[str, Make] = {
    "block": lambda: TransformerBlock(EMBED_DIM, HEADS, feed_forward_dim=HIDDEN).double(),
    "PyTorch": lambda: nn.TransformerEncoderLayer(EMBED_DIM, HEADS, HIDDEN, dtype=torch.float64),
}


def numbers(parameters: AttentionParameters | BlockParameters) -> dict[str, Tensor]:
    """Every tensor by its name, those of an attention within among them."""
    found = {f.name: getattr(parameters, f.name) for f in fields(parameters)}
    attention = found.pop("attention", None)
    return found | (numbers(attention) if attention else {})


def assert_equal(one: AttentionParameters | BlockParameters, other: AttentionParameters | BlockParameters) -> None:
    assert numbers(one).keys() == numbers(other).keys()
    for name, tensor in numbers(one).items():
        assert torch.equal(tensor, numbers(other)[name]), name


@pytest.mark.parametrize("form", ATTENTIONS)
def test_what_is_written_is_what_is_read(form: str) -> None:
    parameters = random_parameters(1, EMBED_DIM)
    module = ATTENTIONS[form]()
    write(module, parameters)
    assert_equal(read(module), parameters)
    assert len({tuple(x.flatten()[:3].tolist()) for x in numbers(parameters).values()}) == 8  # a swap would show


@pytest.mark.parametrize("form", BLOCKS)
def test_what_is_written_to_a_block_is_what_is_read(form: str) -> None:
    parameters = random_block(1, EMBED_DIM, HIDDEN)
    module = BLOCKS[form]()
    write(module, parameters)
    assert_equal(read(module), parameters)


@pytest.mark.parametrize("source", ATTENTIONS)
@pytest.mark.parametrize("target", ATTENTIONS)
def test_every_form_to_every_other(source: str, target: str) -> None:
    one, other = filled(ATTENTIONS[source](), 2), ATTENTIONS[target]()
    write(other, read(one))
    assert_equal(read(other), read(one))
    # and what was read is what PyTorch's own names say
    state = torch_module(read(one), HEADS).state_dict()
    write(theirs := ATTENTIONS["PyTorch"](), read(one))
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, state[name]), name


@pytest.mark.parametrize("source", BLOCKS)
@pytest.mark.parametrize("target", BLOCKS)
def test_every_block_to_every_other(source: str, target: str) -> None:
    one, other = filled(BLOCKS[source](), 2), BLOCKS[target]()
    write(other, read(one))
    assert_equal(read(other), read(one))
    state = torch_layer(read(one), HEADS, norm_first=False, activation="relu").state_dict()
    write(theirs := BLOCKS["PyTorch"](), read(one))
    assert theirs.state_dict().keys() == state.keys()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, state[name]), name


@pytest.mark.parametrize("make", [*ATTENTIONS.values(), *BLOCKS.values()])
def test_what_is_read_is_a_copy(make: Make) -> None:
    module = filled(make(), 3)
    taken = read(module)
    kept = {name: tensor.clone() for name, tensor in numbers(taken).items()}
    assert not any(tensor.requires_grad for tensor in numbers(taken).values())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    for name, tensor in numbers(taken).items():
        assert torch.equal(tensor, kept[name]), name
    write(module, taken)
    for tensor in numbers(taken).values():
        tensor.zero_()
    assert all(parameter.ne(0).any() for parameter in module.parameters())
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_a_bias_that_is_not_there_is_zeros() -> None:
    plain = filled(MultiHeadAttention(EMBED_DIM, EMBED_DIM, CONTEXT, 0.0, HEADS).double(), 4)
    listed = filled(MultiHeadAttentionWrapper(EMBED_DIM, 5, CONTEXT, 0.0, HEADS).double(), 4)
    theirs = filled(nn.MultiheadAttention(EMBED_DIM, HEADS, bias=False, dtype=torch.float64), 4)
    for module, dropped in ((plain, "qkv"), (listed, "qkv"), (theirs, "qkvo")):
        parameters = read(module)
        for name in "qkvo":
            bias = getattr(parameters, f"b_{name}")
            assert (bias.shape, bias.dtype) == ((EMBED_DIM,), torch.float64)
            assert bias.eq(0).all().item() == (name in dropped)
        write(other := ATTENTIONS["packed"](), parameters)
        assert_equal(read(other), parameters)
        if module is not theirs:
            write(module, parameters)  # zeros need no place


def test_one_head_is_read_as_if_the_identity_came_after_it() -> None:
    module = filled(CausalAttention(EMBED_DIM, 5, CONTEXT, 0.0, qkv_bias=True).double(), 5)
    parameters, x = read(module), normal(6, 2, CONTEXT, EMBED_DIM)
    assert torch.equal(parameters.w_o, torch.eye(5, dtype=torch.float64))
    assert parameters.b_o.eq(0).all()
    assert_close(attend(x, parameters, 1, module.allowed(x)).output, module(x))
    other = CausalAttention(EMBED_DIM, 5, CONTEXT, 0.0, qkv_bias=True).double()
    write(other, parameters)
    assert torch.equal(other(x), module(x))
    write(whole := MultiHeadAttention(EMBED_DIM, 5, CONTEXT, 0.0, 1, True).double(), parameters)
    assert_close(whole(x), module(x))


def test_numbers_are_rounded_to_the_targets_dtype() -> None:
    # R08
    parameters = random_parameters(1, EMBED_DIM)
    module = ATTENTIONS["packed"]().to(torch.bfloat16)
    write(module, parameters)
    assert_equal(read(module), parameters.to(torch.bfloat16))


def test_masks_and_lengths_are_left_alone() -> None:
    # S14: a longer or shorter context takes the same weights
    target = MultiHeadAttention(EMBED_DIM, EMBED_DIM, 3, 0.0, HEADS, True).double()
    write(target, random_parameters(1, EMBED_DIM))
    assert torch.equal(target.mask, torch.ones(3, 3).triu(1).double())
    wrapper = MultiHeadAttentionWrapper(EMBED_DIM, 5, 3, 0.0, HEADS, True).double()
    write(wrapper, random_parameters(1, EMBED_DIM))
    assert all(torch.equal(head.mask, target.mask) for head in wrapper.each_head())


RIGHT = random_parameters(1, EMBED_DIM)
BLOCK = random_block(1, EMBED_DIM, HIDDEN)
THIN = random_parameters(1, EMBED_DIM - 1)
NARROW = replace(RIGHT, **{name: normal(0, EMBED_DIM, EMBED_DIM - 1) for name in ("w_q", "w_k", "w_v")})


@pytest.mark.parametrize(
    ("target", "parameters", "said"),
    [
        (ATTENTIONS["packed"](), THIN, "W_query.weight is (14, 14); the target takes (15, 15)."),
        (ATTENTIONS["PyTorch"](), THIN, "in_proj_weight is (42, 14); the target takes (45, 15)."),
        (ATTENTIONS["list"](), THIN, "14 rows of weights do not divide into 3 heads."),
        (ATTENTIONS["list"](), random_parameters(1, 12), "is (12, 12); the target takes (15, 15)."),
        (ATTENTIONS["packed"](), NARROW, "W_query.weight is (15, 14); the target takes (15, 15)."),
        (
            MultiHeadAttention(EMBED_DIM, EMBED_DIM, CONTEXT, 0.0, HEADS),
            RIGHT,
            "W_query.bias holds numbers, and the target has no place for them.",
        ),
        (
            nn.MultiheadAttention(EMBED_DIM, HEADS, bias=False),
            RIGHT,
            "in_proj_bias holds numbers, and the target has no place for them.",
        ),
        (CausalAttention(EMBED_DIM, EMBED_DIM, CONTEXT, 0.0, True), RIGHT, "a CausalAttention has no projection out"),
        (
            CausalAttention(EMBED_DIM, EMBED_DIM, CONTEXT, 0.0, True),
            replace(RIGHT, b_o=torch.zeros(EMBED_DIM, dtype=torch.float64)),  # but its weight is not the identity
            "a CausalAttention has no projection out",
        ),
        (
            CausalAttention(EMBED_DIM, EMBED_DIM, CONTEXT, 0.0, True),
            replace(RIGHT, w_o=torch.eye(EMBED_DIM, dtype=torch.float64)),  # but its bias is not zero
            "a CausalAttention has no projection out",
        ),
        (
            nn.MultiheadAttention(EMBED_DIM, HEADS, add_bias_kv=True),
            RIGHT,
            "with kdim, vdim, add_bias_kv or add_zero_attn is another",
        ),
        (
            nn.MultiheadAttention(EMBED_DIM, HEADS, kdim=7, vdim=7),
            RIGHT,
            "with kdim, vdim, add_bias_kv or add_zero_attn is another",
        ),
        (BLOCKS["block"](), random_block(1, EMBED_DIM, 10), "w_1.weight is (10, 15); the target takes (11, 15)."),
        (BLOCKS["PyTorch"](), random_block(1, EMBED_DIM, 10), "linear1.weight is (10, 15); the target takes (11, 15)."),
        (nn.TransformerEncoderLayer(EMBED_DIM, HEADS, HIDDEN, bias=False), BLOCK, "has no place for them."),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_changed(target: nn.Module, parameters: Any, said: str) -> None:
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}
    with pytest.raises(ValueError, match=re.escape(said)):
        write(target, parameters)
    for name, tensor in target.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("other", [{"kdim": 7, "vdim": 7}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_another_attention_is_not_read(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is another attention"):
        read(nn.MultiheadAttention(EMBED_DIM, HEADS, **other))


def test_a_layer_without_biases_is_not_read() -> None:
    with pytest.raises(ValueError, match="bias=False"):
        read(nn.TransformerEncoderLayer(EMBED_DIM, HEADS, HIDDEN, bias=False))


def test_what_is_none_of_the_forms_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="weights cannot be read from Linear"):
        read(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="weights cannot be written to Linear"):
        write(nn.Linear(2, 2), RIGHT)


def test_scales_differ_where_modules_begin_and_weights_are_copied() -> None:
    # R10: Xavier on the packed matrix, bound √(6 / 4E), is not what three layers of their own begin with
    theirs = nn.MultiheadAttention(256, 4, batch_first=True)
    ours = MultiHeadAttention(256, 256, 5, 0.0, 4, qkv_bias=True)
    assert theirs.in_proj_weight.abs().max().item() == pytest.approx(0.0765, abs=1e-3)
    assert ours.W_query.weight.abs().max().item() == pytest.approx(1 / 16, abs=1e-3)  # nn.Linear: 1/√E
    write(ours, read(theirs))
    assert ours.W_query.weight.abs().max() > 0.07
    x = normal(0, 2, 5, 256, dtype=torch.float32)
    blocked = torch.ones(5, 5).triu(1).bool()
    assert_close(ours(x), theirs(x, x, x, attn_mask=blocked)[0])


def test_an_attention_with_an_extra_key_of_zeros_is_no_target() -> None:
    with pytest.raises(ValueError, match="add_zero_attn is another attention"):
        write(nn.MultiheadAttention(EMBED_DIM, HEADS, add_zero_attn=True), RIGHT)


def test_a_layer_with_another_eps_is_another_block() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, layer_norm_eps=0.1)
    with pytest.raises(ValueError, match=re.escape("eps 0.1; a block here has 1e-05")):
        read(layer)
