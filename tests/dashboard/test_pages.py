"""Every page draws, at the first scene and at the ends of every control."""

from typing import Final

import pytest

from attention.config import DTYPES, AttentionConfig
from dashboard import limits
from tests.dashboard.helpers import ROOT, Reader, open_scene

PAGES: Final = sorted(path.name for path in (ROOT / "dashboard" / "app_pages").glob("*.py") if path.stem != "__init__")

# that show a scene of their own, with its verdict
WITH_A_SCENE: Final = [page for page in PAGES if page not in ("scenes.py", "train.py")]

# S15: the ends of the controls, and the scenes that hide bugs
EXTREMES: Final = (
    AttentionConfig(embed_dim=1, num_heads=1),
    AttentionConfig(embed_dim=1, num_heads=1, num_tokens=1, causal=False),
    AttentionConfig(embed_dim=8, num_heads=8),  # heads of width 1
    AttentionConfig(embed_dim=8, num_heads=8, causal=False),
    AttentionConfig(embed_dim=8, num_heads=1, num_tokens=1),
    AttentionConfig(embed_dim=12, num_heads=3, num_tokens=1, causal=False),
    AttentionConfig(embed_dim=7, num_heads=7, num_tokens=5, seed=0),
    AttentionConfig(embed_dim=64, num_heads=4, num_tokens=64, seed=2**32 - 1),
    AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256),
    *(AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, dtype=dtype) for dtype in DTYPES),
)


def _name(config: AttentionConfig) -> str:
    mask = "causal" if config.causal else "full"
    return f"{config.embed_dim}-{config.num_heads}-{config.num_tokens}-{mask}-{config.dtype}"


def test_there_are_pages() -> None:
    assert "heads.py" in PAGES, "an empty list would make every test below pass"


@pytest.mark.parametrize("page", PAGES)
def test_page_opens_at_the_first_scene(page: str) -> None:
    # also: each file in app_pages is a page of the navigation, or `open` raises
    reader = Reader().open(f"app_pages/{page}")
    assert reader.faults == []
    assert reader.app.title or reader.app.header
    assert reader.rerun().faults == [], "and again, as after a lost connection"


@pytest.mark.parametrize("config", EXTREMES, ids=_name)
@pytest.mark.parametrize("page", PAGES)
def test_page_opens_at_the_extremes(page: str, config: AttentionConfig) -> None:  # S15
    reader = open_scene(config).open(f"app_pages/{page}")
    assert reader.faults == []
    name = page.removesuffix(".py")
    shown = limits.within(name, config)
    blocks = (2, limits.depth_within(shown, 2)) if name == "block" else (1, 1)
    words = limits.said(config, shown, *blocks, page=name)
    expected = [f":material/info: {words}"] if words else []
    assert reader.notices == expected, "a possible scene has nothing to complain about, but that it is large"


@pytest.mark.parametrize("config", EXTREMES, ids=_name)
def test_correct_code_is_never_called_different(config: AttentionConfig) -> None:  # S15, N01
    reader = open_scene(config)
    badge = reader.verdict.split("]")[0]
    # in half precision the usual tolerance is below what two right orders of addition differ by
    half = config.dtype in ("float16", "bfloat16")
    expected = (":green-badge", ":orange-badge") if half else (":green-badge",)
    assert badge.startswith(expected), reader.verdict


def test_many_equal_pictures() -> None:  # U09: with one token every head's picture is [[1.0]]
    reader = open_scene(AttentionConfig(embed_dim=12, num_heads=4, num_tokens=1))
    assert reader.faults == []
    assert reader.scene.weights.tolist() == [[[1.0]]] * 4


def test_a_page_is_a_thin_script() -> None:
    for page in PAGES:
        text = (ROOT / "dashboard" / "app_pages" / page).read_text(encoding="utf-8")
        assert "import torch" not in text, f"{page}: no tensor arithmetic in a page"


def test_the_code_that_ran_is_shown_once_asked_for() -> None:
    reader = Reader()
    assert len(reader.app.code) == 0
    reader.open_code()
    (code,) = reader.app.code
    for function in ("def draw_tokens", "def attend", "def scaled_dot_product", "def softmax"):
        assert function in code.value


def test_controls_still_move_the_page_after_the_whole_script_ran_again() -> None:
    # A fragment may write to a place outside of it only if it wrote there in the last run of the whole script.
    # The verdict's line was left alone when its verdict stood already, and the next change then ended in an error.
    reader = Reader().open_code()
    assert reader.faults == []
    reader.set("num_tokens", 9)
    assert reader.faults == []
    assert reader.scene.header["queries"] == 9
    assert "equal" in reader.verdict
    assert reader.rerun().set("seed", 3).faults == []
