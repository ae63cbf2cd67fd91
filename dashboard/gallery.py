"""The scenes worth showing: for each the settings, the page that shows them, and one sentence of what to look for.

What a sentence says is tested on its scene. It stands on the page too, until a setting of it is moved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from attention.config import RANDOM, AttentionConfig
from dashboard.link import Parameter, written
from dashboard.scene_controls import SIZES

_SCENE: Final = "scene"
# the controls that all pages have, as most scenes want them
_SHARED: Final[dict[str, Any]] = vars(AttentionConfig(num_tokens=12))


@dataclass(frozen=True)
class Scene:
    """A scene: its name in a link, its title, what to look for (Markdown), its page, and the values of the controls.

    `clicked` is what no widget holds, such as the pinned cell: it goes into the link as it is.
    """

    key: str
    title: str
    look: str
    page: str
    values: tuple[tuple[str, Any], ...]
    clicked: tuple[tuple[str, str], ...] = ()


def _scene(
    key: str, title: str, look: str, page: str, *, clicked: dict[str, str] | None = None, **values: Any
) -> Scene:
    return Scene(key, title, look, page, tuple({**_SHARED, **values}.items()), tuple((clicked or {}).items()))


# in the order of a first lesson
SCENES: Final = (
    _scene(
        "rows", "Each row shares out 1",
        "Token 0 sees only itself, so its weight is 1 in every head; each row has one key more to share with.",
        "heads", clicked={"pin": "0-0-0"},
    ),
    _scene(
        "root", "Why divide by √D",
        "With 1,024 dimensions the scores reach 89; put **Step** on `scaled`, and all lie between −3 and 3.",
        "one_head", embed_dim=1024, num_heads=16, num_tokens=16, causal=False,
        head_dim=1024, value_dim=64, step="scores",
    ),
    _scene(
        "heads", "Same cost, other views",
        "One head or twelve: as many parameters and multiplications, but every head shares out in its own way.",
        "head_counts", causal=False, num_tokens=16,
    ),
    _scene(
        "window", "A window, and three tokens that all see",
        "No row has more than four keys: the prefix would show more, but every rule has to allow a cell.",
        "masks", num_tokens=16, rules=["window", "prefix"], window=4, prefix=3, of_head=0,
        clicked={"pin": "0-12-1"},
    ),
    _scene(
        "empty", "A query that sees nothing",
        "Queries 0 and 1 are padding and see only padding: their rows are zeros, where a plain softmax gives NaN.",
        "masks", rules=["padding"], pad_left=2, pad_right=0, of_head=0, clicked={"pin": "0-1-0"},
    ),
    _scene(
        "corner", "Fewer queries than keys",
        "The 4 queries are the newest tokens; with the mask aligned **top-left** the last of them sees 4 keys of 12, "
        "with **bottom-right** all.",
        "masks", rules=["T ≠ S"], queries=4, keys=12, corner="top-left", of_head=0, clicked={"pin": "0-3-11"},
    ),
    _scene(
        "number", "−1e4 is not −∞",
        "At a score scale of 1000 scores reach 29,000, and a row's weight is where it may not be; at 1 none is.",
        "masks", num_tokens=16, rules=[], number="-1e4", loudness=1000, of_head=0,
    ),
    _scene(
        "ways", "Four programs, one answer",
        "A list of heads, a packed projection, einsum and PyTorch differ in the last digits only: by less than 1e-5.",
        "four_ways", training=False,
    ),
    _scene(
        "stream", "Where the norm stands",
        "Over 8 blocks the stream triples with the norm before, and keeps its size with the norm after each sum.",
        "block", embed_dim=256, num_heads=8, num_tokens=16, depth=8, norm="pre", activation="gelu",
    ),
    _scene(
        "polarity", "True means the opposite",
        "The same bool mask: one call attends to what is True, the other to what is False.",
        "pytorch_differs", difference="mask polarity", pair="the same mask",
    ),
    _scene(
        "late", "A mask that comes too late",
        "The rows no longer sum to 1, and the step that is named is the weights: all before them is right.",
        "break_it", mistake="Mask after the softmax", second="none", quiz="off",
    ),
    _scene(
        "closeness", "Why is allclose False?",
        "Correct code: in float32 a few cells in a thousand fail at allclose's defaults, in half precision over half.",
        "precision", num_tokens=16, close_rtol="1e-5", close_atol="1e-8",
    ),
    _scene(
        "causal", "With the mask, and without",
        "A is without, B with it: what a query had on later tokens goes to earlier ones, and the last row stays.",
        "compare", compare_step="weights", clicked={"a": "12x12-of-768-full-seed42-float32"},
    ),
    _scene(
        "row", "Fill in a row",
        "Query 3 sees four keys: take the exponentials of their scaled scores and divide by the sum.",
        "predict", num_tokens=6, ask="row", of_head=0, of_query=3, within="0.05", rules=[],
    ),
    _scene(
        "before", "A head that has learnt to look back",
        "Trained on letters of which some come again: as long as they are new, up to row 23, head 1 has over 0.6 of "
        "each row on the letter before.",
        "heads", weights="repeat, layer 0", embed_dim=64, num_heads=4, num_tokens=32, clicked={"pin": "1-18-17"},
    ),
    _scene(
        "followed", "What followed last time",
        "One layer later: from the second “p” on, row 24, heads 0 to 2 have over 0.6 on the letter that followed the "
        "first one.",
        "heads", weights="repeat, layer 1", embed_dim=64, num_heads=4, num_tokens=32, clicked={"pin": "1-25-18"},
    ),
    _scene(
        "subject", "A verb finds its subject",
        "In head 1 the first verb, “(sleep)”, has over 0.99 on its subject, “bird”, and not on “trees”, which "
        "stands beside it.",
        "heads", weights="agreement, layer 1", embed_dim=64, num_heads=2, num_tokens=32, clicked={"pin": "1-16-7"},
    ),
)  # fmt: skip
BY_KEY: Final = {scene.key: scene for scene in SCENES}
PARAMETERS: Final[dict[str, Parameter]] = {_SCENE: Parameter(BY_KEY.__contains__)}


def go(scene: Scene) -> None:
    """Turn to the scene's page, where the controls are set already."""
    # Streamlit writes no value into the link that a widget finds set when it is first drawn, as a page's own do
    controls = {name: written(value) for name, value in scene.values if name not in _SHARED}
    said = {**controls, _SCENE: [scene.key], **{name: [text] for name, text in scene.clicked}}
    st.switch_page(f"app_pages/{scene.page}.py", query_params=said)


def to_look_for(page: str) -> str:
    """What to look for in the scene that the link names, as long as it is on screen, on its page; empty otherwise."""
    scene, state, asked = BY_KEY.get(st.query_params.get(_SCENE, "")), st.session_state, st.query_params
    if scene is None or scene.page != page:
        return ""
    values = dict(scene.values)
    own = () if values["weights"] == RANDOM else SIZES  # those of a trained layer, whatever the controls hold
    if any(state.get(name, value) != value for name, value in values.items() if name not in own):
        return ""
    if any(asked.get(name) != text for name, text in scene.clicked if name != "pin"):  # a pin changes no number
        return ""
    return f"**{scene.title}.** {scene.look}"


def rows(scenes: Sequence[Scene], columns: int) -> list[Sequence[Scene]]:
    """The scenes cut into rows."""
    return [scenes[start : start + columns] for start in range(0, len(scenes), columns)]
