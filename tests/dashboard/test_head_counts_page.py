"""How many heads: the pictures are those of each count, and the numbers beside them follow from the weights."""

import math
from dataclasses import replace
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from attention.config import AttentionConfig, head_counts
from attention.head_counts import describe_all, head_distances
from attention.multi_head import attend_as_configured
from dashboard import counts_panel
from tests.dashboard.helpers import SCENES, SMALL, Reader, assert_shows, link, number, tables

PAGE: Final = "head_counts"


def opened(config: AttentionConfig = SMALL, **more: str) -> Reader:
    return Reader(PAGE, **{**link(config), **more})


def weights_of(config: AttentionConfig) -> Tensor:
    return attend_as_configured(config).weights[0]


def bits_of(config: AttentionConfig) -> list[float]:
    """Each head's entropy in bits, the mean over its queries, by the sum that defines it."""
    w = weights_of(config).double()
    logs = torch.where(w > 0, w.clamp_min(1e-300).log2(), 0.0)
    found: list[float] = (-(w * logs).sum(-1)).mean(-1).tolist()
    return found


def distance(a: Tensor, b: Tensor) -> float:
    return ((a.double() - b.double()).abs().sum(-1) / 2).mean().item()


@pytest.mark.parametrize(
    ("embed_dim", "heads", "expected"),
    [
        (12, 3, (1, 2, 3, 4)),
        (12, 4, (1, 2, 4)),
        (12, 1, (1, 2, 4)),
        (12, 12, (1, 2, 4, 12)),
        (7, 7, (1, 7)),
        (7, 1, (1,)),
        (5, 5, (1, 5)),
        (1, 1, (1,)),
        (2, 2, (1, 2)),
        (16, 16, (1, 2, 4, 16)),
        (10, 5, (1, 2, 5)),
        (768, 32, (1, 2, 4, 32)),
    ],
)
def test_which_counts_are_side_by_side(embed_dim: int, heads: int, expected: tuple[int, ...]) -> None:
    config = AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=3)
    reader = opened(config)
    assert reader.faults == reader.warnings == []
    assert set(reader.pictures) == {*(f"{PAGE}_{place}" for place in range(len(expected))), f"{PAGE}_pairs"}
    headings = [text for text in reader.said if text.startswith("**") and "of width" in text]
    for place, (count, heading) in enumerate(zip(expected, headings, strict=True)):
        scene = reader.picture(f"{PAGE}_{place}")
        assert scene.header["heads"] == count
        assert heading.startswith(f"**{count} head{'s' * (count > 1)} of width {embed_dim // count}**")
        assert f"√{embed_dim // count}" in heading


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_the_pictures_are_those_of_each_count(config: AttentionConfig) -> None:
    reader = opened(config)
    assert reader.faults == reader.warnings == []
    counts = sorted({n for n in (1, 2, 4) if config.embed_dim % n == 0} | {config.num_heads})
    grid = torch.ones(config.num_tokens, config.num_tokens).tril().bool() if config.causal else None
    for place, count in enumerate(counts):
        scene = reader.picture(f"{PAGE}_{place}")
        assert_shows(scene, list(weights_of(replace(config, num_heads=count))), grid)
        assert scene.header["titles"] == [f"head {i}" for i in range(count)]
        assert (scene.header["rowsName"], scene.header["columnsName"]) == ("query (attends)", "key (attended to)")
    pairs = reader.picture(f"{PAGE}_pairs")
    w = weights_of(config)
    assert_shows(pairs, [head_distances(w.double())])
    for i, j in ((0, config.num_heads - 1), (1, 0), (1, 1)):
        assert pairs.weights[0, i, j] == pytest.approx(distance(w[i], w[j]), abs=1e-6)
    assert pairs.header["titles"] == [f"distance of each pair of {config.num_heads} heads"]
    assert (pairs.header["rowsName"], pairs.header["columnsName"]) == ("head", "head")
    assert 0 <= pairs.weights.min() <= pairs.weights.max() <= 1


@pytest.mark.parametrize("config", [*SCENES, replace(SMALL, embed_dim=7, num_heads=1)], ids=str)
def test_the_table_is_worked_out_from_the_weights(config: AttentionConfig) -> None:
    reader = opened(config)
    rows = reader.table_of("counts")
    counts = head_counts(config.embed_dim)
    assert [row[0] for row in rows] == [str(count) for count in counts]
    embed_dim, tokens = config.embed_dim, config.num_tokens
    for row, count in zip(rows, counts, strict=True):
        counted = replace(config, num_heads=count)
        w = weights_of(counted)
        width, scale, entropy, largest, apart, cells, parameters, flops = row[1:]
        assert number(width) == embed_dim // count
        assert number(scale) == pytest.approx((embed_dim // count) ** -0.5, abs=6e-4)
        assert number(entropy) == pytest.approx(sum(bits_of(counted)) / count, abs=6e-4)
        assert number(largest) == pytest.approx(w.double().amax(-1).mean().item(), abs=6e-4)
        pairs = [distance(w[i], w[j]) for i in range(count) for j in range(count) if i != j]
        assert apart == "–" if count == 1 else number(apart) == pytest.approx(sum(pairs) / len(pairs), abs=6e-4)
        assert number(cells) == count * tokens**2
        assert number(parameters) == 4 * embed_dim**2 + 4 * embed_dim
        # a product of (a, b) and (b, c) is 2abc operations
        products = 4 * (tokens * embed_dim**2) + 2 * count * (tokens * (embed_dim // count) * tokens)
        assert number(flops.removesuffix(" M")) == pytest.approx(2 * products / 1e6, abs=0.06)
    own = f'class="strong">{config.num_heads}<'
    assert reader.html["counts"][0].count('class="strong"') == 1
    assert own in reader.html["counts"][0]
    caption = next(iter(tables(reader.html["counts"][0])))
    assert caption.startswith(f"Every count that divides {embed_dim}. Scores of {config.num_heads} heads")
    scores = attend_as_configured(config).scores.double().sum(1)
    one = attend_as_configured(replace(config, num_heads=1)).scores.double().sum(1)
    gap = number(caption.split("added up, are ")[1].split(" away")[0])
    assert gap == pytest.approx((scores - one).abs().max().item(), rel=0.06)
    assert gap < (0.1 if config.dtype == "float16" else 1e-4)


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_the_chart_holds_the_entropies(config: AttentionConfig) -> None:
    chart = opened(config).charts[f"{PAGE}_entropy"]
    counts = head_counts(config.embed_dim)
    dots, mean, even = chart["data"]
    expected = {place: bits_of(replace(config, num_heads=count)) for place, count in enumerate(counts)}
    assert list(zip(dots["x"], dots["y"], strict=True)) == [
        (place, pytest.approx(value, abs=1e-9)) for place, values in expected.items() for value in values
    ]
    assert mean["x"] == list(expected)
    assert mean["y"] == pytest.approx([sum(values) / len(values) for values in expected.values()])
    seen = [n + 1 if config.causal else config.num_tokens for n in range(config.num_tokens)]
    assert even["y"] == pytest.approx([sum(map(math.log2, seen)) / len(seen)] * len(counts))
    axis = chart["layout"]["xaxis"]
    assert (axis["tickvals"], axis["ticktext"]) == (list(expected), [str(count) for count in counts])
    low, high = chart["layout"]["yaxis"]["range"]
    assert low <= min(dots["y"])
    assert max(dots["y"]) <= high, "no dot lies outside of the chart"


def test_the_chart_in_words() -> None:
    reader = opened()
    (words,) = reader.chart_words.values()
    for count in head_counts(12):
        mean = sum(bits_of(replace(SMALL, num_heads=count))) / count
        assert f"{count} heads {mean:.2f} bits" in words


def test_more_heads_redraw_the_last_picture_only() -> None:
    reader = opened()
    before = dict(reader.pictures)
    reader.set("num_heads", 12)
    assert reader.faults == []
    assert [reader.pictures[f"{PAGE}_{place}"] for place in (0, 1)] == [before[f"{PAGE}_{place}"] for place in (0, 1)]
    assert_shows(
        reader.picture(f"{PAGE}_3"), list(weights_of(replace(SMALL, num_heads=12))), torch.ones(5, 5).tril().bool()
    )
    assert 'class="strong">12<' in reader.html["counts"][0]


def test_every_picture_is_named_in_the_verdict() -> None:
    reader = opened()
    (caption,) = (text.value for text in reader.app.caption if "All pictures were checked" in text.value)
    assert caption.startswith("The table is of 3 heads.")
    assert "heads 1: equal, 2: equal, 3: equal, 4: equal." in caption
    reader.set("rtol", 0.0).set("atol", 0.0)
    (caption,) = (text.value for text in reader.app.caption if "All pictures were checked" in text.value)
    assert "not equal" in caption


def test_statistics_of_a_scene_that_is_not_the_first_one() -> None:
    # cached by the scene without its head count: another scene must not be answered with these numbers
    for seed in (1, 2):
        config = replace(SMALL, seed=seed)
        described = describe_all(config)
        expected = [f"{sum(found.entropy) / len(found.entropy):.3f}" for found in described]
        assert [row[3] for row in opened(config).table_of("counts")] == expected


@pytest.mark.parametrize("figures", [{}, {"causal": False}, {"num_tokens": 1}])
def test_the_range_of_the_chart_holds_even_shares(figures: dict[str, Any]) -> None:
    config = replace(SMALL, **figures)
    chart = counts_panel.entropies(describe_all(config), config)
    assert chart["layout"]["yaxis"]["range"][1] >= max(chart["data"][2]["y"])
