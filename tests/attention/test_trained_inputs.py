"""A scene with trained weights attends as the trained model does, and its tokens are those of the task."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from attention import sample, tensors
from attention.block import BlockTrace
from attention.config import AttentionConfig
from attention.layer_norm import layer_norm
from attention.multi_head import attend_as_configured
from attention.residual import step_of
from attention.trained import fresh, load_preset, presets
from attention.trained import inputs as trained_inputs
from attention.trained_layers import TRAINED_LAYERS, TrainedLayer
from attention.verify import verify
from attention.verify_block import BlockConfig, each_block, verify_block
from attention.verify_head import HeadConfig, verify_head
from attention.verify_head import attend_as_configured as attend_with_one_head

NAMES = list(TRAINED_LAYERS)


def scene(name: str, **settings: Any) -> AttentionConfig:
    """A scene as its layer was trained, but for these settings."""
    layer = TRAINED_LAYERS[name]
    usual = {"num_heads": layer.heads, "num_tokens": layer.length, "causal": layer.causal, "seed": 3}
    return AttentionConfig(embed_dim=layer.width, weights=name, **usual | settings)


def test_every_layer_of_every_preset_is_there() -> None:
    expected = [
        TrainedLayer(
            name, layer, c.width, c.heads, c.causal, c.learns.length, c.layers - layer if c.feed_forward else 0
        )
        for name, preset in presets().items()
        for c in [preset.config]
        for layer in range(c.layers)
    ]
    assert list(TRAINED_LAYERS.values()) == expected
    assert all(layer.name == name for name, layer in TRAINED_LAYERS.items())
    assert len({layer.slug for layer in expected}) == len(expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_attention_is_the_models_own(name: str) -> None:
    config, layer = scene(name), TRAINED_LAYERS[name]
    model = load_preset(layer.task)
    batch = fresh(model.config.learns, 1, config.seed)
    expected = model.trace(batch.tokens).attention[layer.layer]
    found = attend_as_configured(config)
    for step in found.steps:
        torch.testing.assert_close(getattr(found, step), getattr(expected, step), rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_says_equal(name: str) -> None:
    assert verify(scene(name, seed=0)).equal


@pytest.mark.parametrize("seed", range(10))
def test_weights_as_sharp_as_those_of_two_keys_may_round_and_are_right(seed: int) -> None:
    verdict = verify(scene("two keys, layer 0", seed=seed))
    assert verdict.maths.equal
    assert all(check.equal for check in verdict.arithmetic.checks if check.step != "output")


@pytest.mark.parametrize("name", NAMES)
def test_each_head_alone_is_that_head(name: str) -> None:
    config, layer = scene(name), TRAINED_LAYERS[name]
    together = attend_as_configured(config)
    for head in range(layer.heads):
        one = HeadConfig(config, layer.head_dim, layer.head_dim, head)
        alone = attend_with_one_head(one)
        for step in alone.steps:
            torch.testing.assert_close(getattr(alone, step)[:, 0], getattr(together, step)[:, head])
        assert verify_head(one).equal


def test_the_head_that_a_preset_names_looks_at_the_right_key() -> None:
    for preset in presets().values():
        for named in preset.heads:
            found = []
            for seed in range(20):
                config = scene(f"{preset.config.task}, layer {named.layer}", seed=seed)
                keys = fresh(preset.config.learns, 1, seed).keys[named.pattern][0]
                asked = keys >= 0
                found.append(attend_as_configured(config).weights[0, named.head][asked, keys[asked]])
            assert torch.cat(found).mean() == pytest.approx(named.weight, abs=0.05), f"{preset.config.task}: {named}"


def test_fewer_tokens_are_the_first_of_the_same_sequence() -> None:
    whole, part = scene("repeat, layer 1"), scene("repeat, layer 1", num_tokens=5)
    torch.testing.assert_close(sample.draw_tokens(part), sample.draw_tokens(whole)[:, :5])
    assert trained_inputs.labels(part) == trained_inputs.labels(whole)[:5]
    assert torch.equal(trained_inputs.sequence(part), trained_inputs.sequence(whole)[:, :5])


def test_the_seed_chooses_the_sequence_and_no_weights() -> None:
    one, other = scene("sort, layer 0", seed=1), scene("sort, layer 0", seed=2)
    assert trained_inputs.labels(one) != trained_inputs.labels(other)
    assert torch.equal(sample.draw_parameters(one).w_q, sample.draw_parameters(other).w_q)


def test_labels_are_those_of_the_sequence() -> None:
    config = scene("agreement, layer 0")
    batch = fresh(load_preset("agreement").config.learns, 1, config.seed)
    assert list(trained_inputs.labels(config)) == load_preset("agreement").config.learns.labels(batch.tokens[0])
    assert trained_inputs.labels(AttentionConfig()) == ()


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_precisions_have_the_same_numbers_rounded(dtype: str) -> None:
    usual, other = scene("two keys, layer 0"), scene("two keys, layer 0", dtype=dtype)
    assert torch.equal(sample.draw_tokens(other), sample.draw_tokens(usual).to(other.torch_dtype))
    for name, tensor in vars(sample.draw_parameters(usual)).items():
        assert torch.equal(getattr(sample.draw_parameters(other), name), tensor.to(other.torch_dtype))


def test_what_a_caller_does_to_its_weights_stays_with_it() -> None:
    config = scene("previous, layer 0")
    before = sample.draw_parameters(config).w_q.clone()
    sample.draw_parameters(config).w_q.zero_()
    assert torch.equal(sample.draw_parameters(config).w_q, before)
    block = scene("agreement, layer 0")
    kept = {name: tensor.clone() for name, tensor in tensors.of_parameters(sample.draw_block(block)).items()}
    taken = tensors.of_parameters(sample.draw_block(block)) | sample.draw_head(block, 32, 32)
    for tensor in taken.values():
        tensor.zero_()
    sample.draw_tokens(block).zero_()
    sample.draw_stream(block).zero_()
    after = tensors.of_parameters(sample.draw_block(block))
    assert all(torch.equal(after[name], tensor) for name, tensor in kept.items())
    assert sample.draw_stream(block).count_nonzero()


def test_heads_and_mask_may_be_others_than_trained() -> None:
    config = scene("repeat, layer 1", num_heads=8, causal=False)
    assert attend_as_configured(config).weights.shape == (1, 8, 32, 32)
    assert verify(config).equal


def test_a_block_around_trained_attention_is_random_but_for_it() -> None:
    config = scene("repeat, layer 0")
    block, trained = sample.draw_block(config), sample.draw_parameters(config)
    assert torch.equal(block.attention.w_q, trained.w_q)
    assert torch.equal(block.w_1, sample.draw_block(replace(config, weights="random")).w_1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "no such"}, "weights is 'no such'; it must be random, or one of previous, layer 0; "),
        ({"weights": None}, "weights is None; it must be random"),
        ({"weights": "sort, layer 0"}, "embed_dim is 768; the weights of sort, layer 0 have 64"),
        (
            {"weights": "sort, layer 0", "embed_dim": 64, "num_heads": 1, "num_tokens": 17},
            "num_tokens is 17; the sequences of sort have up to 16",
        ),
    ],
)
def test_what_is_not_possible_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionConfig(**settings)


def test_one_head_has_the_width_it_was_trained_with() -> None:
    config = scene("repeat, layer 0")
    with pytest.raises(ValueError, match="head_dim is 16 and value_dim 64; the heads of repeat, layer 0 are 16 wide"):
        HeadConfig(config, 16, 64)
    with pytest.raises(ValueError, match="head is 4; it must be from 0 to 3"):
        HeadConfig(config, 16, 16, 4)
    with pytest.raises(ValueError, match="head is 1; it must be from 0 to 0"):
        HeadConfig(AttentionConfig(), 64, 64, 1)


@pytest.mark.parametrize(("name", "blocks"), [("agreement, layer 0", 2), ("agreement, layer 1", 1)])
def test_layers_with_a_feed_forward_network_are_blocks(name: str, blocks: int) -> None:
    config = BlockConfig(scene(name), depth=blocks, norm_first=True, activation="relu")
    layers = load_preset("agreement").trace(trained_inputs.sequence(config.scene)).layers[-blocks:]
    for found, expected in zip(each_block(config), layers, strict=True):
        assert isinstance(expected, BlockTrace)
        assert torch.equal(found.x, expected.x)
        for step in expected.steps:
            torch.testing.assert_close(step_of(found, step), step_of(expected, step), rtol=0, atol=0)
    assert verify_block(config).maths.equal


def test_there_are_no_more_blocks_than_layers() -> None:
    with pytest.raises(ValueError, match="depth is 1; from repeat, layer 0 on there are 0 whole blocks"):
        BlockConfig(scene("repeat, layer 0"))
    with pytest.raises(ValueError, match="depth is 2; from agreement, layer 1 on there are 1 whole blocks"):
        BlockConfig(scene("agreement, layer 1"), depth=2)
    with pytest.raises(ValueError, match="block is 1; from agreement, layer 1 on there are 1"):
        trained_inputs.block(scene("agreement, layer 1"), 1)


def test_what_goes_into_a_layer_is_the_stream_and_into_its_attention_the_norm() -> None:
    config = scene("agreement, layer 1")
    assert not torch.equal(sample.draw_stream(config), sample.draw_tokens(config))
    x, p = sample.draw_stream(config), sample.draw_block(config)
    torch.testing.assert_close(layer_norm(x, p.norm_1_weight, p.norm_1_bias), sample.draw_tokens(config))
    random = replace(config, weights="random")
    assert torch.equal(sample.draw_stream(random), sample.draw_tokens(random))


def test_random_scenes_have_no_trained_inputs() -> None:
    for ask in (trained_inputs.tokens, trained_inputs.stream, trained_inputs.parameters, trained_inputs.sequence):
        with pytest.raises(ValueError, match="the weights of this scene are random"):
            ask(AttentionConfig())
    for head in (-1, 4):
        with pytest.raises(ValueError, match=f"head is {head}; repeat, layer 0 has heads 0 to 3"):
            trained_inputs.head_weights(scene("repeat, layer 0"), head)
