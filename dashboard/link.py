"""What a link may ask for. Everything else is taken out of it before a widget reads it, and said.

Streamlit falls back to the default for most nonsense, without a word; an infinite number it does not survive.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import streamlit as st
from streamlit.errors import StreamlitAPIException

from dashboard.heatmap import Cell

_REFUSED: Final = "_refused"
_PAGE: Final = "_page"  # the one that is open
_SAID: Final = "_said_on_page"  # the keys of that page's widgets whose values have been said again


@dataclass(frozen=True)
class Parameter:
    """One parameter: whether a text is a possible value, and the value that its widget would make of it.

    `many` is for a parameter that may stand in the link more than once; `kept` for one whose widget is on some
    pages only: a link may open another page, and the reader may then turn to that one.
    """

    is_possible: Callable[[str], bool]
    value: Callable[[str], Any] = str
    many: bool = False
    kept: bool = False


def open_once(parameters: Mapping[str, Parameter]) -> None:
    """Once a session: take out what is impossible, remember what it was, and keep what another page will want."""
    if _REFUSED in st.session_state:
        return
    asked = {name: st.query_params.get_all(name) for name in parameters}
    refused = [name for name, texts in asked.items() if not _possible(parameters[name], texts)]
    for name in refused:
        del st.query_params[name]
    repeated = [name for name in parameters if len(asked[name]) > 1 and not parameters[name].many]
    for name in set(repeated) - set(refused):
        st.query_params[name] = asked[name][-1]  # some widgets would take the first, others the last
    st.session_state[_REFUSED] = refused
    for name, parameter in parameters.items():
        if parameter.kept and asked[name] and name not in refused:
            values = [parameter.value(text) for text in asked[name]]
            st.session_state[name] = values if parameter.many else values[-1]
    if refused or repeated:
        st.rerun()  # widgets read the link as it was when the run began


def take_refused() -> list[str]:
    """The parameters that were taken out, and said by whoever asks: once."""
    refused: list[str] = st.session_state[_REFUSED]
    st.session_state[_REFUSED] = []
    return refused


def said(parameters: Mapping[str, Parameter], also: Iterable[str]) -> dict[str, list[str]]:
    """What the URL says of what is on screen, and of some parameters even where it says nothing, as their usual value.

    What widgets say stands before what the URL says: the server hears of a change before the browser has written it
    there.
    """
    asked = {name: st.query_params.get_all(name) for name in st.query_params}
    for name in {*asked, *also} & set(parameters):
        if name in st.session_state and _possible(parameters[name], texts := written(st.session_state[name])):
            asked[name] = texts
    return asked


def address(asked: Mapping[str, Sequence[str]]) -> str:
    """The address of this page with what is said."""
    host = st.context.url or ""
    return f"{host}{'' if urlsplit(host).path else '/'}?{urlencode(asked, doseq=True, safe=',')}"


def open_page(page: str) -> None:
    """A page is about to be drawn, the one that was open or another."""
    if st.session_state.get(_PAGE) != page:
        st.session_state[_PAGE], st.session_state[_SAID] = page, set()


def page() -> str:
    """The page that is open, by the name of its file."""
    return str(st.session_state[_PAGE])


def say(key: str, value: object) -> None:
    """Set a widget's value before it is drawn: the first time on a page, and from then on where it has another.

    Not each time: a value that is said undoes a change which the browser has not sent yet.
    """
    if key not in st.session_state[_SAID] or st.session_state.get(key) != value:
        st.session_state[key] = value
    st.session_state[_SAID].add(key)


def keep_in_url(*keys: str) -> None:
    """Say the values of a page's own widgets again before they are drawn: the URL forgot them with the last page."""
    for key in keys:
        if key in st.session_state:
            say(key, st.session_state[key])
    st.session_state[_SAID].update(keys)


def keep_undrawn(**usual: Any) -> None:
    """Keep the values of controls that a page does not draw, at these until they have others.

    They leave the link: a control that is drawn later would take its value from there, whatever was set since.
    """
    for key, value in usual.items():
        st.session_state[key] = st.session_state.get(key, value)
        with suppress(StreamlitAPIException):  # where it has just gone, its parameter goes with it
            st.query_params.pop(key, None)


def one_of(*options: str) -> Callable[[str], bool]:
    """Whether the text is one of the options."""
    return options.__contains__


def whole_number(smallest: int, largest: int) -> Callable[[str], bool]:
    """Whether the text is a whole number within the limits, in plain digits."""
    return lambda text: is_whole(text, smallest, largest)


def is_whole(text: str, smallest: int, largest: int) -> bool:
    """Whether the text is a whole number within the limits, in plain digits."""
    return text.isascii() and text.isdecimal() and len(text) <= len(str(largest)) and smallest <= int(text) <= largest


def is_fraction(text: str) -> bool:
    """Whether the text is a number from 0 to 1."""
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def cell(text: str) -> Cell | None:
    """The cell that "head-query-key" names, or None."""
    parts = text.split("-")
    if len(parts) == 3 and all(is_whole(part, 0, 9999) for part in parts):
        return Cell(*map(int, parts))
    return None


# the two halves of a parameter that is true or false
BOOL: Final = (lambda text: text.lower() in ("true", "false")), (lambda text: text.lower() == "true")


def written(value: object) -> list[str]:
    """A widget's value as it stands in a URL."""
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in written(one)]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [] if value is None else [f"{value:.12g}" if isinstance(value, float) else str(value)]


def _possible(parameter: Parameter, texts: list[str]) -> bool:
    return all(parameter.is_possible(text) for text in texts)
