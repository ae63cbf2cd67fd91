"""The teacher's link: a scene, what of the page it hides, and whether it is for a projector or a handout.

What is hidden is drawn all the same and taken out by the style sheet: a control keeps its value.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import streamlit as st

from dashboard.link import Parameter, address

_SIDEBAR: Final = '[data-testid="stSidebar"]'
_NAVIGATION: Final = f'{_SIDEBAR} [data-testid="stSidebarNav"], [data-testid="stSidebarNavSeparator"]'
_CONTROLS: Final = f'{_SIDEBAR} [data-testid="stSidebarUserContent"]'
# name in the link, what it is called, where it stands on the page
PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "pages": ("the list of pages", _NAVIGATION),
    "controls": ("all controls", _CONTROLS),
    "embed_dim": ("embed dim", ".st-key-embed_dim, .st-key-as_trained"),
    "num_heads": ("heads", ".st-key-num_heads"),
    "num_tokens": ("tokens", ".st-key-num_tokens"),
    "weights": ("weights", ".st-key-weights, .st-key-as_trained"),
    "seed": ("seed", f'{_SIDEBAR} [data-testid="stHorizontalBlock"]:has(.st-key-seed)'),
    "causal": ("causal", ".st-key-causal"),
    "dtype": ("precision", ".st-key-dtype"),
    "curve": ("colour of a weight", ".st-key-curve"),
    "scale": ("colour scale", ".st-key-scale"),
    "compare": ("compare", ".st-key-compare_from_here"),
    "share": ("teacher's link", ".st-key-share"),
    "ask": ("what to fill in", ".st-key-ask"),
    "lead": ("the words at the top", ".st-key-lead"),
    "verdict": ("the verdict's line", "div:has(> .st-key-verdict)"),
    "reveal": ("the button that reveals", ".st-key-reveal"),
    "try": ("what to try", ".st-key-try"),
    "steps": ("step by step", ".st-key-steps, .st-key-judged"),
    "home": ("take it home", ".st-key-take_home"),
    "code": ("the code that ran", ".st-key-code"),
}
VIEWS: Final = ("screen", "projector", "handout")

_STYLES: Final = Path(__file__).with_name("views")
_HIDE: Final = "_hide"
_VIEW: Final = "_view"
_SHARE: Final = "_share"
# the two ways out of a sidebar in which nothing is left
_EMPTY_SIDEBAR: Final = f'{_SIDEBAR}, [data-testid="stExpandSidebarButton"]'


PARAMETERS: Final[dict[str, Parameter]] = {
    "hide": Parameter(lambda text: set(text.split(",")) <= set(PARTS), many=True),
    "view": Parameter(VIEWS.__contains__),
}


def apply() -> None:
    """Do what the link says, before anything of the page is drawn; and say it again, if a page forgot it."""
    state = st.session_state
    state.setdefault(_HIDE, tuple(_asked_to_hide()))
    state.setdefault(_VIEW, _asked_view())
    for name, value in _in_link(state[_HIDE], state[_VIEW]).items():
        if st.query_params.get(name) != value:
            st.query_params[name] = value
    # `assets` waits for the mark before it lets anything of a page be seen that hides something
    st.html(f"{style(state[_HIDE])}{_style_of(state[_VIEW])}<div class='view'></div>")


def is_handout() -> bool:
    """Whether the page is to be printed."""
    return bool(st.session_state[_VIEW] == "handout")


def _asked_to_hide() -> Iterable[str]:
    """The parts that the link names, in their own order; none where it names one that there is not."""
    texts = st.query_params.get_all("hide")
    names = {name for text in texts for name in text.split(",")}
    return (name for name in PARTS if name in names) if names <= set(PARTS) else ()


def _asked_view() -> str:
    view = st.query_params.get("view", "")
    return view if view in VIEWS else VIEWS[0]


def _in_link(hidden: Iterable[str], view: str) -> dict[str, str]:
    """What of it stands in a link; nothing where nothing is asked."""
    said = {"hide": ",".join(hidden), "view": "" if view == VIEWS[0] else view}
    return {name: value for name, value in said.items() if value}


def style(hidden: Collection[str]) -> str:
    """The style sheet that takes parts out of the page, as HTML; empty where there are none."""
    selectors = [PARTS[name][1] for name in hidden]
    if {"pages", "controls"} <= set(hidden):
        selectors.append(_EMPTY_SIDEBAR)
    return f"<style>{', '.join(selectors)} {{ display: none !important; }}</style>" if selectors else ""


@cache
def _style_of(view: str) -> str:
    """The style sheet of a view, as HTML; a screen needs none."""
    return "" if view == VIEWS[0] else f"<style>{(_STYLES / f'{view}.css').read_text(encoding='utf-8')}</style>"


def link_to(said: Mapping[str, Sequence[str]], hidden: Iterable[str], view: str) -> str:
    """A link to what is on screen.

    Args:
        said: the parameters of what is on screen.
        hidden: the parts that it hides.
        view: one of `VIEWS`.
    """
    kept = {name: texts for name, texts in said.items() if name not in PARAMETERS}
    return address({**kept, **{name: [text] for name, text in _in_link(hidden, view).items()}})


def draw(said: Callable[[], Mapping[str, Sequence[str]]]) -> None:
    """Draw the button that opens the panel in which a teacher makes the link; `said` is what it says of the scene."""

    @st.dialog("Teacher's link", width="medium")
    def panel() -> None:
        st.caption("Opens on these very numbers. What is hidden keeps its value.")
        hidden = st.pills(
            "Hide", tuple(PARTS), selection_mode="multi", key="_to_hide", format_func=lambda name: PARTS[name][0]
        )
        view = st.segmented_control(
            "For", VIEWS, default=VIEWS[0], required=True, key="_for",
            help="A projector gets large type; a handout is white, has no controls, and is ready to print.",
        )  # fmt: skip
        link = link_to(said(), hidden, view)
        st.code(link, language=None, wrap_lines=True)
        st.link_button("Try it in a new tab", link, icon=":material/open_in_new:")

    @st.fragment(key=_SHARE)
    def button() -> None:
        # a control that moved just before may say which fragments run: this one then has to say so too
        asked = partial(st.rerun, [_SHARE])
        if st.button("Teacher's link", icon=":material/school:", key="share", on_click=asked, width="stretch"):
            panel()

    button()
