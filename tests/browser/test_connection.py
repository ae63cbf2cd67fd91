"""A line between page and server that drops, or takes its time."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.conftest import judged
from tests.browser.serving import Server
from tests.browser.test_heads import press_seed, scene, wait_for_seed

WAITS = 'css=[data-test-script-state="notRunning"]'
# What a control says from here on, each value once.
WATCH = """
(control) => {
  const shown = (window.shown = []);
  const note = () => shown.at(-1) === control.value || shown.push(control.value);
  const eachFrame = () => (note(), requestAnimationFrame(eachFrame));
  new MutationObserver(note).observe(control, { attributes: true });
  eachFrame();
}
"""


class Line:
    """What the server says can be held back, and is then said in its order; and the line can be cut."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._sockets: list[WebSocketRoute] = []
        self._held: list[bytes] | None = None
        page.route_web_socket("**/_stcore/stream", self._relay)

    def _relay(self, socket: WebSocketRoute) -> None:
        self._sockets.append(socket)
        socket.connect_to_server().on_message(self._say)

    def _say(self, message: str | bytes) -> None:
        if self._held is None:
            self._sockets[-1].send(message)
        else:
            assert isinstance(message, bytes)
            self._held.append(message)

    def _wait_until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        for _ in range(100):
            if is_so():
                return
            self._page.wait_for_timeout(100)
        raise AssertionError(otherwise)

    def cut(self) -> None:
        """Close the socket, and wait until the page has opened another."""
        before = len(self._sockets)
        self._sockets[-1].close()
        self._wait_until(lambda: len(self._sockets) > before, "the page did not connect again")

    def hold(self) -> None:
        """Hold back what the server says from here on."""
        self._held = []

    def wait_for_the_end_of_a_run(self) -> None:
        """Wait until what is held back has the end of a run."""
        self._wait_until(lambda: any(map(_is_end, self._held or ())), "no run has ended")

    def let_go(self) -> None:
        """Say all that was held back."""
        held, self._held = self._held, None
        for message in held or ():
            self._say(message)


def _is_end(message: bytes) -> bool:
    return bool(ForwardMsg.FromString(message).WhichOneof("type") == "script_finished")


@pytest.mark.parametrize(
    ("path", "query", "label"),
    [
        ("", "seed=42", "Seed"),
        ("one_head", "step=q", "Step"),
        ("one_head", "weights=repeat,+layer+1&of_head=0", "Head"),
        ("break_it", "at_step=q", "Step"),
        ("predict", "of_query=3", "Query"),
        ("precision", "close_rtol=1e-6", "rtol of allclose"),
        ("train", "train_layers=1", "Layers"),
    ],
)
def test_what_the_server_says_of_a_press_does_not_undo_the_next(
    browser: Browser, server: Server, path: str, query: str, label: str
) -> None:
    """U16: over a slow line, the answer to one press comes when the reader has pressed again."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    line = Line(page)
    page.goto(f"{server.address}/{path}?{query}")
    judged(page)
    page.locator(WAITS).wait_for()
    control = page.locator(f'input[aria-label="{label}"]:visible, [type=range][aria-label="{label}"]').last
    keys = ["ArrowRight"] if control.get_attribute("type") == "range" else ["ArrowUp", "Enter"]
    line.hold()
    for key in keys:
        control.press(key)
    line.wait_for_the_end_of_a_run()
    after_one = control.input_value()
    for key in keys:
        control.press(key)
    after_two = control.input_value()
    assert after_one != after_two
    control.evaluate(WATCH)
    line.let_go()
    page.locator(WAITS).wait_for()  # since the press it has waited for an answer
    expect(control).to_have_value(after_two)
    assert page.evaluate("() => window.shown") == [after_two]
    page.context.close()


def test_a_dropped_connection_loses_nothing(browser: Browser, server: Server) -> None:
    """U18: the socket is closed under an open page; Streamlit connects again, and everything is still there."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    line = Line(page)
    page.goto(f"{server.address}/?embed_dim=96&num_heads=8&num_tokens=11&causal=false&pin=2-3-4")
    judged(page)
    press_seed(page)
    wait_for_seed(page, 43)
    line.cut()
    press_seed(page)
    wait_for_seed(page, 44)
    assert scene(page) == "8x11-of-96-full-seed44-float32"
    expect(page.locator(".heads .below h2")).to_contain_text("Head 2: query 3 → key 4")
    page.context.close()
