"""The tensors that are taken home: all that a scene has, by name, and what their axes are called."""

from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import pytest
import torch

from attention import multi_head, sample, tensors, verify_head
from attention.bugs.catalogue import BY_KEY
from attention.bugs.caught import both_with
from attention.config import DTYPES, AttentionConfig
from attention.differences import differ
from attention.differing_calls import PAIRS
from attention.four_ways import WAYS, FourWays
from attention.mask_config import MaskConfig
from attention.scenes import config_of, in_dtype
from attention.verify import ARITHMETIC
from attention.verify_block import BlockConfig, each_block
from attention.verify_head import HeadConfig

# every axis has a size of its own: embed dim 15, 3 heads of width 5, 7 tokens
SMALL: Final = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7, seed=5)
MASK: Final = MaskConfig(num_queries=4, num_keys=6, window=2, padding_left=1)
SIZES: Final = {"batch": {1}, "head": {3}, "query": {7, 4}, "key": {7, 6}, "token": {7, 4}, "dimension": {15, 5, 60}}
ATTENTION: Final = ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o", "b_o")


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_of_an_attention(dtype: str) -> None:
    config = replace(SMALL, dtype=dtype)
    found = tensors.of_scene(config)
    assert tuple(found) == ("tokens", *ATTENTION, *multi_head.STEPS)
    (tokens, parameters), trace = multi_head.draw_and_attend(config)
    assert torch.equal(found["tokens"], tokens)
    for name in ATTENTION:
        assert torch.equal(found[name], getattr(parameters, name))
    for step in multi_head.STEPS:
        assert found[step].dtype == DTYPES[dtype]
        assert torch.equal(found[step], getattr(trace, step))


def test_under_a_mask() -> None:
    found, trace = tensors.of_scene((SMALL, MASK)), multi_head.attend_masked(SMALL, MASK)
    assert found["weights"].shape == (1, 3, 4, 6)
    assert found["masked"].isneginf().any()
    assert torch.equal(found["weights"], trace.weights)
    assert torch.equal(found["output"], trace.output)


def test_one_head() -> None:
    scene = HeadConfig(SMALL, 4, 9)
    found, trace = tensors.of_scene(scene), verify_head.attend_as_configured(scene)
    assert tuple(found) == ("tokens", "w_q", "w_k", "w_v", *trace.steps)
    assert torch.equal(found["w_v"], sample.draw_head(SMALL, 4, 9)["w_v.weight"])
    assert not any(x.requires_grad for x in found.values())
    assert torch.equal(found["context"], trace.context)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_one_of_two_blocks_under_both_placements(norm_first: bool, index: int) -> None:
    scene = BlockConfig(SMALL, 2, norm_first, "relu")
    found = tensors.of_scene(scene, index)
    for placed, name in ((True, "pre-norm"), (False, "post-norm")):
        trace = list(each_block(replace(scene, norm_first=placed)))[index]
        assert torch.equal(found[f"{name}.x"], trace.x)
        for step in trace.steps:
            assert torch.equal(found[f"{name}.{step}"], attrgetter(step)(trace))
    drawn = sample.draw_block(SMALL, index)
    assert torch.equal(found["w_1"], drawn.w_1)
    assert torch.equal(found["w_q"], drawn.attention.w_q)
    first = next(name for name in found if "." in name)
    assert first.startswith("pre-norm" if norm_first else "post-norm"), "the scene's own comes first"


@pytest.mark.parametrize("scene", [SMALL, BlockConfig(SMALL)])
def test_with_a_mistake(scene: Any) -> None:
    pieces = BY_KEY["softmax-axis"].pieces
    found = tensors.with_mistake(scene, pieces)
    ours, pytorch = both_with(scene, pieces)
    for step in ours.steps:
        assert torch.equal(found[f"ours.{step}"], attrgetter(step)(ours))
        assert torch.equal(found[f"pytorch.{step}"], attrgetter(step)(pytorch))
    weights = "weights" if scene == SMALL else "attention.weights"
    assert not torch.allclose(found[f"ours.{weights}"], found[f"pytorch.{weights}"])
    assert torch.equal(found["tokens"], sample.draw_tokens(config_of(scene)))


def test_four_ways() -> None:
    found = tensors.of_ways(SMALL, 0.5)
    for way, answer in zip(WAYS, FourWays(SMALL, 0.5).answers(), strict=True):
        assert torch.equal(found[f"{way}.weights"], answer.weights)
        assert torch.equal(found[f"{way}.output"], answer.output)
    assert not torch.equal(found["packed.weights"], found["einsum.weights"]), "with dropout"


@pytest.mark.parametrize(("topic", "name"), [(topic, pair.name) for topic, pairs in PAIRS.items() for pair in pairs])
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_calls(topic: str, name: str, dtype: str) -> None:
    config = AttentionConfig(embed_dim=12, num_heads=2, num_tokens=5, dtype=dtype)
    tolerance = ARITHMETIC[dtype]
    found = tensors.of_calls(config, topic, name, 1, tolerance)
    shown = differ(config, topic, name, 1, tolerance)
    step = shown.difference.step
    expected = {
        f"{side}.{step}": tensor
        for side, tensor in (("left", shown.left), ("right", shown.right))
        if tensor is not None
    }
    assert list(found) == list(expected)
    for one, tensor in expected.items():
        assert torch.equal(found[one].nan_to_num(), tensor.nan_to_num())
        assert torch.equal(found[one].isnan(), tensor.isnan())
    in_float32 = tensors.of_calls(replace(config, dtype="float32"), topic, name, 1, tolerance)
    assert {one: x.shape for one, x in in_float32.items()} == {one: x.shape for one, x in found.items()}


@pytest.mark.parametrize("scene", [SMALL, (SMALL, MASK), BlockConfig(SMALL)], ids=["attention", "mask", "block"])
def test_axes_are_called_what_they_are(scene: Any) -> None:
    for name, tensor in tensors.of_scene(scene).items():
        called = tensors.axes(name, tensor.ndim)
        assert len(called) == tensor.ndim
        for axis, size in zip(called, tensor.shape, strict=True):
            assert axis in ("in", "out") or size in SIZES[axis], f"{name}: {called}, {tuple(tensor.shape)}"


def test_axes_by_hand() -> None:
    assert tensors.axes("k", 4) == ("batch", "head", "key", "dimension")
    assert tensors.axes("post-norm.attention.q", 4) == ("batch", "head", "query", "dimension")
    assert tensors.axes("list of heads.weights", 4) == ("batch", "head", "query", "key")
    assert tensors.axes("left.weights", 2) == ("query", "key")
    assert tensors.axes("left.output", 2) == ("token", "dimension")
    assert tensors.axes("w_1", 2) == ("out", "in")
    assert tensors.axes("b_o", 1) == ("out",)
    assert tensors.axes("norm_1_weight", 1) == ("dimension",)
    assert tensors.axes("pre-norm.norm_1", 3) == ("batch", "token", "dimension")


@pytest.mark.parametrize("scene", [SMALL, (SMALL, MASK), HeadConfig(SMALL, 2, 3), BlockConfig(SMALL, 2)], ids=str)
def test_in_another_precision(scene: Any) -> None:
    half = in_dtype(scene, "float16")
    assert config_of(half).dtype == "float16"
    assert in_dtype(half, "float32") == scene
