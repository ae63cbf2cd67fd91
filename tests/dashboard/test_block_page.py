"""Transformer block: both placements, every step, every depth; and what the diagram, charts and tables say of them."""

from dataclasses import replace
from typing import Final

import pytest
import torch
from torch import Tensor

from attention.block import POST_NORM, PRE_NORM, BlockTrace
from attention.config import AttentionConfig
from attention.residual import step_of
from attention.verify_block import MAX_DEPTH, BlockConfig, each_block
from dashboard import block_panel
from tests.dashboard.helpers import SCENES, SMALL, Markup, Reader, assert_shows, cells, link, number

PAGE: Final = "block"
PLACEMENTS: Final = {"post": ("post-norm", "pre-norm"), "pre": ("pre-norm", "post-norm")}


def opened(config: AttentionConfig = SMALL, **more: str) -> Reader:
    return Reader(PAGE, **{**link(config), **more})


def traces(config: AttentionConfig, norm: str, depth: int = 2, activation: str = "gelu") -> list[BlockTrace]:
    return list(each_block(BlockConfig(config, depth, norm.startswith("pre"), activation)))


def matrix(trace: BlockTrace, step: str, head: int = 0) -> Tensor:
    found = step_of(trace, step)
    return found[0, head] if found.ndim == 4 else found[0]


def mean_norm(x: Tensor) -> float:
    """The mean length of the rows; what is masked has no length."""
    return float(torch.where(x.isinf(), 0.0, x.double()).square().sum(-1).sqrt().mean())


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("config", SCENES, ids=str)
def test_every_step_is_the_traces(config: AttentionConfig, norm: str) -> None:
    reader = opened(config, norm=norm, depth="2", of_block="1", of_head="1")
    names = PLACEMENTS[norm]
    both = [traces(config, name)[1] for name in names]
    grid = torch.ones(config.num_tokens, config.num_tokens).tril().bool() if config.causal else None
    assert set(PRE_NORM) == set(POST_NORM)
    # every step on one scene, on the others those that have shapes of their own
    steps = PRE_NORM if config in SCENES[:2] else ("norm_1", "attention.q", "attention.masked", "hidden", "sum_2")
    for step in steps:
        reader.set("block_step", step)
        assert reader.faults == reader.warnings == []
        found = [matrix(trace, step, 1) for trace in both]
        name = step.rpartition(".")[2]
        scene = reader.picture(PAGE)
        assert_shows(scene, found, grid if name in ("masked", "weights") else None)
        header = scene.header
        assert header["titles"] == [
            f"{place}: {x.shape[0]} × {x.shape[1]}" for place, x in zip(names, found, strict=True)
        ]
        square = name in ("scores", "scaled", "masked", "weights")
        axes = ("query (attends)", "key (attended to)") if square else ("token", "dimension")
        assert (header["rowsName"], header["columnsName"]) == axes
        assert header["kind"] == ("weights" if name == "weights" else "signed")
        (said,) = (text for text in reader.said if text.startswith(f"`{step}` of block 1: "))
        assert said.endswith(f"Mean norm of a row: {mean_norm(found[0]):.3g} and {mean_norm(found[1]):.3g}.")


@pytest.mark.parametrize("depth", [1, 3, MAX_DEPTH])
def test_every_block_of_every_depth(depth: int) -> None:
    reader = opened(depth=str(depth), block_step="sum_1")
    both = [traces(SMALL, name, depth) for name in PLACEMENTS["post"]]
    for index in range(depth):
        if depth > 1:
            reader.set("of_block", index)
        assert reader.faults == []
        assert_shows(reader.picture(PAGE), [matrix(placed[index], "sum_1") for placed in both])
        own = [row for row in cells(reader.table) if row[1:2] and row[0] in POST_NORM]
        assert [row[0] for row in own] == list(POST_NORM), "17 steps, in the order in which they are computed"
        assert f"All {17 * depth} steps" in reader.verdict
    assert ("of_block" in reader.widgets) == (depth > 1), "a field needs two ends"
    if depth > 1:
        assert reader.widgets["of_block"].max == depth - 1


def test_the_table_is_of_the_block_that_is_looked_into() -> None:
    reader = opened(depth="3", norm="pre")
    seen = set()
    for index in range(3):
        reader.set("of_block", index)
        rows = [row for row in cells(reader.table) if row[0] in PRE_NORM]
        assert [row[0] for row in rows] == list(PRE_NORM)
        seen.add(str(rows))
        shapes = {row[0]: row[1] for row in rows}
        assert (shapes["hidden"], shapes["attention.q"]) == ("1 × 5 × 48", "1 × 3 × 5 × 4")
    assert len(seen) == 3


def test_a_block_that_is_not_there_is_the_last() -> None:
    reader = opened(depth="3", of_block="8", block_step="fed")
    assert reader.faults == []
    assert reader.value("of_block") == 2
    assert_shows(reader.picture(PAGE), [matrix(traces(SMALL, name, 3)[2], "fed") for name in PLACEMENTS["post"]])
    reader.set("depth", 2)
    assert reader.faults == []
    assert_shows(reader.picture(PAGE), [matrix(traces(SMALL, name, 2)[1], "fed") for name in PLACEMENTS["post"]])
    reader.set("depth", 1)
    assert reader.faults == []
    assert_shows(reader.picture(PAGE), [matrix(traces(SMALL, name, 1)[0], "fed") for name in PLACEMENTS["post"]])


def test_a_head_that_is_not_there_is_the_last() -> None:
    reader = opened(of_head="9999", block_step="attention.v")
    assert reader.faults == []
    both = [traces(SMALL, name)[0] for name in PLACEMENTS["post"]]
    assert_shows(reader.picture(PAGE), [matrix(trace, "attention.v", 2) for trace in both])
    reader.set("num_heads", 1)
    assert reader.faults == []
    one = [traces(replace(SMALL, num_heads=1), name)[0] for name in PLACEMENTS["post"]]
    assert_shows(reader.picture(PAGE), [matrix(trace, "attention.v", 0) for trace in one])


def test_relu() -> None:
    reader = opened(activation="relu", block_step="activated")
    assert reader.faults == []
    found = [matrix(traces(SMALL, name, activation="relu")[0], "activated") for name in PLACEMENTS["post"]]
    assert_shows(reader.picture(PAGE), found)
    assert reader.picture(PAGE).weights.min() == 0
    assert reader.verdict.startswith(":green-badge[")
    reader.set("activation", "gelu")
    assert reader.picture(PAGE).weights.min() < 0


# The diagram ---------------------------------------------------------------------------------------------------------

POST: Final = ("x", "attention", "+", "norm 1", "feed-forward", "+", "norm 2")
PRE: Final = ("x", "norm 1", "attention", "+", "norm 2", "feed-forward", "+")
# which box holds a step, by its place
BOXES: Final = {
    "post": {"sum_1": 2, "norm_1": 3, "hidden": 4, "activated": 4, "fed": 4, "sum_2": 5, "norm_2": 6},
    "pre": {"norm_1": 1, "sum_1": 3, "norm_2": 4, "hidden": 5, "activated": 5, "fed": 5, "sum_2": 6},
}


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_diagram_shows_the_flow_and_its_norms(norm: str) -> None:
    trace = traces(SMALL, norm)[0]
    for step in PRE_NORM:
        html = block_panel.drawing(trace, step, 0)
        texts = Markup(html).text
        names, norms = texts[::2], texts[1::2]
        assert tuple(names) == (POST if norm == "post" else PRE)
        x, attended, fed = trace.x, trace.attention.output, trace.fed
        flow = (
            [x, attended, trace.sum_1, trace.norm_1, fed, trace.sum_2, trace.norm_2]
            if norm == "post"
            else [x, trace.norm_1, attended, trace.sum_1, trace.norm_2, fed, trace.sum_2]
        )
        assert norms == [f"{mean_norm(tensor[0]):.1f}" for tensor in flow]
        boxes = html.split('<div class="')[2:]
        stations = [box.split('"')[0] for box in boxes if box.startswith(("box", "sum"))]
        marked = [place for place, kind in enumerate(stations) if kind.endswith("marked")]
        attention = names.index("attention")
        assert marked == [attention if step.startswith("attention.") else BOXES[norm][step]]
        assert f"{norm}-norm" in html
    # the stream passes by attention and feed-forward network, and comes back at the sums
    skips = [(2, 6), (8, 12)] if norm == "post" else [(2, 8), (8, 14)]
    assert html.count('class="skip"') == 2
    for start, end in skips:
        assert f'class="skip" style="grid-column: {start} / {end}"' in html


def test_the_diagram_on_the_page_is_of_the_block_and_step_shown() -> None:
    reader = opened(depth="2", of_block="1", block_step="fed", norm="pre")
    assert reader.html["diagram"] == [block_panel.drawing(traces(SMALL, "pre")[1], "fed", 1)]
    assert "block 1, pre-norm" in reader.html["diagram"][0]
    reader.set("norm", "post").set("of_block", 0)
    assert reader.html["diagram"] == [block_panel.drawing(traces(SMALL, "post")[0], "fed", 0)]


# The stream ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("depth", [1, 3])
def test_the_charts_hold_the_stream(norm: str, depth: int) -> None:
    reader = opened(norm=norm, depth=str(depth))
    for what in ("norm", "kept"):
        chart = reader.charts[f"{PAGE}_{what}"]
        assert [line["name"] for line in chart["data"]] == ["post-norm", "pre-norm"], "one colour for each, always"
        places = ["tokens", *(f"{i}: {part}" for i in range(depth) for part in ("attention", "feed-forward"))]
        assert chart["layout"]["xaxis"]["ticktext"] == places
        for line in chart["data"]:
            blocks = traces(SMALL, line["name"], depth)
            pre = line["name"] == "pre-norm"
            stream = [blocks[0].x]
            for trace in blocks:
                stream += [trace.sum_1, trace.sum_2] if pre else [trace.norm_1, trace.norm_2]
            if what == "norm":
                expected = [mean_norm(x[0]) for x in stream]
            else:
                start = blocks[0].x.double()
                expected = [torch.cosine_similarity(x.double(), start, dim=-1).mean().item() for x in stream]
            assert line["x"] == list(range(len(expected)))
            assert line["y"] == pytest.approx(expected)
        for line in chart["data"]:
            assert f"{line['name']} ends at {line['y'][-1]:.3g}" in reader.chart_words[f"{PAGE}_{what}"]


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_both_activations_of_the_same_numbers(config: AttentionConfig) -> None:
    reader = opened(config, of_block="1")
    hidden = traces(config, "post")[1].hidden[0].double()
    gelu, relu = torch.nn.functional.gelu(hidden), hidden.clamp_min(0)
    scene = reader.picture(f"{PAGE}_bent")
    assert scene.header["titles"] == ["GELU", "ReLU"]
    assert (scene.header["rowsName"], scene.header["columnsName"]) == ("token", "dimension")
    half = config.dtype == "float16"
    torch.testing.assert_close(
        torch.from_numpy(scene.weights), torch.stack([gelu, relu]).float(), rtol=2e-3 if half else 1e-5, atol=1e-3
    )
    drawn = torch.from_numpy(scene.weights).double()
    assert (scene.header["low"], scene.header["high"]) == (drawn.min().item(), drawn.max().item())
    rows = {row[0]: row[1:] for row in reader.table_of("ways")}
    for place, x in enumerate(drawn):
        assert number(rows["share of exact zeros"][place].rstrip("%")) == pytest.approx(
            100 * (x == 0).double().mean().item(), abs=0.06
        )
        assert number(rows["smallest number"][place]) == pytest.approx(x.min().item(), abs=6e-4)
        assert number(rows["largest number"][place]) == pytest.approx(x.max().item(), abs=6e-4)
        assert number(rows["mean norm of a token"][place]) == pytest.approx(mean_norm(x), abs=6e-3)
    gap = (drawn[0] - drawn[1]).abs().max().item()
    assert number(reader.caption_of("ways").split("difference ")[1]) == pytest.approx(gap, abs=6e-4)


# What is claimed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_claims_hold(causal: bool) -> None:
    reader = opened(replace(SMALL, causal=causal))
    rows = reader.table_of("claims")
    assert [row[0] for row in rows] == [
        "the block keeps the shape of the tokens",
        *(["the mask reaches the attention"] if causal else []),
    ]
    assert {row[1] for row in rows} == {"✓ holds"}
    assert rows[0][2] == "1 × 5 × 12"


@pytest.mark.parametrize(("heads", "words"), [(3, "odd number of heads"), (4, "equal")])
def test_the_other_path_of_pytorch_is_named(heads: int, words: str) -> None:
    captions = " ".join(caption.value for caption in opened(replace(SMALL, num_heads=heads)).app.caption)
    assert "torch._transformer_encoder_layer_fwd" in captions
    assert words in captions


def test_the_mask_reaches_every_block() -> None:  # M11
    reader = opened(depth="3", block_step="attention.weights")
    for index in range(3):
        reader.set("of_block", index)
        scene = reader.picture(PAGE)
        assert not (scene.weights * (1 - scene.mask)).any()
        assert (scene.weights.sum(-1) > 0.999).all()
    full = reader.set("causal", False).picture(PAGE)
    assert full.mask.all()
    assert (full.weights > 0).all()


@pytest.mark.parametrize("config", [replace(SMALL, num_tokens=1), replace(SMALL, embed_dim=1, num_heads=1)], ids=str)
def test_small_scenes(config: AttentionConfig) -> None:
    reader = opened(config, depth="8")
    assert reader.faults == []
    assert reader.verdict.startswith(":green-badge[")
    for step in PRE_NORM:
        assert reader.set("block_step", step).faults == []
