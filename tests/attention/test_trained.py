"""Trained models: their trace, their verdict, a head knocked out; each lesson's claim; and what ships."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from attention import sample
from attention.trained import (
    LESSONS,
    TASKS,
    Model,
    TrainConfig,
    accuracy,
    fresh,
    knocked_out,
    load_preset,
    on_pattern,
    presets,
    verify_model,
)
from attention.trained.model import draw, shapes
from attention.trained.presets import load
from attention.trained.training import finished

FAILING = [name for name, lesson in LESSONS.items() if lesson.fails]


def test_there_is_a_lesson_and_a_preset_for_each_task() -> None:
    assert list(LESSONS) == list(TASKS)
    assert set(presets()) == set(TASKS)
    for name, preset in presets().items():
        assert preset.config == LESSONS[name].works
        assert preset.failed == LESSONS[name].fails
        assert [head.pattern for head in preset.heads] == list(TASKS[name].patterns)


@pytest.mark.parametrize("name", TASKS)
def test_a_preset_does_what_is_said_of_it(name: str) -> None:
    preset, model = presets()[name], load_preset(name)
    batch = fresh(model.config.learns, 256, seed=1)  # not those by which it was measured
    reached = accuracy(model, batch)
    assert reached >= LESSONS[name].reaches
    assert reached == pytest.approx(preset.accuracy, abs=0.01)
    for head in preset.heads:
        weight = on_pattern(model, batch, head.pattern)[head.layer, head.head].item()
        assert weight >= 0.8
        assert weight == pytest.approx(head.weight, abs=0.02)


@pytest.mark.parametrize("name", TASKS)
def test_every_step_of_a_preset_is_pytorchs(name: str) -> None:
    model = load_preset(name)
    for seed in range(3):
        verdict = verify_model(model, fresh(model.config.learns, 2, seed).tokens)
        assert verdict.maths.first_difference is None
        assert verdict.arithmetic.first_difference is None
        assert verdict.equal
    steps = [check.step for check in verdict.maths.checks]
    assert steps[0] == "embedded"
    assert steps[-1] == "logits"
    layers = model.trace(fresh(model.config.learns, 1).tokens).layers
    assert len(steps) == 2 + sum(len(layer.steps) for layer in layers)


@pytest.mark.parametrize("name", FAILING)
def test_what_must_fail_does(name: str) -> None:
    lesson = LESSONS[name]
    assert lesson.fails is not None
    assert lesson.fails.steps == lesson.works.steps
    failed = finished(lesson.fails)
    reached = accuracy(failed, fresh(failed.config.learns, 256, seed=1))
    assert reached < lesson.stays_under < lesson.reaches
    assert reached == pytest.approx(presets()[name].failed_accuracy, abs=0.03)


@pytest.mark.parametrize("feed_forward", [False, True])
def test_a_trace_is_what_the_model_says(feed_forward: bool) -> None:
    config = TrainConfig(task="sort", layers=2, heads=4, width=16, causal=True, feed_forward=feed_forward)
    model = draw(config)
    tokens = fresh(model.config.learns, 3).tokens
    trace = model.trace(tokens)
    assert [tuple(x.weights.shape) for x in trace.attention] == [(3, 4, 16, 16)] * 2
    assert tuple(trace.logits.shape) == (3, 16, 128)
    assert not trace.logits.requires_grad
    assert trace.attention[0].weights.triu(1).eq(0).all()
    verdict = verify_model(model, tokens)
    assert verdict.equal
    assert verdict.maths.checks[1].step == "0: norm_1"
    shorter = model.trace(tokens[:, :5])  # under a causal mask what follows changes nothing
    torch.testing.assert_close(shorter.logits, trace.logits[:, :5])


def test_the_verdict_sees_a_wrong_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_preset("repeat")
    tokens = fresh(model.config.learns, 1).tokens
    scaled = Model.run

    def wrong(self: Model, tokens: torch.Tensor) -> object:
        trace = scaled(self, tokens)
        second = replace(trace.layers[1].attention, weights=trace.layers[1].attention.weights * 1.001)
        return replace(trace, layers=(trace.layers[0], replace(trace.layers[1], attention=second)))

    monkeypatch.setattr(Model, "run", wrong)
    verdict = verify_model(model, tokens)
    assert verdict.maths.first_difference is not None
    assert verdict.maths.first_difference.step == "1: attention.weights"
    assert not verdict.arithmetic.equal


def test_a_head_knocked_out_gives_nothing() -> None:
    model = load_preset("repeat")
    batch = fresh(model.config.learns, 64)
    layer, head, dim = 0, 1, model.config.head_dim
    without = model.without_head(layer, head)
    before, after = model.trace(batch.tokens).layers[layer], without.trace(batch.tokens).layers[layer]
    assert torch.equal(before.attention.weights, after.attention.weights)  # its map stays to be looked at
    context = before.attention.context.clone()
    context[:, head] = 0
    merged = context.transpose(1, 2).flatten(2)
    output = merged @ model.parameters["layers.0.w_o"].mT + model.parameters["layers.0.b_o"]
    torch.testing.assert_close(after.attention.output, output)
    assert (
        model.parameters["layers.0.w_o"][:, head * dim : (head + 1) * dim].ne(0).any()
    )  # the model itself is as before


def test_without_the_head_that_looks_back_repeating_breaks_down() -> None:
    model = load_preset("repeat")
    batch = fresh(model.config.learns, 64)
    found = knocked_out(model, batch)
    assert tuple(found.shape) == (2, 4)
    assert found[0, 1] == accuracy(model.without_head(0, 1), batch)
    assert accuracy(model, batch) > 0.99
    assert found[0, 1] < 0.5
    assert found[0, [0, 2, 3]].min() > 0.9
    for layer, head, words in ((2, 0, "layer is 2; it must be from 0 to 1"), (0, 4, "head is 4")):
        with pytest.raises(ValueError, match=words):
            model.without_head(layer, head)


def test_what_a_model_cannot_read_is_refused() -> None:
    model = draw(TrainConfig(task="previous", width=8))
    with pytest.raises(ValueError, match=r"the tokens are \(1, 33\) of torch.int64; previous takes"):
        model.trace(torch.zeros(1, 33, dtype=torch.int64))
    with pytest.raises(ValueError, match="tokens run from 0 to 26; previous has 0 to 25"):
        model.trace(torch.tensor([[0, 26]]))
    with pytest.raises(ValueError, match="'the subject' is no pattern of previous: the token before"):
        on_pattern(model, fresh(model.config.learns, 2), "the subject")


def test_the_mean_weight_on_a_pattern_is_over_the_queries_that_it_names() -> None:
    model = draw(TrainConfig(task="two keys", layers=2, heads=2, width=8))
    batch = fresh(model.config.learns, 5)
    for pattern, keys in batch.keys.items():
        for layer, attention in enumerate(model.trace(batch.tokens).attention):
            for head in range(2):
                cells = [
                    attention.weights[b, head, t, int(keys[b, t])].item()
                    for b in range(5)
                    for t in range(keys.shape[1])
                    if keys[b, t] >= 0
                ]
                found = on_pattern(model, batch, pattern)[layer, head].item()
                assert found == pytest.approx(sum(cells) / len(cells), rel=1e-5)


def broken(tmp_path: Path, change: dict[str, torch.Tensor | None]) -> Path:
    config = TrainConfig(task="previous", width=8)
    held = {**draw(config).parameters, **change}
    path = tmp_path / "some.safetensors"
    save_file({name: tensor for name, tensor in held.items() if tensor is not None}, path)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"positions": None}, "some.safetensors has no positions, which this model needs"),
        ({"more": torch.zeros(2)}, "some.safetensors has more, which this model does not know"),
        (
            {"tokens": torch.zeros(26, 9)},
            r"tokens in some.safetensors is \(26, 9\) of torch.float32; it must be \(26, 8\)",
        ),
        ({"tokens": torch.zeros(26, 8, dtype=torch.float64)}, "of torch.float64; it must be"),
        ({"tokens": torch.full((26, 8), torch.nan)}, "tokens in some.safetensors holds numbers that are not finite"),
    ],
)
def test_weights_of_another_model_are_refused(
    tmp_path: Path, change: dict[str, torch.Tensor | None], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        load(broken(tmp_path, change), TrainConfig(task="previous", width=8))


def test_a_file_of_weights_is_read_as_it_was_written(tmp_path: Path) -> None:
    config = TrainConfig(task="previous", width=8)
    model = load(broken(tmp_path, {}), config)
    assert {name: tuple(tensor.shape) for name, tensor in model.parameters.items()} == shapes(config)
    assert torch.equal(model.parameters["tokens"], draw(config).parameters["tokens"])
    assert set(load_file(tmp_path / "some.safetensors")) == set(shapes(config))


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "torn.safetensors"
    path.write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"torn\.safetensors cannot be read as safetensors"):
        load(path, TrainConfig(task="previous"))
    with pytest.raises(ValueError, match="there is no preset 'chess'; there are previous, reverse"):
        load_preset("chess")


def test_fresh_sequences_are_none_that_training_sees() -> None:
    config = TrainConfig(task="previous")
    seen = {tuple(row) for step in range(20) for row in training_batch(config, step).tolist()}
    assert not seen & {tuple(row) for row in fresh(config.learns, 200).tokens.tolist()}


def training_batch(config: TrainConfig, step: int) -> torch.Tensor:
    return config.learns.batch(sample.generator(f"train/batch {step}", config.seed), config.batch_size).tokens
