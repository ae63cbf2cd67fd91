"""The three rungs: the book's names and numbers, and the same answer and gradients as `nn.MultiheadAttention`."""

import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attention import masks
from attention.copying import read, write
from attention.ladder import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from tests.attention.scenes import DTYPES, filled, generator, normal

# every size another prime, but for the number of heads
D_IN, HEADS, WIDTH, CONTEXT, BATCH, TOKENS = 7, 3, 5, 11, 2, 6
State = dict[str, Tensor]
Rung = CausalAttention | MultiHeadAttentionWrapper | MultiHeadAttention


def one_head(dropout: float = 0.0, qkv_bias: bool = False, context_length: int = CONTEXT) -> CausalAttention:
    return filled(CausalAttention(D_IN, WIDTH, context_length, dropout, qkv_bias).double(), 1)


def side_by_side(
    dropout: float = 0.0, qkv_bias: bool = False, context_length: int = CONTEXT
) -> MultiHeadAttentionWrapper:
    return filled(MultiHeadAttentionWrapper(D_IN, WIDTH, context_length, dropout, HEADS, qkv_bias).double(), 1)


def packed(dropout: float = 0.0, qkv_bias: bool = False, context_length: int = CONTEXT) -> MultiHeadAttention:
    return filled(MultiHeadAttention(D_IN, HEADS * WIDTH, context_length, dropout, HEADS, qkv_bias).double(), 1)


RUNGS: list[Callable[..., Rung]] = [one_head, side_by_side, packed]


def by_the_book(state: State, x: Tensor, start: str, columns: slice) -> Tensor:
    """One head of the book's equations, token after token, from the numbers of a checkpoint alone.

    `columns` says which outputs of the projections are the head's.
    """
    projected = []
    for name in ("query", "key", "value"):
        projected.append(torch.einsum("bte,de->btd", x, state[f"{start}W_{name}.weight"][columns]))
        if f"{start}W_{name}.bias" in state:
            projected[-1] += state[f"{start}W_{name}.bias"][columns]
    q, k, v = projected
    contexts = []
    for t in range(x.shape[1]):
        unmasked = [s for s in range(x.shape[1]) if state[f"{start}mask"][t, s] == 0]
        scores = (q[:, t, None] * k[:, unmasked]).sum(-1)
        exponentials = torch.exp(scores / math.sqrt(q.shape[-1]))
        weights = exponentials / exponentials.sum(-1, keepdim=True)
        contexts.append((weights[..., None] * v[:, unmasked]).sum(1))
    return torch.stack(contexts, dim=1)


def checkpoint(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> State:
    """Numbers under these names; the mask is the book's: 1 above the diagonal."""
    return {
        name: torch.triu(torch.ones(shape, dtype=torch.float64), 1)
        if name.endswith("mask")
        else normal(100 * seed + place, *shape) / shape[-1] ** 0.5
        for place, (name, shape) in enumerate(shapes.items())
    }


def head_shapes(start: str, width: int, qkv_bias: bool) -> dict[str, tuple[int, ...]]:
    """What the book's classes keep for projections to `width` numbers."""
    shapes: dict[str, tuple[int, ...]] = {f"{start}mask": (CONTEXT, CONTEXT)}
    for name in ("W_query", "W_key", "W_value"):
        shapes[f"{start}{name}.weight"] = (width, D_IN)
        if qkv_bias:
            shapes[f"{start}{name}.bias"] = (width,)
    return shapes


OUT: dict[str, tuple[int, ...]] = {"out_proj.weight": (HEADS * WIDTH, HEADS * WIDTH), "out_proj.bias": (HEADS * WIDTH,)}


@pytest.mark.parametrize("qkv_bias", [False, True])
def test_names_and_shapes_are_those_of_the_book(qkv_bias: bool) -> None:
    each = {k: v for head in range(HEADS) for k, v in head_shapes(f"heads.{head}.", WIDTH, qkv_bias).items()}
    expected = {
        one_head: head_shapes("", WIDTH, qkv_bias),
        side_by_side: each | OUT,
        packed: head_shapes("", HEADS * WIDTH, qkv_bias) | OUT,
    }
    for make, shapes in expected.items():
        state = make(qkv_bias=qkv_bias).state_dict()
        assert {name: tuple(tensor.shape) for name, tensor in state.items()} == shapes
        for name in (name for name in state if name.endswith("mask")):
            assert torch.equal(state[name], torch.triu(torch.ones(CONTEXT, CONTEXT), diagonal=1).double())
    assert CausalAttention(2, 2, 3, 0.0).mask.dtype is torch.float32


def test_arguments_are_those_of_the_book_and_bias_is_off() -> None:
    by_name: dict[str, Any] = {"d_in": 4, "d_out": 6, "context_length": 3, "dropout": 0.1}
    assert not [name for name in CausalAttention(**by_name).state_dict() if "bias" in name]
    for make in (MultiHeadAttentionWrapper, MultiHeadAttention):
        state = make(**by_name, num_heads=2).state_dict()
        assert [name for name in state if "bias" in name] == ["out_proj.bias"]
    assert MultiHeadAttentionWrapper(4, 6, 3, 0.0, 2)(torch.zeros(1, 3, 4)).shape == (1, 3, 12)  # d_out for each head
    assert MultiHeadAttention(4, 6, 3, 0.0, 2)(torch.zeros(1, 3, 4)).shape == (1, 3, 6)  # d_out for all of them


@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("num_tokens", [1, TOKENS, CONTEXT])
def test_a_checkpoint_of_the_book_loads_and_gives_the_books_answer(qkv_bias: bool, num_tokens: int) -> None:
    x = normal(50, BATCH, num_tokens, D_IN)

    one = checkpoint(head_shapes("", WIDTH, qkv_bias))
    module: Rung = one_head(qkv_bias=qkv_bias)
    module.load_state_dict(one)
    assert_close(module(x), by_the_book(one, x, "", slice(None)))

    every: State = {}
    for head in range(HEADS):
        every |= checkpoint(head_shapes(f"heads.{head}.", WIDTH, qkv_bias), seed=head)
    every |= checkpoint(OUT, seed=HEADS)
    module = side_by_side(qkv_bias=qkv_bias)
    module.load_state_dict(every)
    merged = torch.cat([by_the_book(every, x, f"heads.{head}.", slice(None)) for head in range(HEADS)], -1)
    assert_close(module(x), merged @ every["out_proj.weight"].T + every["out_proj.bias"])

    whole = checkpoint(head_shapes("", HEADS * WIDTH, qkv_bias) | OUT)
    module = packed(qkv_bias=qkv_bias)
    module.load_state_dict(whole)
    parts = [slice(head * WIDTH, (head + 1) * WIDTH) for head in range(HEADS)]
    merged = torch.cat([by_the_book(whole, x, "", part) for part in parts], -1)
    assert_close(module(x), merged @ whole["out_proj.weight"].T + whole["out_proj.bias"])


def gradients(module: nn.Module, heads: int) -> State:
    """The gradient of each projection, whatever the form that holds it, heads one after the other."""
    held = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    assert held.keys() == dict(module.named_parameters()).keys()
    found = {f"out.{kind}": held[f"out_proj.{kind}"] for kind in ("weight", "bias")}
    for place, name in enumerate(("query", "key", "value")):
        for kind in ("weight", "bias"):
            if isinstance(module, nn.MultiheadAttention):
                found[f"{name}.{kind}"] = held[f"in_proj_{kind}"].chunk(3)[place]
            elif f"W_{name}.{kind}" in held:
                found[f"{name}.{kind}"] = held[f"W_{name}.{kind}"]
            elif f"heads.0.W_{name}.{kind}" in held:
                found[f"{name}.{kind}"] = torch.cat([held[f"heads.{h}.W_{name}.{kind}"] for h in range(heads)])
    return found


def run(module: nn.Module, tokens: Tensor) -> Tensor:
    """The output; PyTorch's module is told what is blocked."""
    if isinstance(module, nn.MultiheadAttention):
        blocked = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()
        output: Tensor = module(tokens, tokens, tokens, attn_mask=blocked, need_weights=False)[0]
        return output
    return module(tokens)  # type: ignore[no-any-return]


@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("source", [0, 1, 2])
def test_all_forms_give_one_answer_and_the_same_gradients(qkv_bias: bool, heads: int, source: int) -> None:
    # whichever of the forms the weights come from, all the others take them
    embed_dim = heads * WIDTH
    forms = (
        MultiHeadAttentionWrapper(embed_dim, WIDTH, CONTEXT, 0.0, heads, qkv_bias).double(),
        MultiHeadAttention(embed_dim, embed_dim, CONTEXT, 0.0, heads, qkv_bias).double(),
        nn.MultiheadAttention(embed_dim, heads, batch_first=True, dtype=torch.float64),
    )
    filled(forms[source], 4)
    if source == 2 and not qkv_bias:  # what the others have no place for
        nn.init.zeros_(forms[2].in_proj_bias)
    for form in forms:
        if form is not forms[source]:
            write(form, read(forms[source]))
    cotangent = normal(6, BATCH, TOKENS, embed_dim)
    found: list[State] = []
    for form in forms:
        x = normal(5, BATCH, TOKENS, embed_dim).requires_grad_()
        output = run(form, x)
        output.backward(cotangent)
        assert x.grad is not None
        found.append({"output": output.detach(), "x": x.grad, **gradients(form, heads)})
    assert all(name in found[0] for name in ("query.weight", "key.weight", "value.weight", "out.weight", "out.bias"))
    assert ("query.bias" in found[0]) == qkv_bias
    for one, other in pairwise(found):
        for name in one.keys() & other.keys():
            assert_close(one[name], other[name], rtol=1e-9, atol=1e-12)
            assert one[name].abs().max() > (1e-3 if name != "key.bias" else 0), name


def test_one_head_is_pytorch_without_its_projection_out() -> None:
    module = CausalAttention(WIDTH, WIDTH, CONTEXT, 0.0, qkv_bias=True).double()
    filled(module, 7)
    other = nn.MultiheadAttention(WIDTH, 1, batch_first=True, dtype=torch.float64)
    write(other, read(module))
    x = normal(8, BATCH, TOKENS, WIDTH)
    assert_close(module(x), run(other, x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", RUNGS)
def test_forward_is_the_last_step_of_the_trace(make: Callable[..., Rung]) -> None:
    module, x = make(), normal(0, BATCH, TOKENS, D_IN)
    assert torch.equal(module(x), module.trace(x).output)


def test_the_traces_of_a_list_and_of_the_packed_form_are_the_same() -> None:
    listed, whole, x = side_by_side(qkv_bias=True), packed(qkv_bias=True), normal(0, BATCH, TOKENS, D_IN)
    write(whole, read(listed))
    one, other = listed.trace(x), whole.trace(x)
    assert one.weights.shape == (BATCH, HEADS, TOKENS, TOKENS)
    for step in ("weights", "dropped", "merged", "output"):
        assert_close(getattr(one, step), getattr(other, step), rtol=1e-9, atol=1e-12)
    for head, trace in enumerate(one.heads):
        for step in ("q", "k", "v", "scores", "scaled", "masked", "weights", "context"):
            assert_close(getattr(trace, step)[:, 0], getattr(other, step)[:, head], rtol=1e-9, atol=1e-12)
    assert [head.W_query.weight.shape for head in listed.each_head()] == [(WIDTH, D_IN)] * HEADS


@pytest.mark.parametrize("make", RUNGS)
@pytest.mark.parametrize("context_length", [1, 4])
def test_more_tokens_than_it_was_built_for_are_refused(make: Callable[..., Rung], context_length: int) -> None:
    # S14: a mask for one token would broadcast over six and mask nothing
    module = make(context_length=context_length)
    said = f"there are 6 tokens; this was built for a context_length of {context_length}."
    with pytest.raises(ValueError, match=re.escape(said)):
        module(normal(0, BATCH, 6, D_IN))
    assert module(normal(0, BATCH, context_length, D_IN)).shape[:2] == (BATCH, context_length)


@pytest.mark.parametrize("make", RUNGS)
def test_the_mask_is_turned_round(make: Callable[..., Rung]) -> None:
    # M05: the book keeps 1 where blocked; here True = may attend
    module = make()
    holder = next(module.each_head()) if isinstance(module, MultiHeadAttentionWrapper) else module
    for num_tokens in (0, 1, TOKENS, CONTEXT):
        allowed = holder.allowed(normal(0, 1, num_tokens, D_IN))
        assert torch.equal(allowed, masks.grid(masks.causal, num_tokens))
    # it is the mask that is held, from its first token on: a checkpoint may bring another one
    holder.mask[2, 0] = 1
    expected = masks.grid(masks.causal, 4)
    expected[2, 0] = False
    assert torch.equal(holder.allowed(normal(0, 1, 4, D_IN)), expected)


@pytest.mark.parametrize("make", RUNGS)
def test_a_later_token_does_not_leak(make: Callable[..., Rung]) -> None:
    # M17: to the last bit; and the first tokens of a longer run give what they give alone
    module, x = make(), normal(0, BATCH, 5, D_IN)
    before = module(x)
    assert_close(module(x[:, :3]), before[:, :3])
    x[:, -1] += 10
    after = module(x)
    assert torch.equal(after[:, :-1], before[:, :-1])
    assert after[:, -1].ne(before[:, -1]).any()


@pytest.mark.parametrize("make", RUNGS)
def test_in_eval_mode_nothing_is_dropped(make: Callable[..., Rung]) -> None:
    # N15
    module, x = make(dropout=0.5), normal(0, BATCH, TOKENS, D_IN)
    plain = make()(x)
    module.eval()
    assert torch.equal(module(x), module(x))
    assert torch.equal(module(x), plain)
    module.train()
    chance = generator(1)
    one, other = module(x, chance), module(x, chance)
    assert not torch.equal(one, other)
    assert not torch.equal(one, plain)


@pytest.mark.parametrize("make", RUNGS)
def test_dropout_is_seeded(make: Callable[..., Rung]) -> None:
    # R07: the random state of the process is neither read nor changed
    module, x = make(dropout=0.5), normal(0, BATCH, TOKENS, D_IN)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = module(x, generator(7))
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert torch.equal(module(x, generator(7)), first)
        assert torch.equal(module.trace(x, generator(7)).output, first)
    assert not torch.equal(module(x, generator(8)), first)


@pytest.mark.parametrize("make", [side_by_side, packed])
def test_dropout_is_on_the_weights_of_each_head(
    make: Callable[..., MultiHeadAttentionWrapper | MultiHeadAttention],
) -> None:
    # N14: what is shown as weights still sums to 1; each head drops cells of its own
    trace = make(dropout=0.5).trace(normal(0, BATCH, TOKENS, D_IN), generator(3))
    assert_close(trace.weights.sum(-1), torch.ones(BATCH, HEADS, TOKENS, dtype=torch.float64))
    kept = trace.dropped.ne(0)
    assert_close(trace.dropped, torch.where(kept, 2 * trace.weights, 0.0))
    lower = masks.grid(masks.causal, TOKENS)
    for one, other in pairwise(kept.unbind(1)):
        assert not torch.equal(one[:, lower], other[:, lower])


@pytest.mark.parametrize("make", RUNGS)
def test_the_mean_over_many_draws_is_that_of_eval_mode(make: Callable[..., Rung]) -> None:
    # N17: the means are what can be compared, as no two implementations need drop the same cells
    module, x, draws = make(dropout=0.3), normal(0, 1, 4, D_IN), 4000
    with torch.no_grad():
        many = module(x.expand(draws, -1, -1), generator(5))
        exact = module.eval()(x)[0]
    within = 4.5 * many.std(0) / math.sqrt(draws)
    assert ((many.mean(0) - exact).abs() <= within + 1e-12).all()
    assert many.std(0).min() > 0.01


def test_dropout_spreads_as_pytorchs_does() -> None:
    # N17: mean and spread of many draws, ours and those of nn.MultiheadAttention
    embed_dim, draws = HEADS * WIDTH, 4000
    ours = filled(MultiHeadAttention(embed_dim, embed_dim, CONTEXT, 0.3, HEADS, qkv_bias=True).double(), 4)
    theirs = nn.MultiheadAttention(embed_dim, HEADS, dropout=0.3, batch_first=True, dtype=torch.float64)
    write(theirs, read(ours))
    x = normal(5, 1, 4, embed_dim).expand(draws, -1, -1)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        one, other = ours(x, generator(9)), run(theirs, x)
    assert ((one.mean(0) - other.mean(0)).abs() <= 5 * one.std(0) * math.sqrt(2 / draws)).all()
    assert_close(one.std(0), other.std(0), rtol=0.15, atol=0)


@pytest.mark.parametrize("make", RUNGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(make: Callable[..., Rung], dtype: torch.dtype) -> None:
    # N09
    module, x = make(), normal(0, BATCH, TOKENS, D_IN)
    exact = module(x).detach()
    found = module.to(dtype)(x.to(dtype))
    assert found.dtype is dtype
    assert_close(found.double(), exact, rtol=0, atol=40 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("make", RUNGS)
def test_tokens_that_do_not_fit_are_refused(make: Callable[..., Rung]) -> None:
    # S23: named, and not in the words of a kernel
    with pytest.raises(ValueError, match="the tokens are float32, the weights float64; they must be of one dtype"):
        make()(normal(0, BATCH, TOKENS, D_IN, dtype=torch.float32))
    with pytest.raises(
        ValueError, match=re.escape("the tokens are (2, 6, 8), 8 wide; the projection takes a width of 7")
    ):
        make()(normal(0, BATCH, TOKENS, D_IN + 1))


@pytest.mark.parametrize("make", RUNGS)
def test_no_tokens_and_tokens_that_are_not_contiguous(make: Callable[..., Rung]) -> None:
    # S16, S03
    module = make()
    assert module(normal(0, BATCH, 0, D_IN)).shape[:2] == (BATCH, 0)
    turned = normal(0, TOKENS, BATCH, D_IN).transpose(0, 1)
    assert_close(module(turned), module(turned.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize(("d_out", "num_heads"), [(10, 3), (4, 8), (6, 0), (6, -2)])
def test_heads_that_do_not_divide_are_refused_with_both_numbers(d_out: int, num_heads: int) -> None:
    # S07
    with pytest.raises(ValueError, match=rf"{num_heads} heads .*\b{d_out} dimensions"):
        MultiHeadAttention(7, d_out, 4, 0.0, num_heads)
    if num_heads < 1:
        with pytest.raises(ValueError, match=f"{num_heads} heads"):
            MultiHeadAttentionWrapper(7, d_out, 4, 0.0, num_heads)


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_a_dropout_that_is_no_probability_is_refused_when_built(dropout: float) -> None:
    # N15
    for make in RUNGS:
        with pytest.raises(ValueError, match=re.escape(f"dropout is {dropout}; it must be a number from 0 to 1.")):
            make(dropout=dropout)


@pytest.mark.parametrize(("name", "sizes"), [("d_in", (0, 4, 5)), ("d_out", (4, 0, 5)), ("context_length", (4, 4, -1))])
def test_a_size_below_one_is_refused(name: str, sizes: tuple[int, int, int]) -> None:  # S07
    with pytest.raises(ValueError, match=f"{name} is"):
        CausalAttention(*sizes, 0.0)
