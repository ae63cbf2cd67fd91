"""What the two scripts assert, and that it holds for the scenes they set up."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attention import claims, masks
from attention.compare import Tolerance
from attention.config import AttentionConfig, head_counts
from attention.copying import write
from attention.finite_mask import attend_with_number
from attention.ladder import MultiHeadAttention
from attention.multi_head import attend
from attention.sample import AttentionParameters
from attention.single_head import SelfAttention
from attention.verify_head import HeadConfig
from attention.verify_head import attend_as_configured as attend_head
from tests.attention.scenes import generator, module_answer, normal, torch_module


def test_close_is_what_the_scripts_ask() -> None:
    # torch.allclose at 1e-6 and 1e-6
    assert Tolerance(rtol=1e-6, atol=1e-6) == claims.TOLERANCE
    one = torch.ones(2, 3, dtype=torch.float64)
    within, beyond = claims.close("a", one + 1.9e-6, one), claims.close("b", one + 2.1e-6, one)
    assert (within.text, within.holds, within.found) == ("a", True, "largest difference 1.90e-06")
    assert (beyond.text, beyond.holds) == ("b", False)
    assert beyond.found == "6 cells differ, worst at [0, 0]: ours 1.0000021, PyTorch's 1"
    # N23: a small difference is not written as nothing
    assert claims.close("c", one + 1.19e-7, one).found == "largest difference 1.19e-07"
    assert claims.close("d", one, one).found == "largest difference 0.00e+00"
    # it is relative to PyTorch's number: of 1000, 1.001e-3 may be missing, and a little more of what is larger
    assert not claims.close("g", 1e3 * one + 1.0010005e-3, 1e3 * one).holds
    assert claims.close("h", 1e3 * one, 1e3 * one + 1.0010005e-3).holds
    assert claims.close("e", 1e3 * one + 9e-4, 1e3 * one).holds
    assert not claims.close("f", 1e3 * one + 1.1e-3, 1e3 * one).holds


def test_another_shape_is_not_close() -> None:
    # N05: torch.allclose would broadcast
    for one, other in ((torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 4, 8)), (torch.zeros(3, 2), torch.zeros(4, 3, 2))):
        assert torch.allclose(one, other)
        found = claims.close("shapes", one, other)
        assert not found.holds
        assert found.found == f"shape {tuple(one.shape)}, expected {tuple(other.shape)}"


def test_nan_is_not_close() -> None:
    # N03
    nan = torch.tensor([math.nan, 1.0])
    assert not claims.close("nan", nan, nan).holds
    assert not claims.close("nan", nan, torch.ones(2)).holds


@pytest.mark.parametrize("embed_dim", [1, 12, 768])
def test_heads_fill_the_embedding(embed_dim: int) -> None:
    for heads in head_counts(embed_dim):
        one, other = claims.divides(AttentionConfig(embed_dim=embed_dim, num_heads=heads))
        assert one.holds
        assert other.holds
        assert one.found == f"{embed_dim // heads} × {heads} = {embed_dim}"
        assert other.found == f"{embed_dim} % {heads} = 0"


def test_heads_that_do_not_fill_it_are_told() -> None:
    # S07: no config can be that way; the claims would say so
    for claim in claims.divides(SimpleNamespace(embed_dim=10, num_heads=3, head_dim=3)):  # type: ignore[arg-type]
        assert not claim.holds


def test_shapes() -> None:
    found = claims.shape("weights", torch.zeros(1, 12, 5, 5), (1, 12, 5, 5))
    assert (found.text, found.holds, found.found) == ("weights", True, "1 × 12 × 5 × 5")
    assert not claims.shape("weights", torch.zeros(1, 12, 5, 5), (1, 5, 12, 5)).holds
    assert not claims.shape("weights", torch.zeros(1, 12, 5), (1, 12, 5, 1)).holds


# the first script's own numbers, drawn in the script's order from a generator seeded as it seeds: with 42


def first_scene() -> tuple[Tensor, SelfAttention]:
    """256 wide tokens; q and k 64 wide, v 256."""
    chance = generator(42)
    tokens = torch.randn(1, 5, 256, generator=chance)
    w_q, w_k, w_v = (torch.randn(256, width, generator=chance) / math.sqrt(256) for width in (64, 64, 256))
    module = SelfAttention(256, head_dim=64)
    module.load_state_dict({"w_q.weight": w_q.T, "w_k.weight": w_k.T, "w_v.weight": w_v.T})
    return tokens, module


def second_scene() -> tuple[Tensor, AttentionParameters]:
    """768 wide tokens, 12 heads; what comes after the heads it leaves as PyTorch begins, and compares nothing of it."""
    chance = generator(42)
    tokens = torch.randn(1, 5, 768, generator=chance)
    w_q, w_k, w_v = (torch.randn(768, 768, generator=chance) / math.sqrt(768) for _ in range(3))
    none = torch.zeros(768)
    return tokens, AttentionParameters(w_q.T, none, w_k.T, none, w_v.T, none, torch.eye(768), none)


def test_what_the_first_script_asserts_of_one_head() -> None:
    tokens, module = first_scene()
    trace = module.trace(tokens)
    answer = F.scaled_dot_product_attention(trace.q[:, 0], trace.k[:, 0], trace.v[:, 0])
    claim = claims.close("context", trace.output, answer)
    assert claim.holds, claim.found
    assert claims.shape("q", trace.q[:, 0], (1, 5, 64)).holds
    assert claims.shape("v", trace.v[:, 0], (1, 5, 256)).holds
    # its own way: tokens times a weight that stands (in, out)
    q, k, v = (tokens @ layer.weight.T for layer in (module.w_q, module.w_k, module.w_v))
    by_its_equation = F.softmax(q @ k.transpose(1, 2) / math.sqrt(64), dim=2) @ v
    assert claims.close("context", trace.output, by_its_equation).holds


def test_what_the_first_script_asserts_of_twelve_heads() -> None:
    tokens, parameters = second_scene()
    assert all(claim.holds for claim in claims.divides(AttentionConfig(embed_dim=768, num_heads=12, num_tokens=5)))
    trace = attend(tokens, parameters, 12)
    module = torch_module(parameters, 12)
    weights, output = module(tokens, tokens, tokens, average_attn_weights=False)[::-1]
    claim = claims.close("weights", trace.weights, weights)
    assert claim.holds, claim.found
    assert claims.shape("scores", trace.scores, (1, 12, 5, 5)).holds
    assert claims.shape("weights", weights, (1, 12, 5, 5)).holds
    assert claims.shape("output", output, (1, 5, 768)).holds
    assert_close(trace.output, output)


def test_the_first_scripts_mask() -> None:
    # -1e4 added to the unscaled scores is the causal mask, to the last bit
    tokens, parameters = second_scene()
    allowed = masks.grid(masks.causal, 5)
    trace = attend(tokens, parameters, 12, allowed)
    finite = attend_with_number(trace.q, trace.k, trace.v, allowed)
    assert torch.equal(finite.weights, trace.weights)
    weights, _ = module_answer(torch_module(parameters, 12), tokens, allowed)
    assert claims.close("weights", finite.weights, weights).holds


@pytest.mark.parametrize("num_heads", [1, 4, 12])
def test_what_the_second_script_asserts(num_heads: int) -> None:
    # d_out % num_heads = 0, and the classes that stand on it give PyTorch's answer
    config = AttentionConfig(embed_dim=768, num_heads=num_heads, num_tokens=5)
    assert claims.divides(config)[1].holds
    tokens, parameters = second_scene()
    module = MultiHeadAttention(768, 768, 5, 0.0, num_heads)
    write(module, parameters)
    weights, output = module_answer(torch_module(parameters, num_heads), tokens, masks.grid(masks.causal, 5))
    assert claims.close("weights", module.trace(tokens).weights, weights).holds
    assert_close(module(tokens), output)
    with pytest.raises(ValueError, match="5 heads do not divide an embedding of 768 dimensions"):
        MultiHeadAttention(768, 768, 5, 0.0, 5)


def test_the_preset_of_the_first_script_holds() -> None:
    # its sizes and its seed with the draws of this library
    config = HeadConfig(AttentionConfig(embed_dim=256, num_heads=1, num_tokens=5, seed=42, causal=False), 64, 256)
    trace = attend_head(config)
    answer = F.scaled_dot_product_attention(trace.q, trace.k, trace.v)
    claim = claims.close("context", trace.context, answer)
    assert claim.holds, claim.found
    assert not claims.close("context", trace.context, answer + 1e-4 * normal(0, 1, 1, 5, 256).float()).holds


def test_what_is_no_number_or_of_another_dtype_is_a_claim_that_does_not_hold() -> None:
    # N03, N06
    one = torch.ones(2)
    dtypes = claims.close("a", one.double(), one)
    assert not dtypes.holds
    assert dtypes.found.startswith("dtype float64, expected float32")
    nan = claims.close("b", torch.tensor([1.0, float("nan")]), one)
    assert not nan.holds
    assert nan.found == "1 NaN in ours, none in PyTorch's"
