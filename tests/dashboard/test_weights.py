"""Trained weights on every page: in the link, in the numbers, and with the names of their tokens."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attention.block import BlockTrace
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.multi_head import allowed_by, attend_as_configured, attend_masked
from attention.residual import look_into_both
from attention.trained import LESSONS, load_preset, presets
from attention.trained.inputs import labels, sequence
from attention.trained_layers import TRAINED_LAYERS
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from attention.verify_head import attend_as_configured as attend_with_one_head
from dashboard import cached, comparing, teaching
from dashboard.heatmap import picture
from dashboard.step_picture import of_difference
from tests.dashboard.helpers import SMALL, Reader, assert_shows, link
from tests.dashboard.test_pages import WITH_A_SCENE
from tests.dashboard.test_take_home import Buttons, buttons, npz, text

__all__ = ["buttons"]  # the fixture

REPEAT = AttentionConfig(embed_dim=64, num_heads=4, num_tokens=32, weights="repeat, layer 1")
AGREEMENT = AttentionConfig(embed_dim=64, num_heads=2, num_tokens=9, weights="agreement, layer 1")


def opened(page: str, config: AttentionConfig = REPEAT, **more: str | list[str]) -> Reader:
    reader = Reader(page, **{**link(config), **more})
    assert reader.faults == []
    return reader


def words(reader: Reader) -> str:
    return " ".join((*reader.said, *reader.captions))


@pytest.mark.parametrize("name", TRAINED_LAYERS)
def test_every_layer_can_be_opened_by_its_name_alone(name: str) -> None:
    layer = TRAINED_LAYERS[name]
    reader = Reader(weights=name)
    assert reader.faults == []
    config = AttentionConfig(embed_dim=64, num_heads=layer.heads, num_tokens=16, weights=name)
    assert_shows(reader.scene, list(attend_as_configured(config).weights[0]), allowed_by(config))
    assert reader.scene.header["rowLabels"] == reader.scene.header["columnLabels"] == list(labels(config))
    assert reader.verdict.startswith(":green-badge[")
    assert f"Trained weights of **{name}**: {LESSONS[layer.task].works.learns.says}" in words(reader)
    reader.set("num_tokens", layer.length).set("causal", layer.causal)
    for named in presets()[layer.task].heads:
        said = f"head {named.head} has {named.weight:.0%} of its weight on **{named.pattern}**"
        assert (said in words(reader)) is (named.layer == layer.layer)
    reader.set("num_tokens", layer.length - 1)
    assert "of its weight on" not in words(reader)
    assert f"Whole sequences have {layer.length} tokens." in words(reader)
    reader.set("num_tokens", layer.length).set("causal", not layer.causal)
    assert "of its weight on" not in words(reader)


@pytest.mark.parametrize("page", [page.removesuffix(".py") for page in WITH_A_SCENE])
def test_every_page_has_them(page: str) -> None:
    reader = opened(page, AGREEMENT)
    headers = [reader.picture(key).header for key in reader.pictures]
    assert any(header["rowLabels"] for header in headers)
    for header in headers:
        assert header["rowLabels"] in ([], list(labels(replace(AGREEMENT, num_tokens=min(32, header["queries"])))))
        assert header["columnLabels"] in ([], list(labels(replace(AGREEMENT, num_tokens=min(32, header["keys"])))))
    assert "Trained weights of **agreement, layer 1**" in words(reader)
    if page not in ("break_it", "precision"):  # a mistake, and half precision
        assert reader.verdict.startswith(":green-badge[")


def test_one_is_chosen_and_let_go_again() -> None:
    reader = Reader(embed_dim="96", num_heads="8", num_tokens="5", causal="true")
    reader.set("weights", "sort, layer 0")
    assert reader.faults == []
    assert "Embed dim 64, 1 head: as trained" in reader.captions
    assert not {"embed_dim", "num_heads"} & reader.widgets.keys()
    assert (reader.value("num_tokens"), reader.value("causal")) == (16, False)
    config = AttentionConfig(embed_dim=64, num_heads=1, num_tokens=16, causal=False, weights="sort, layer 0")
    assert_shows(reader.scene, list(attend_as_configured(config).weights[0]))
    reader.set("weights", "random")
    assert (reader.value("embed_dim"), reader.value("num_heads")) == (96, 8)
    config = AttentionConfig(embed_dim=96, num_heads=8, num_tokens=5)
    assert_shows(reader.scene, list(attend_as_configured(config).weights[0]), allowed_by(config))
    assert reader.scene.header["rowLabels"] == []
    assert "Trained weights" not in words(reader)


def test_what_is_no_whole_block_is_random_there_and_trained_again_on_the_next_page() -> None:
    reader = opened("heads").open("block")
    assert reader.faults == []
    assert {"embed_dim", "num_heads"} <= reader.widgets.keys()
    assert "Random, on this page: that layer has no feed-forward network, and is no whole block." in reader.captions
    assert "Trained weights" not in words(reader)
    config = BlockConfig(replace(REPEAT, weights="random"), depth=2)
    both = [inside.trace.attention.weights[0, 0] for inside in look_into_both(config, 0)]
    assert_shows(reader.picture("block"), both, allowed_by(config.scene))
    reader.forget_link().open("head_counts")
    assert reader.faults == []
    assert "Trained weights of **repeat, layer 1**" in words(reader)


def test_a_trained_transformer_is_looked_into_as_it_was_trained() -> None:
    reader = Reader("block").set("weights", "agreement, layer 0")
    assert reader.faults == []
    assert [reader.value(key) for key in ("depth", "norm", "activation")] == [2, "pre", "relu"]
    assert "Trained pre-norm, with ReLU; 2 blocks from here on." in words(reader)
    reader.set("of_block", 1).set("block_step", "fed")
    model = load_preset("agreement")
    config = AttentionConfig(embed_dim=64, num_heads=2, num_tokens=32, weights="agreement, layer 0")
    expected = model.trace(sequence(config)).layers[1]
    assert isinstance(expected, BlockTrace)
    shown = reader.picture("block")
    assert np.array_equal(shown.weights[0], expected.fed[0].numpy())
    assert (shown.header["rowLabels"], shown.header["columnLabels"]) == (list(labels(config)), [])
    assert reader.verdict.startswith(":green-badge[")
    reader.set("weights", "agreement, layer 1")
    assert reader.faults == []
    assert "1 block from here on." in words(reader)
    assert "of_block" not in reader.widgets


def test_more_blocks_than_there_are_is_as_many_as_there_are() -> None:
    reader = opened("block", replace(AGREEMENT, weights="agreement, layer 0"), depth="8")
    assert reader.faults == []
    points = reader.charts["block_norm"]["data"][0]["x"]
    assert len(points) == 1 + 2 * 2


def test_sequences_have_no_more_tokens_than_the_task() -> None:
    reader = opened("heads", replace(AGREEMENT, num_tokens=9), num_tokens="40")
    assert reader.scene.header["queries"] == 32
    assert "Its sequences have 32 tokens, not 40." in words(reader)
    reader.set("num_tokens", 7)
    assert reader.scene.header["queries"] == 7
    assert "Its sequences have" not in words(reader)


SORT = AttentionConfig(embed_dim=64, num_heads=1, num_tokens=16, causal=False, weights="sort, layer 0")


@pytest.mark.parametrize(
    ("page", "config", "said"),
    [
        ("heads", REPEAT, ""),
        ("heads", replace(REPEAT, causal=False), "It was trained with a causal mask."),
        ("heads", SORT, ""),
        ("heads", replace(SORT, causal=True), "It was trained without a causal mask."),
        ("four_ways", replace(REPEAT, causal=False), ""),
        ("four_ways", SORT, "It was trained without a causal mask."),
    ],
)
def test_another_mask_than_it_was_trained_with_is_said(page: str, config: AttentionConfig, said: str) -> None:
    found = words(opened(page, config))
    assert said in found if said else "It was trained with" not in found


def test_as_many_tokens_as_a_sequence_has_are_not_too_many() -> None:
    assert "Its sequences have" not in words(opened("heads", REPEAT))


def test_a_whole_layer_that_is_called_is_said_to_be_random_around_its_attention() -> None:
    said = "Where a whole layer is called, all but its attention is random."
    assert said in words(opened("pytorch_differs", REPEAT))
    assert said not in words(opened("pytorch_differs", AGREEMENT))


@pytest.mark.parametrize(
    ("page", "more", "rows", "columns"),
    [
        ("one_head", {"step": "q"}, "tokens", ""),
        ("one_head", {"step": "k"}, "tokens", ""),
        ("one_head", {"step": "scores"}, "tokens", "tokens"),
        ("head_counts", {}, "tokens", "tokens"),
        ("compare", {"compare_step": "q"}, "tokens", ""),
        ("break_it", {"at_step": "weights"}, "tokens", "tokens"),
    ],
)
def test_only_tokens_have_names_even_where_there_are_as_many_of_others(
    page: str, more: dict[str, str], rows: str, columns: str
) -> None:
    """16 tokens and heads of 16 dimensions, and 4 tokens and 4 heads."""
    for tokens in (16, 4):
        config = replace(REPEAT, num_tokens=tokens)
        reader = opened(page, config, **more)
        named = {"tokens": list(labels(config)), "": []}
        for key in reader.pictures:
            header = reader.picture(key).header
            of_heads = header["pair"][0] == "head"
            if key.endswith(("_pairs", "_from_0", "_from_1", "difference")) and not of_heads:
                continue
            expected = ([], []) if of_heads else (named[rows], named[columns])
            assert (header["rowLabels"], header["columnLabels"]) == expected, key


def test_b_less_a_has_names_where_both_have_the_same_tokens() -> None:
    reader = opened("compare", replace(REPEAT, num_tokens=20), a=cached.identity(REPEAT))
    header = reader.picture(next(key for key in reader.pictures if key.endswith("difference"))).header
    assert header["rowLabels"] == list(labels(replace(REPEAT, num_tokens=20)))


def test_a_picture_of_a_distance_names_its_tokens() -> None:
    drawn = of_difference("weights", torch.zeros(9, 9), torch.ones(9, 9), AGREEMENT)
    assert drawn.row_labels == drawn.column_labels == labels(AGREEMENT)
    drawn = of_difference("q", torch.zeros(9, 9), torch.ones(9, 9), AGREEMENT)
    assert (drawn.row_labels, drawn.column_labels) == (labels(AGREEMENT), ())
    assert of_difference("q", torch.zeros(8, 9), torch.ones(8, 9), AGREEMENT).row_labels == ()
    assert of_difference("weights", torch.zeros(9, 8), torch.ones(9, 8), AGREEMENT).column_labels == ()


def test_a_link_to_the_page_of_blocks_keeps_the_weights_for_the_others() -> None:
    reader = Reader("train", weights="repeat, layer 1").forget_link().open("heads")
    assert reader.value("weights") == "repeat, layer 1"
    assert "Trained weights of **repeat, layer 1**" in words(reader)


def test_sizes_that_a_link_gave_come_back_from_another_page() -> None:
    reader = opened("one_head", replace(REPEAT, num_tokens=9), embed_dim="96", head_dim="3", value_dim="6")
    reader.forget_link().open("masks").set("weights", "random")
    assert (reader.value("embed_dim"), reader.scene.header["queries"]) == (96, 9)
    reader.forget_link().open("one_head")
    assert (reader.value("head_dim"), reader.value("value_dim")) == (3, 6)


def test_a_head_of_the_layer_step_by_step() -> None:
    reader = opened("one_head", of_head="2")
    trace = attend_with_one_head(HeadConfig(REPEAT, 16, 16, 2))
    assert_shows(reader.picture("one_head"), [trace.weights[0, 0]], allowed_by(REPEAT))
    assert "Head width 16: as trained" in reader.captions
    reader.set("step", "q")
    assert_shows(reader.picture("one_head"), [trace.q[0, 0]])
    header = reader.picture("one_head").header
    assert (header["rowLabels"], header["columnLabels"]) == (list(labels(REPEAT)), [])
    reader.set("weights", "random")
    assert (reader.value("head_dim"), reader.value("value_dim")) == (64, 64)
    assert reader.verdict.startswith(":green-badge[")


def test_under_a_mask_of_other_queries_than_keys_each_has_its_own_names() -> None:
    reader = opened("masks", replace(AGREEMENT, num_tokens=12), rules="T ≠ S", queries="3", keys="8")
    mask = MaskConfig(num_queries=3, num_keys=8, causal=True, corner=Corner.BOTTOM_RIGHT)
    config = replace(AGREEMENT, num_tokens=12)
    shown, named = reader.picture("masks"), labels(config)
    assert shown.header["rowLabels"] == list(named[-3:])
    assert shown.header["columnLabels"] == list(named[:8])
    weights = attend_masked(config, mask).weights[0, 0].float().numpy()
    assert np.array_equal(shown.weights[-1], weights)


def test_the_worked_cell_names_its_tokens() -> None:
    named = labels(AGREEMENT)
    below = opened("heads", AGREEMENT, pin="1-8-3").scene.header["below"]
    assert f"<h2>Head 1: query 8 “{named[8]}” → key 3 “{named[3]}”</h2>" in below


def test_a_comparison_keeps_the_weights_of_a() -> None:
    name = cached.identity(REPEAT)
    assert comparing.scene_in(name) == REPEAT
    reader = opened("compare", replace(REPEAT, seed=7), a=name)
    key = next(key for key in reader.pictures if key.endswith("difference"))
    assert reader.picture(key).header["rowLabels"] == [], "its tokens are other letters in A and in B"
    both = [reader.picture(other).header["rowLabels"] for other in reader.pictures if other != key]
    assert both == [list(labels(REPEAT)), list(labels(replace(REPEAT, seed=7)))]
    reader = opened("compare", SMALL, a=name)
    assert "Other weights come with other inputs." in words(reader)
    assert "**weights of repeat, layer 1**" in words(reader)


def test_a_name_that_no_layer_has_is_no_scene() -> None:
    assert comparing.scene_in(f"{cached.identity(SMALL)}-repeat-7") is None
    assert comparing.scene_in("4x33-of-64-causal-seed1-float32-repeat-1") is None, "33 tokens"


def test_what_is_cached_of_one_is_not_of_another() -> None:
    scenes: list[Any] = [replace(REPEAT, num_tokens=9, weights=name) for name in TRAINED_LAYERS]
    scenes += [replace(REPEAT, weights="random"), *(HeadConfig(REPEAT, 16, 16, head) for head in range(4))]
    assert len({cached.identity(scene) for scene in scenes}) == len(scenes)


def test_a_preset_of_the_scripts_has_random_weights() -> None:
    reader = opened("heads").press("Script: 12 heads")
    assert reader.value("weights") == "random"
    config = AttentionConfig(num_tokens=5, causal=False)
    assert_shows(reader.scene, list(attend_as_configured(config).weights[0]))


def test_mistakes_that_one_trained_head_hides_are_shown_with_random_weights() -> None:
    one = AttentionConfig(embed_dim=64, num_heads=1, num_tokens=9, weights="previous, layer 0")
    reader = opened("heads", one, embed_dim="7")
    button = next(label for label in reader.buttons if label.startswith("Show them: "))
    assert "random weights" in button
    reader.press(button)
    assert reader.faults == []
    assert (reader.value("weights"), reader.value("embed_dim"), reader.value("num_heads") > 1) == ("random", 64, True)
    assert reader.notices == []


def test_a_mistake_of_the_block_is_made_in_a_random_one() -> None:
    reader = opened("break_it", mistake="Wrong LayerNorm eps")
    assert "A block has random weights." in words(reader)
    assert "Trained weights" not in words(reader)


def test_the_script_reads_the_file_that_goes_with_it(buttons: Buttons) -> None:
    reader = opened("heads", AGREEMENT)
    reader.expand("Take it home: tensors, script, report").set("_take_home", "Script")
    assert reader.faults == []
    file = buttons["Its tokens and weights"]
    assert f'numpy.load("{file.file}")' in text(buttons["Script"])
    trace, found = attend_as_configured(AGREEMENT), npz(file)
    x, w, b = (found[name] for name in ("tokens", "w_q", "b_q"))
    q = (x[0] @ w.T + b).reshape(9, 2, 32).transpose(1, 0, 2)
    assert np.allclose(q, trace.q[0].numpy(), atol=1e-5)
    assert json.loads(str(found["about"]))["scene"]["weights"] == "agreement, layer 1"


def test_a_random_scene_is_drawn_by_its_script_alone(buttons: Buttons) -> None:
    reader = opened("heads", SMALL)
    reader.expand("Take it home: tensors, script, report").set("_take_home", "Script")
    assert "Its tokens and weights" not in buttons
    assert "numpy" not in text(buttons["Script"])


def test_names_that_are_not_as_many_as_the_tokens_are_refused() -> None:
    tiles = np.zeros((1, 2, 3), dtype=np.float32)
    with pytest.raises(ValueError, match="2 rows need as many labels, not 3"):
        picture(tiles, None, "x", row_labels="abc")
    with pytest.raises(ValueError, match="3 columns need as many labels, not 2"):
        picture(tiles, None, "x", column_labels="ab")
    assert not math.isnan(picture(tiles, None, "x", row_labels="ab", column_labels="abc").low)


def test_sentences_about_cells_name_their_tokens() -> None:
    rows = labels(replace(AGREEMENT, num_tokens=8))
    reader = opened("predict", replace(AGREEMENT, num_tokens=8), of_query="3")
    assert [reader.widgets[key].label for key in reader.widgets if key.startswith("_said")] == [
        f"key {key} “{name}”" for key, name in enumerate(rows)
    ]
    assert reader.caption_of("predict").startswith(f"The row of query 3 “{rows[3]}”, head 0")
    assert reader.picture("predict_scaled").header["hint"] == f"What you need: row 3 “{rows[3]}”."
    reader = opened("predict", replace(AGREEMENT, num_tokens=3), ask="mask").press_key("check")
    assert f"Look again at query 0 “{rows[0]}”, 1 “{rows[1]}”, 2 “{rows[2]}”." in " ".join(reader.said)
    reader = opened("masks", AGREEMENT, pin="0-8-4")
    named = labels(AGREEMENT)
    assert reader.caption_of("mask") == f"Query 8 “{named[8]}” → key 4 “{named[4]}”: may attend"
    reader = opened("break_it", AGREEMENT, at="1-8-4", at_step="weights")
    assert f"`weights`, head 1, query 8 “{named[8]}” → key 4 “{named[4]}”: " in " ".join(reader.said)
    reader = opened("compare", AGREEMENT, a=cached.identity(replace(AGREEMENT, causal=False)))
    assert "query 0 “behind” → key " in " ".join(reader.said)


def test_the_script_of_a_head_calls_it_by_its_number(buttons: Buttons) -> None:
    reader = opened("one_head", AGREEMENT, of_head="1")
    reader.expand("Take it home: tensors, script, report").set("_take_home", "Script")
    assert 'print("weights of head 1, query 8:"' in text(buttons["Script"])


def test_a_link_that_hides_the_sizes_hides_the_word_for_them() -> None:
    for name in ("embed_dim", "weights"):
        assert ".st-key-as_trained" in teaching.style([name])
