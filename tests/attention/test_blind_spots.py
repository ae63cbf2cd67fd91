"""What settings hide: the twin says what the scene itself, at its full size, would say of every mistake."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import reference, reference_block, sample, verify_head
from attention.bugs import blind_spots as module
from attention.bugs import pieces
from attention.bugs.blind_spots import BlindSpots, blind_spots, twin
from attention.bugs.catalogue import BUGS, Bug
from attention.bugs.pieces import BlockPieces
from attention.compare import Tolerance, compare
from attention.config import MAX_TOKENS, AttentionConfig, head_counts
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.multi_head import allowed_by, draw, masked_scene
from attention.scenes import Scene
from attention.verify import checks
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from tests.attention.test_verify import configs

C, H, B = AttentionConfig, HeadConfig, BlockConfig
# a page's own words for the settings, a scene small enough to be tried in full
MIDDLE = C(embed_dim=40, num_heads=5, num_tokens=9)
TIGHT = Tolerance(rtol=1e-7, atol=1e-9)
OF_ATTENTION, OF_HEAD, OF_BLOCK = 21, 13, 29


def mask(tokens: int, **rules: Any) -> MaskConfig:
    return MaskConfig(**{"num_queries": tokens, "num_keys": tokens} | rules)


SCENES: dict[str, Scene] = {
    "twelve heads": C(embed_dim=96),
    "attention": MIDDLE,
    "one token": replace(MIDDLE, num_tokens=1),
    "two tokens": replace(MIDDLE, num_tokens=2),
    "one token without a mask": replace(MIDDLE, num_tokens=1, causal=False),
    "no mask": replace(MIDDLE, causal=False),
    "one head": replace(MIDDLE, num_heads=1),
    "heads of width 1": C(embed_dim=10, num_heads=10, num_tokens=9),
    "nothing but 1": C(embed_dim=1, num_heads=1, num_tokens=1, causal=False),
    "an embedding of 1": C(embed_dim=1, num_heads=1, num_tokens=9),
    "of one head": H(MIDDLE, 16, 8),
    "of one head, square": H(MIDDLE, 40, 40),
    "of one head, its q square": H(MIDDLE, 40, 16),
    "of one head of width 1": H(MIDDLE, 1, 8),
    "of one head, one value": H(MIDDLE, 16, 1),
    "of one head, one token": H(replace(MIDDLE, num_tokens=1), 16, 8),
    "of one head, no mask": H(replace(MIDDLE, causal=False), 16, 8),
    "of one head, an embedding of 1": H(C(embed_dim=1, num_heads=1, num_tokens=9), 16, 8),
    "of one head, an embedding of 4": H(C(embed_dim=4, num_heads=1, num_tokens=9), 16, 16),
    "post-norm": B(MIDDLE),
    "pre-norm, deep": B(MIDDLE, depth=3, norm_first=True),
    "relu": B(MIDDLE, activation="relu"),
    "pre-norm, relu, no mask": B(replace(MIDDLE, causal=False), norm_first=True, activation="relu"),
    "a block of one token": B(replace(MIDDLE, num_tokens=1)),
    "a block of one head": B(replace(MIDDLE, num_heads=1), norm_first=True),
    "a block of width 1": B(C(embed_dim=1, num_heads=1, num_tokens=9)),
    "a pre-norm block of width 1": B(C(embed_dim=1, num_heads=1, num_tokens=9), norm_first=True),
    "a block of width 2": B(C(embed_dim=2, num_heads=2, num_tokens=9)),
    "a rule": (MIDDLE, mask(9, window=3)),
    "a window of 1": (MIDDLE, mask(9, window=1)),
    "a window of 1, two ways": (MIDDLE, mask(9, window=1, causal=False)),
    "one query": (MIDDLE, mask(9, num_queries=1)),
    "one key": (MIDDLE, mask(9, num_keys=1)),
    "more queries than keys, by the end": (MIDDLE, mask(9, num_keys=4, corner=Corner.BOTTOM_RIGHT)),
    "padding all over": (MIDDLE, mask(9, padding_left=9)),
    "padding at the end": (MIDDLE, mask(9, padding_right=4, causal=False)),
    "documents of 2 and a prefix": (MIDDLE, mask(9, document=2, prefix=3)),
    "a mask that allows all": (replace(MIDDLE, causal=False), mask(9, causal=False)),
    "a mask of one head": (replace(MIDDLE, num_heads=1), mask(9, stride=2)),
    "a mask of one token, with a rule": (replace(MIDDLE, num_tokens=1), mask(1, window=1)),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", SCENES)


# the same at full size, without the library's own short cut


def unseen(scene: Scene) -> set[str]:
    """Every mistake that leaves all steps of the scene equal, each made in the scene as it is."""
    with torch.no_grad():
        run, pytorch = sides(scene)
        return {bug.key for bug in BUGS if not bug.right and is_unseen(run, pytorch, bug, scene)}


def is_unseen(run: Callable[[BlockPieces], Any], pytorch: Any, bug: Bug, scene: Scene) -> bool:
    if bug.of_block and not isinstance(scene, BlockConfig):
        return True
    try:
        ours = run(bug.pieces)
    except (RuntimeError, TypeError, ValueError):  # shapes that do not fit are seen
        return False
    if isinstance(ours, dict):
        return all(compare(step, ours[step], getattr(pytorch, step), TIGHT).equal for step in ours)
    return all(check.equal for check in checks(ours, pytorch, TIGHT))


def sides(scene: Scene) -> tuple[Callable[[BlockPieces], Any], Any]:
    if isinstance(scene, BlockConfig):
        config = replace(scene.scene, dtype="float64")
        block = sample.draw_tokens(config), sample.draw_block(config), config.num_heads, allowed_by(config)
        theirs = reference_block.run_block(*block, **scene.switches)
        return (lambda put: pieces.run_block(*block, put, **scene.switches)), theirs
    if isinstance(scene, HeadConfig):
        return sides_of_head(replace(scene, scene=replace(scene.scene, dtype="float64")))
    config, under = scene if isinstance(scene, tuple) else (scene, None)
    config = replace(config, dtype="float64")
    tokens, parameters = draw(config)
    queries, allowed, memory = masked_scene(tokens, under) if under else (tokens, allowed_by(config), None)
    answer = reference.attend(queries, parameters, config.num_heads, allowed, memory)
    return (
        lambda put: pieces.attend(queries, parameters, config.num_heads, allowed, put.attention, memory)
    ), answer  # fmt: skip


def sides_of_head(scene: HeadConfig) -> tuple[Callable[[BlockPieces], Any], Any]:
    """One head, its steps written out: no bias, and nothing after the context."""
    tokens, weights = verify_head.draw(scene)
    allowed = allowed_by(scene.scene)
    grid = torch.ones(scene.scene.num_tokens, scene.scene.num_tokens, dtype=torch.bool) if allowed is None else allowed

    def run(put: BlockPieces) -> Any:
        p = put.attention
        q, k, v = (
            p.split(p.project(tokens, weights[f"{name}.weight"], torch.zeros(1, dtype=torch.float64).expand(width)), 1)
            for name, width in (("w_q", scene.head_dim), ("w_k", scene.head_dim), ("w_v", scene.value_dim))
        )
        v = p.values(q, k, v)
        scores = p.score(q, k)
        scaled = p.scale(scores, q.shape[-1], 1)
        masked = p.mask(scaled, grid)
        found = p.normalise(masked, scaled, grid)
        context = p.after(found, grid) @ v
        return {
            "q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "masked": masked,
            "weights": p.show(found, grid), "context": context,
        }  # fmt: skip

    return run, reference.attend_one(tokens, weights, allowed)


@cache
def shown_by_default(kind: str, norm_first: bool = False) -> set[str]:
    """What the scene that a page begins with can show; of the block, `test_bugs.py` runs that very scene."""
    every = {bug.key for bug in BUGS if not bug.right}
    if kind == "block":
        return every - {"plain-softmax"}
    return every - unseen(C() if kind == "attention" else H(C(), 64, 64))


def kind_of(scene: Scene) -> str:
    return "block" if isinstance(scene, BlockConfig) else "head" if isinstance(scene, HeadConfig) else "attention"


def changed(scene: Scene, instead: tuple[tuple[str, Any], ...]) -> Scene:
    """The scene after its reader has set the controls so; all others stay, and the rules that are on too."""
    values = dict(instead)
    config = scene[0] if isinstance(scene, tuple) else scene if isinstance(scene, AttentionConfig) else scene.scene
    named = {
        name: value for name, value in values.items() if name in ("num_tokens", "num_heads", "embed_dim", "causal")
    }
    config = replace(config, **named)
    rest = {name: value for name, value in values.items() if name not in named}
    if isinstance(scene, tuple):
        under = scene[1]
        unequal = (under.num_queries, under.num_keys) != (scene[0].num_tokens,) * 2
        if rest.pop("rules", None) == []:
            under, unequal = mask(config.num_tokens), False
        if not unequal:
            under = replace(under, num_queries=config.num_tokens, num_keys=config.num_tokens)
        return config, replace(under, causal=values.get("causal", under.causal if unequal else scene[1].causal))
    if isinstance(scene, AttentionConfig):
        assert not rest
        return config
    return replace(scene, scene=config, **rest)


# tests


@EVERY
def test_a_scene_hides_what_it_hides_at_full_size(name: str) -> None:
    # S15 among them
    scene = SCENES[name]
    found, can_show = blind_spots(scene), shown_by_default(kind_of(scene))
    assert set(found.hidden) == unseen(scene) & can_show
    assert found.of == len(can_show)
    assert set(found.hidden) <= can_show  # nothing that the default could not show either


@EVERY
def test_other_settings_show_what_they_say(name: str) -> None:
    scene = SCENES[name]
    found = blind_spots(scene)
    if not found.hidden:
        assert found.instead == ()
        assert found.hidden_then == 0
        return
    assert found.instead
    again = blind_spots(changed(scene, found.instead))
    assert len(again.hidden) == found.hidden_then == 0
    # and none of them for nothing
    for left_out in found.instead:
        fewer = tuple(setting for setting in found.instead if setting != left_out)
        pair = {"head_dim": "value_dim", "value_dim": "head_dim", "embed_dim": "num_heads", "num_heads": "embed_dim"}
        if pair.get(left_out[0]) in dict(found.instead):
            continue  # widths are set together
        assert len(blind_spots(changed(scene, fewer)).hidden) > 0


@pytest.mark.parametrize(
    ("scene", "of"),
    [(C(), OF_ATTENTION), (H(C(), 64, 64), OF_HEAD), (B(C()), OF_BLOCK), (B(C(), norm_first=True), OF_BLOCK),
     ((C(), mask(16)), OF_ATTENTION)],
    ids=["attention", "one head", "post-norm", "pre-norm", "masks"],
)  # fmt: skip
def test_what_a_page_begins_with_hides_nothing(scene: Scene, of: int) -> None:
    assert blind_spots(scene) == BlindSpots((), of, (), 0)


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("one head", ["embed-scale", "view-split", "view-merge", "interleaved", "averaged"]),
        ("heads of width 1", ["no-scale", "scale-twice", "interleaved"]),
        ("no mask", ["mask-off-by-one", "upper-triangle", "mask-after-softmax", "masked-zero", "ten-thousand"]),
        ("of one head of width 1", ["no-scale", "scale-twice"]),
        ("relu", ["relu", "tanh-gelu"]),
        ("two tokens", []),
    ],
)
def test_what_some_settings_hide_by_hand(name: str, hidden: list[str]) -> None:
    assert list(blind_spots(SCENES[name]).hidden) == hidden  # in the catalogue's order


@pytest.mark.parametrize(
    ("scene", "instead"),
    [
        (SCENES["one token"], {"num_tokens": 16}),
        (SCENES["one token without a mask"], {"num_tokens": 16, "causal": True}),
        (SCENES["one head"], {"num_heads": 2}),
        (C(embed_dim=9, num_heads=1), {"num_heads": 3}),  # a number of heads that divides, S07
        (C(embed_dim=35, num_heads=1), {"num_heads": 5}),
        (C(embed_dim=37, num_heads=1), {"embed_dim": 768, "num_heads": 12}),
        (C(embed_dim=12, num_heads=12), {"num_heads": 2}),
        (SCENES["nothing but 1"], {"num_tokens": 16, "causal": True, "embed_dim": 768, "num_heads": 12}),
        (SCENES["of one head of width 1"], {"head_dim": 64, "value_dim": 64}),
        (SCENES["of one head, an embedding of 1"], {"embed_dim": 768, "num_heads": 12}),
        (SCENES["pre-norm, relu, no mask"], {"causal": True, "activation": "gelu"}),
        (SCENES["a window of 1"], {"rules": []}),
        (SCENES["a mask of one token, with a rule"], {"rules": [], "num_tokens": 16}),
        ((replace(MIDDLE, num_tokens=1), mask(1)), {"num_tokens": 16}),
        (SCENES["a mask that allows all"], {"causal": True}),
        (SCENES["padding all over"], {"rules": []}),
        (SCENES["a window of 1, two ways"], {"rules": [], "causal": True}),
    ],
    ids=str,
)  # fmt: skip
def test_the_settings_that_show_more(scene: Scene, instead: dict[str, Any]) -> None:
    assert dict(blind_spots(scene).instead) == instead


@settings(max_examples=40)
@given(configs(("float32", "float16")), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_a_twin_keeps_the_structure(config: AttentionConfig, head_dim: int, value_dim: int, norm_first: bool) -> None:
    small = twin(config)
    assert (small.num_heads, small.head_dim) == (min(config.num_heads, 3), min(config.head_dim, 4))
    assert small.num_tokens == min(config.num_tokens, 6)
    assert (small.causal, small.dtype) == (config.causal, "float64")
    assert twin(small) == small
    block = twin(BlockConfig(config, depth=8, norm_first=norm_first, activation="relu"))
    assert block == BlockConfig(small, 1, norm_first, "relu")
    head = twin(HeadConfig(config, head_dim, value_dim))
    assert (head.head_dim, head.value_dim) == (min(head_dim, 4), min(value_dim, 4))
    assert (head.scene.num_tokens, head.scene.causal) == (small.num_tokens, small.causal)
    assert head.scene.embed_dim <= min(config.embed_dim, 5)
    assert (head.scene.embed_dim == 1) >= (config.embed_dim == 1)
    # what is square stays so
    assert (head.scene.embed_dim == head.head_dim) >= (config.embed_dim == head_dim)
    rules = mask(config.num_tokens, window=1)
    assert twin((config, rules)) == (replace(small, num_tokens=config.num_tokens), rules)


@pytest.mark.parametrize("kind", ["attention", "block", "mask"])
def test_other_settings_fit_whatever_the_width(kind: str) -> None:
    for width in (1, 2, 3, 5, 9, 35, 37):
        config = C(embed_dim=width, num_heads=1, num_tokens=9)
        scenes: dict[str, Scene] = {"attention": config, "block": B(config), "mask": (config, mask(9, stride=2))}
        scene = scenes[kind]
        found = blind_spots(scene)
        then = changed(scene, found.instead)  # AttentionConfig refuses what does not fit
        assert len(blind_spots(then).hidden) == found.hidden_then == 0 < len(found.hidden)


def test_neither_seed_nor_dtype_says_what_is_hidden() -> None:
    config = SCENES["one head"]
    assert isinstance(config, AttentionConfig)
    others = [replace(config, seed=seed, dtype=dtype) for seed in (0, 7) for dtype in ("float16", "float64")]
    assert {blind_spots(other) for other in others} == {blind_spots(config)}


def test_what_was_found_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in (blind_spots, module._unseen):
        assert 0 < (kept.cache_info().maxsize or 0) <= 2048
    blind_spots(MIDDLE)

    def not_again(*_: Any) -> Any:
        raise AssertionError("it was found before")

    monkeypatch.setattr(module, "_sides", not_again)
    # of the same structure: nothing is run once more, whatever is dragged
    for other in (MIDDLE, replace(MIDDLE, seed=123, num_tokens=MAX_TOKENS), C(embed_dim=80, num_heads=8)):
        assert blind_spots(other) == blind_spots(MIDDLE)
    assert head_counts(80)[3] == 5


def test_nothing_is_recorded_and_the_mode_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    modes, state = [], torch.get_rng_state()

    def spy(*_: Any) -> bool:
        modes.append(torch.is_grad_enabled())
        return True

    monkeypatch.setattr(module, "_is_equal", spy)
    module._unseen.__wrapped__(twin(SCENES["one token"]))
    assert set(modes) == {False}
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
