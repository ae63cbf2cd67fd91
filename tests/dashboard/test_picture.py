"""The numbers in the picture are the attention's own, to the last bit."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attention import masks, reference, sample
from attention.config import AttentionConfig
from attention.multi_head import attend_as_configured
from dashboard import heatmap
from dashboard.heatmap import Cell, Look
from tests.dashboard.helpers import SMALL, Reader, decode, open_scene

SCENES: Final = (
    AttentionConfig(),
    SMALL,
    replace(SMALL, causal=False),
    AttentionConfig(embed_dim=8, num_heads=8, num_tokens=7, seed=3),  # heads of width 1
    AttentionConfig(embed_dim=1, num_heads=1, num_tokens=3, causal=False),
    AttentionConfig(embed_dim=10, num_heads=5, num_tokens=1),
    AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256, causal=False),
    *(
        replace(SMALL, dtype=dtype, causal=causal)
        for dtype in ("float64", "bfloat16", "float16")
        for causal in (True, False)
    ),
)


def bits(array: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(array).view(np.uint32)


def payload(weights: NDArray[np.float32], allowed: NDArray[np.bool_]) -> bytes:
    return heatmap.payload(heatmap.picture(weights, allowed, "test"), Look(), "summary", "below")


def draw(heads: int, queries: int, keys: int) -> NDArray[np.float32]:
    return np.random.default_rng(7).random((heads, queries, keys), dtype=np.float32) + np.float32(0.1)


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_picture_is_the_trace(config: AttentionConfig) -> None:  # P25: bfloat16 has no NumPy dtype
    scene = open_scene(config).scene
    with torch.no_grad():
        weights = attend_as_configured(config).weights[0].float().numpy()
    assert np.array_equal(bits(scene.weights), bits(weights))
    ones = np.ones((config.num_tokens, config.num_tokens), dtype=bool)
    assert np.array_equal(scene.mask, np.tril(ones) if config.causal else ones)
    header = scene.header
    assert (header["heads"], header["queries"], header["keys"]) == weights.shape
    assert header["nans"] == 0
    # half of a causal scene is not sent at all
    assert header["sent"] == config.num_heads * np.count_nonzero(scene.mask)


def test_picture_is_pytorchs_too() -> None:
    # the page's promise, checked without our attention: what is drawn is nn.MultiheadAttention's weights
    scene = Reader().scene
    config = AttentionConfig()
    with torch.no_grad():
        answer = reference.as_module(sample.draw_parameters(config), config.num_heads)(
            *[sample.draw_tokens(config).transpose(0, 1)] * 3,
            attn_mask=~torch.ones(16, 16, dtype=torch.bool).tril(),
            average_attn_weights=False,
        )[1]
    torch.testing.assert_close(torch.from_numpy(scene.weights), answer[0])


def test_first_paint() -> None:
    # a finished, interesting scene without a click
    reader = Reader()
    header = reader.scene.header
    assert header["id"] == "12x16-of-768-causal-seed42-float32"
    assert (header["heads"], header["queries"], header["keys"]) == (12, 16, 16)
    assert header["pin"] == {"head": 0, "query": 9, "key": 4}
    assert "query 9 → key 4" in header["below"]
    assert header["enlarged"] is None
    assert "12 heads over 16 tokens under a causal mask" in header["summary"]
    assert reader.verdict.startswith(":green-badge[")
    assert "All 10 steps equal PyTorch's" in reader.verdict
    assert reader.notices == []


def test_same_settings_same_component() -> None:  # U13: another identity would remount it and lose the zoom
    first, second = Reader(), Reader()
    assert first.identity == second.identity
    assert first.message == second.message
    before = first.identity
    first.set("num_tokens", 9).set("embed_dim", 32).set("seed", 5).set("causal", False)
    assert first.identity == before, "new numbers go to the mounted picture"


def test_look_in_the_header() -> None:
    picture = heatmap.picture(draw(2, 3, 3), np.tri(3, dtype=bool), "test")
    shown = decode(heatmap.payload(picture, Look(enlarged=1, pin=Cell(1, 2, 0)), "words", "<b>x</b>")).header
    assert shown["enlarged"] == 1
    assert shown["pin"] == {"head": 1, "query": 2, "key": 0}
    assert (shown["summary"], shown["below"], shown["file"]) == ("words", "<b>x</b>", "attention-test")
    assert (shown["scale"], shown["curve"]) == (Look().scale, Look().curve)
    stops = shown["stops"]
    assert [stops[0][0], stops[-1][0]] == [0, 1]
    assert all(0 <= part <= 255 for _, colour in stops for part in colour)


@pytest.mark.parametrize("summary", ["", "a", "ab", "abc", "abcd", "Köpfe → größer", "😀"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (7, 5), (5, 7), (2, 4), (16, 16)])
def test_message_is_aligned_at_every_length(queries: int, keys: int, summary: str) -> None:
    # `decode` asserts that the parts begin at multiples of four and fill the message
    weights, allowed = draw(3, queries, keys), np.tri(queries, keys, dtype=bool)
    picture = heatmap.picture(weights * allowed, allowed, "test")
    scene = decode(heatmap.payload(picture, Look(), summary, ""))
    assert scene.header["summary"] == summary
    assert np.array_equal(scene.mask, allowed)
    assert np.array_equal(bits(scene.weights), bits(weights * allowed))


def test_queries_are_rows_and_keys_columns() -> None:  # S18, on a scene that is not square
    weights = np.arange(2 * 2 * 3, dtype=np.float32).reshape(2, 2, 3) + 1
    scene = decode(payload(weights, np.array([[True, False, True], [True, True, True]]) | True))
    assert scene.weights[1, 0, 2] == weights[1, 0, 2] == 9
    asymmetric = np.array([[True, False, False], [True, True, False]])
    scene = decode(payload(weights * asymmetric, asymmetric))
    assert scene.packed
    assert scene.mask.tolist() == asymmetric.tolist()
    assert scene.weights[1].tolist() == [[7, 0, 0], [10, 11, 0]]


def test_a_weight_on_a_forbidden_cell_is_sent() -> None:
    # the picture must show such a bug, not leave it out
    weights, allowed = draw(2, 3, 3), np.tri(3, dtype=bool)
    weights *= allowed
    assert decode(payload(weights, allowed)).packed
    weights[1, 0, 2] = np.float32(1e-30)
    scene = decode(payload(weights, allowed))
    assert not scene.packed
    assert np.array_equal(bits(scene.weights), bits(weights))
    assert np.array_equal(scene.mask, allowed)


def test_nan_is_counted() -> None:  # P12
    weights, allowed = draw(2, 3, 3), np.ones((3, 3), dtype=bool)
    weights[0, 1] = np.nan
    assert decode(payload(weights, allowed)).header["nans"] == 3
    weights[:] = np.nan
    header = decode(payload(weights, allowed)).header
    assert header["nans"] == header["sent"] == 18, "the picture then says: every cell is NaN"


def test_nan_on_a_forbidden_cell_is_sent_and_counted() -> None:  # P12, M02
    weights, allowed = draw(2, 3, 3), np.tri(3, dtype=bool)
    weights *= allowed
    weights[1, 0, 2] = np.nan
    scene = decode(payload(weights, allowed))
    assert not scene.packed
    assert scene.header["nans"] == 1
    assert np.isnan(scene.weights[1, 0, 2])


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3,), (1, 3), (2, 3, 3)])
def test_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:  # P19: nothing is dropped or broadcast
    with pytest.raises(ValueError, match=r"\(2, 3, 3\)") as error:
        heatmap.picture(draw(2, 3, 3), np.ones(shape, dtype=bool), "test")
    assert str(shape) in str(error.value)


def test_weights_without_heads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(3, 3\)"):
        heatmap.picture(draw(2, 3, 3)[0], np.ones((3, 3), dtype=bool), "test")


def test_mask_from_a_bool_tensor() -> None:  # P17: a bool heatmap is blank in Plotly; ours are bits
    allowed = masks.grid(masks.causal, 3).numpy()
    assert allowed.dtype == np.bool_
    scene = decode(payload(draw(1, 3, 3) * allowed, allowed))
    assert np.count_nonzero(scene.mask) == 6
    assert np.count_nonzero(~scene.mask) == 3


def test_a_scene_in_which_nothing_is_allowed() -> None:  # M01: zeros, and nothing to send
    scene = decode(payload(np.zeros((2, 3, 3), dtype=np.float32), np.zeros((3, 3), dtype=bool)))
    assert scene.header["sent"] == 0
    assert not scene.mask.any()


def test_a_transposed_or_float64_array_keeps_its_numbers() -> None:
    weights = draw(2, 4, 3).transpose(0, 2, 1)  # not contiguous
    allowed = np.ones((3, 4), dtype=bool)
    assert np.array_equal(bits(decode(payload(weights, allowed)).weights), bits(weights))
    wide: NDArray[Any] = weights.astype(np.float64)
    assert np.array_equal(decode(payload(wide, allowed)).weights, weights)


def test_largest_message_stays_small() -> None:  # P24: below 15 MB
    assert len(open_scene(AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256)).message) < 5e6
    assert len(Reader().message) < 20_000
