"""A visitor without a browser: a real websocket session, which keeps and sends what Streamlit's page would.

Nothing is drawn. Widgets are read from the messages, so that their whole state goes back with each change, as a page
sends it.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

_LONG = 60.0  # seconds between two runs of a fragment that nobody waits for


@dataclass(frozen=True)
class Run:
    """One change: seconds from the message sent to the finished run, bytes that came back, and what went wrong."""

    seconds: float
    received: int
    faults: tuple[str, ...]


class Visitor:
    """One open page."""

    def __init__(self, address: str, query: str = "", page: str = "") -> None:
        self.address, self.query, self.page = address, query, page
        self.states: dict[str, WidgetState] = {}
        self.fragments: dict[str, str] = {}
        self.known: set[str] = set()
        self.by_label: dict[str, str] = {}
        self.buttons: dict[str, tuple[str, str]] = {}
        self.beats: dict[str, float] = {}
        self.said: list[str] = []
        self.page_hash = ""

    async def open(self) -> Run:
        """Connect, and let the page run for the first time."""
        self.socket: ClientConnection = await connect(
            f"{self.address.replace('http', 'ws', 1)}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]  # a plain string is what the header holds
            origin=self.address,  # type: ignore[arg-type]
            max_size=None,
            compression=None,
            open_timeout=60,
        )
        return await self.run()

    async def close(self) -> None:
        """Leave."""
        await self.socket.close()

    async def move(self, label: str, value: float) -> Run:
        """Move a slider, or type into a field of numbers."""
        identity = self.by_label[label]
        state = WidgetState(id=identity)
        if self.states[identity].HasField("double_value"):
            state.double_value = value
        else:
            state.double_array_value.data.append(value)
        self.states[identity] = state
        return await self.run(self.fragments[identity])

    async def press(self, label: str) -> Run:
        """Press a button."""
        identity, fragment = self.buttons[label]
        return await self.run(fragment, WidgetState(id=identity, trigger_value=True))

    async def beat(self) -> Run | None:
        """Wait as long as a fragment with a clock wants, and run it, as a page does; None where none has a clock."""
        if not self.beats:
            return None
        fragment, interval = min(self.beats.items(), key=lambda beat: beat[1])
        await asyncio.sleep(interval)
        return await self.run(fragment)

    async def run(self, fragment: str = "", *pressed: WidgetState) -> Run:
        """Ask for a run, and read until it has finished; one that only asks for another is not the end."""
        asked = BackMsg()
        client = asked.rerun_script
        client.query_string, client.fragment_id, client.page_script_hash = self.query, fragment, self.page_hash
        client.page_name = self.page
        client.widget_states.widgets.extend((*self.states.values(), *pressed))
        client.cached_message_hashes.extend(self.known)
        start = time.perf_counter()
        await self.socket.send(asked.SerializeToString())
        messages, received = await self._read()
        seconds = time.perf_counter() - start
        return Run(seconds, received, tuple(self._take(messages)))

    async def read_run(self) -> tuple[str, ...]:
        """Read until a run has finished that was asked for in another way; what went wrong."""
        messages, _ = await self._read()
        return tuple(self._take(messages))

    async def _read(self) -> tuple[list[ForwardMsg], int]:
        """All messages of a run, and their bytes."""
        messages: list[ForwardMsg] = []
        received = 0
        while True:
            data = await asyncio.wait_for(self.socket.recv(decode=False), 120)
            received += len(data)
            message = ForwardMsg.FromString(data)
            messages.append(message)
            is_end = message.WhichOneof("type") == "script_finished"
            if is_end and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                return messages, received

    def _take(self, messages: list[ForwardMsg]) -> Iterator[str]:
        """Remember what a page would; yields what went wrong."""
        # Streamlit's page forgets messages that no run has used for a while
        self.known = {message.hash or message.ref_hash for message in messages if message.metadata.cacheable}
        self.said = []
        is_begun = True
        for message in messages:
            kind = message.WhichOneof("type")
            if kind == "new_session":
                self.page_hash = message.new_session.page_script_hash
                is_begun = False
            elif kind == "navigation":
                self.page_hash = message.navigation.page_script_hash
            elif kind == "auto_rerun" and message.auto_rerun.interval < _LONG:
                self.beats[message.auto_rerun.fragment_id] = message.auto_rerun.interval
            elif kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
                yield "the script does not compile"
            elif kind == "delta" and not is_begun and not message.delta.fragment_id:
                self.beats, self.buttons, is_begun = {}, {}, True  # the page is drawn anew
            if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
                element = message.delta.new_element
                if element.WhichOneof("type") == "exception":
                    trace = " (with its stack trace)" if element.exception.stack_trace else ""
                    yield element.exception.message + trace
                else:
                    self._meet(element.WhichOneof("type") or "", element, message.delta.fragment_id)

    def _meet(self, kind: str, element: Any, fragment: str) -> None:
        """Remember a widget."""
        proto: Any = getattr(element, kind, None)
        if kind == "markdown":
            self.said.append(proto.body)
        if kind == "button":
            self.buttons[proto.label] = proto.id, fragment
        identity = getattr(proto, "id", "")
        if identity and (state := state_of(kind, proto)):
            if identity not in self.states or proto.set_value:  # else what the reader has set stands
                self.states[identity] = state
            self.fragments[identity], self.by_label[proto.label] = fragment, identity


def state_of(kind: str, proto: Any) -> WidgetState | None:
    """What a page would send back of a widget that it has just been told of; None where that is nothing.

    The value is the default, or what the server has set since.
    """
    state = WidgetState(id=proto.id)
    if kind == "slider" and proto.options:
        places = proto.default if not proto.set_value else ()
        state.string_array_value.data.extend(proto.raw_value or [proto.options[int(place)] for place in places])
    elif kind == "slider":
        state.double_array_value.data.extend(proto.value if proto.set_value else proto.default)
    elif kind == "number_input":
        state.double_value = proto.value if proto.set_value else proto.default
    elif kind == "checkbox":
        state.bool_value = proto.value if proto.set_value else proto.default
    elif kind == "selectbox":
        state.string_value = proto.raw_value if proto.set_value else proto.options[proto.default]
    elif kind == "button_group":
        chosen = proto.raw_values if proto.set_value else [proto.options[place].content for place in proto.default]
        state.string_array_value.data.extend(chosen)
    else:
        return None
    return state
