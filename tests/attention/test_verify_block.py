"""The verdict on a stack of blocks: both lines, step by step and block by block, the probe, and the other path."""

import re
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import sample, verify_block
from attention.block import POST_NORM, PRE_NORM, TransformerStack, run_block
from attention.compare import Outcome, Tolerance
from attention.config import MAX_SEED, AttentionConfig, head_counts
from attention.copying import write
from attention.multi_head import allowed_by
from attention.residual import look_into_both, mean_norm
from attention.verify import ARITHMETIC, MATHS
from attention.verify_block import MAX_DEPTH, BlockConfig, check_fused, each_block, probe, verify_both
from attention.verify_block import verify_block as verify
from tests.attention.scenes import Recorder

SMALL = BlockConfig(AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5))


@pytest.fixture(autouse=True)
def no_probe_is_kept() -> Iterator[None]:
    """A probe of a faulty library must not be what the next test is told."""
    probe.cache_clear()
    yield
    probe.cache_clear()


@st.composite
def configs(draw: st.DrawFn, dtypes: tuple[str, ...]) -> BlockConfig:
    embed_dim = draw(st.integers(8, 32))  # a norm of two or three numbers blows up every rounding
    scene = AttentionConfig(
        embed_dim=embed_dim,
        num_heads=draw(st.sampled_from(head_counts(embed_dim))),
        num_tokens=draw(st.integers(1, 9)),
        seed=draw(st.integers(0, MAX_SEED)),
        causal=draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
    )
    return BlockConfig(scene, draw(st.integers(1, 3)), draw(st.booleans()), draw(st.sampled_from(["gelu", "relu"])))


@settings(max_examples=20)
@given(configs(("float64", "float32")))
def test_correct_code_is_equal_in_both_lines(config: BlockConfig) -> None:
    # N01: no false alarm; S20: nor on the other path
    verdict = verify(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.arithmetic.equal, verdict.arithmetic.first_difference
    assert verdict.equal
    assert check_fused(config).equal


@settings(max_examples=10)
@given(configs(("bfloat16", "float16")))
def test_the_maths_is_equal_whatever_half_precision_rounds(config: BlockConfig) -> None:
    verdict = verify(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.equal == verdict.arithmetic.equal


# S15: extremes that are all valid; in float64, as a norm of one number leaves its shift and nothing else
@pytest.mark.parametrize(("embed_dim", "num_heads"), [(8, 8), (8, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize("num_tokens", [1, 5])
@pytest.mark.parametrize(("causal", "norm_first"), [(True, False), (False, True)])
def test_extremes_are_equal(embed_dim: int, num_heads: int, num_tokens: int, causal: bool, norm_first: bool) -> None:
    scene = AttentionConfig(
        embed_dim=embed_dim, num_heads=num_heads, num_tokens=num_tokens, causal=causal, dtype="float64"
    )
    assert verify(BlockConfig(scene, norm_first=norm_first)).equal


def test_the_scene_of_the_source_is_equal() -> None:
    # 768 wide tokens, five of them, 12 heads; a verdict in both lines
    scene = AttentionConfig(embed_dim=768, num_heads=12, num_tokens=5, seed=42)
    assert verify(BlockConfig(scene)).equal
    assert check_fused(BlockConfig(scene)).equal


@pytest.mark.parametrize(("norm_first", "steps"), [(False, POST_NORM), (True, PRE_NORM)])
def test_steps_are_named_after_their_block(norm_first: bool, steps: tuple[str, ...]) -> None:
    verdict = verify(replace(SMALL, depth=3, norm_first=norm_first))
    expected = [f"{index}: {step}" for index in range(3) for step in steps]
    for line in (verdict.maths, verdict.arithmetic):
        assert [check.step for check in line.checks] == expected
    assert [distance.step for distance in verdict.distances] == expected
    assert [check.step for check in verdict.probe.checks] == [*POST_NORM, *PRE_NORM, *POST_NORM]


@pytest.mark.parametrize("switches", [{}, {"norm_first": True}, {"activation": "relu"}])
def test_the_blocks_are_those_of_a_stack(switches: dict[str, Any]) -> None:
    config = replace(SMALL, depth=3, **switches)
    stack = TransformerStack(3, 12, 3, **switches)
    for index, block in enumerate(stack.blocks):
        write(block, sample.draw_block(config.scene, index))
    expected = stack.trace(sample.draw_tokens(config.scene), allowed_by(config.scene))
    found = list(each_block(config))
    assert len(found) == 3
    for mine, other in zip(found, expected, strict=True):
        for step in mine.steps:
            assert torch.equal(attrgetter(step)(mine), attrgetter(step)(other)), step
            assert not attrgetter(step)(mine).requires_grad
        assert mine.attention.weights.triu(1).eq(0).all()


@pytest.mark.parametrize("norm_first", [False, True])
def test_what_is_judged_is_what_the_blocks_hold(norm_first: bool) -> None:
    # each check carries a number of ours: it is that of the block and the step that it names
    config = replace(SMALL, depth=3, norm_first=norm_first)
    traces = list(each_block(config))
    for check in verify(config).arithmetic.checks:
        index, _, step = check.step.partition(": ")
        held = attrgetter(step)(traces[int(index)])
        assert check.shape == held.shape
        assert check.ours == held[check.worst].item(), check.step


def test_blocks_come_one_at_a_time() -> None:
    # and the caller's own gradients are recorded in between
    blocks = each_block(replace(SMALL, depth=MAX_DEPTH))
    first = next(blocks)
    assert torch.is_grad_enabled()
    assert next(blocks).x is first.output


def test_the_probe_is_a_scene_that_hides_nothing() -> None:
    found = probe()
    assert found.equal
    assert probe() is found
    checks = {check.step: check for check in found.checks}
    _, heads, tokens, width = checks["attention.q"].shape
    assert min(heads, tokens, width) > 1
    assert len({heads, tokens, width}) == 3
    assert {check.tolerance.rtol for check in found.checks} == {MATHS.rtol}


def test_each_side_goes_on_with_its_own_output(monkeypatch: pytest.MonkeyPatch) -> None:
    # a fault of the first block is found again in the second: neither side is handed the other's numbers
    def wrong(*given: Any, **switches: Any) -> Any:
        trace = run_block(*given, **switches)
        return replace(trace, norm_2=trace.norm_2 + 0.01)

    monkeypatch.setattr(verify_block, "run_block", wrong)
    verdict = verify(replace(SMALL, depth=2))
    assert verdict.maths.first_difference is not None
    assert verdict.maths.first_difference.step == "0: norm_2"
    differing = [check.step for check in verdict.maths.checks if not check.equal]
    assert "1: attention.q" in differing
    assert not [step for step in differing if step.startswith("0:") and step != "0: norm_2"]
    distances = {distance.step: distance for distance in verdict.distances}
    assert distances["0: norm_2"].ours == pytest.approx(0.01, rel=1e-3)
    assert distances["0: norm_2"].pytorch < 1e-5


def test_the_tolerance_of_the_reader_is_for_the_arithmetic_only() -> None:
    given = Tolerance(rtol=1e-3, atol=1e-2)
    verdict = verify(SMALL, given)
    tolerances = {check.step: check.tolerance for check in verdict.arithmetic.checks}
    assert tolerances.pop("0: attention.scores") == Tolerance(rtol=1e-3, atol=2 * 1e-2)  # √D times the atol
    assert set(tolerances.values()) == {given}
    assert verdict.maths.checks[0].tolerance == MATHS
    assert verify(SMALL).arithmetic.checks[0].tolerance == ARITHMETIC["float32"]
    assert check_fused(SMALL).tolerance == ARITHMETIC["float32"]
    assert check_fused(SMALL, given).tolerance == given
    # N27
    wide = verify(SMALL, Tolerance(rtol=0.0, atol=1e3)).arithmetic.first_difference
    assert wide is not None
    assert wide.outcome is Outcome.CANNOT_TELL


@pytest.mark.parametrize(("heads", "taken"), [(3, False), (4, True)])
def test_the_other_path_is_checked_with_even_head_counts(heads: int, taken: bool) -> None:
    config = replace(SMALL, scene=replace(SMALL.scene, num_heads=heads))
    with Recorder() as seen:
        check = check_fused(config)
    assert any("_transformer_encoder_layer_fwd" in name for name in seen.names) == taken
    assert check.equal
    with Recorder() as seen:
        verify(config)
    assert not any("_transformer_encoder_layer_fwd" in name for name in seen.names)


def test_a_wrong_block_is_not_what_the_other_path_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verify_block,
        "run_block",
        lambda *given, norm_first, **rest: run_block(*given, norm_first=not norm_first, **rest),
    )
    assert check_fused(replace(SMALL, scene=replace(SMALL.scene, num_heads=4))).outcome is Outcome.DIFFERS


def test_a_verdict_is_the_same_each_time() -> None:
    # N16, R09
    first = verify(replace(SMALL, depth=2))
    for _ in range(2):
        assert verify(replace(SMALL, depth=2)) == first
    assert verify(replace(SMALL, scene=replace(SMALL.scene, seed=1))) != first


def test_nothing_else_is_touched() -> None:
    # R07, X03
    before = torch.get_rng_state()
    expected = verify(SMALL), check_fused(SMALL)
    list(each_block(SMALL))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    torch.set_default_dtype(torch.float64)
    try:
        probe.cache_clear()
        assert (verify(SMALL), check_fused(SMALL)) == expected
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_thread_count_flips_no_verdict() -> None:
    # N25
    before = torch.get_num_threads()
    config = BlockConfig(AttentionConfig(embed_dim=128, num_heads=8, num_tokens=32))
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert verify(config).equal
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"depth": 0}, f"depth is 0; it must be from 1 to {MAX_DEPTH}."),
        ({"depth": 9}, f"depth is 9; it must be from 1 to {MAX_DEPTH}."),
        ({"depth": 1.0}, "depth is 1.0; it must be a whole number."),
        ({"activation": "swish"}, "activation is 'swish'; it must be one of gelu, relu."),  # S22
    ],
)
def test_what_makes_no_stack_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        BlockConfig(SMALL.scene, **wrong)
    assert hash(SMALL) == hash(replace(SMALL))  # it keys a cache


@pytest.mark.parametrize("norm_first", [False, True])
def test_rounding_does_not_pile_up_over_blocks(norm_first: bool) -> None:  # N01
    # a LayerNorm over few numbers makes much of a small difference; each block is judged on equal inputs
    for seed in range(8):
        scene = AttentionConfig(embed_dim=6, num_heads=1, num_tokens=16, seed=seed)
        found = verify(BlockConfig(scene, depth=8, norm_first=norm_first))
        assert found.equal, (seed, found.arithmetic.first_difference)


@pytest.mark.parametrize("norm_first", [False, True])
def test_both_placements_are_judged_as_each_is_alone(norm_first: bool) -> None:
    config = replace(SMALL, depth=3, norm_first=norm_first)
    own, other = verify_both(config)
    assert own == verify(config)
    assert other == verify(replace(config, norm_first=not norm_first))
    assert own != other


@pytest.mark.parametrize("norm_first", [False, True])
def test_both_placements_are_looked_into(norm_first: bool) -> None:
    config = replace(SMALL, depth=3, norm_first=norm_first)
    for found, placed in zip(
        look_into_both(config, 1), (config, replace(config, norm_first=not norm_first)), strict=True
    ):
        expected = list(each_block(placed))
        assert torch.equal(found.trace.output, expected[1].output)
        assert [point.place for point in found.stream][1:3] == ["0: attention", "0: feed-forward"]
        assert len(found.stream) == 7
        assert found.stream[-1].norm == mean_norm(expected[2].output)
    with pytest.raises(IndexError, match="block 3: there are 3"):
        look_into_both(config, 3)
