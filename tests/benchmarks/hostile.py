"""Bad input, tried and counted: links that ask for nonsense, and websocket messages that no page would send.

    python -m tests.benchmarks.hostile [links] [messages]

Every link is opened in a session of its own; what counts is that the page runs to its end, shows no error, and takes
no more than its time. Messages are noise, halves of messages, forged states of widgets, made-up fragments and pages,
and too large; whoever sends one may lose the session, or be told that there was an error. What counts is that no stack
trace is shown, and that others go on: a visitor who was there before, and one who comes new. It ends with 1 if anything
of it went wrong, or the server's memory or its number of threads has grown.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import ConnectionClosed

from dashboard import controls
from tests.benchmarks.load import APP, memory_of
from tests.benchmarks.visitor import Visitor
from tests.browser.serving import Server, serve

LINKS: Final = 2000
MESSAGES: Final = 500
WAITS: Final = 3.0  # seconds for an answer to what is no message
LOOKS: Final = 25  # messages between two looks at the others
MORE_THREADS: Final = 20
ALLOWED: Final = 300  # MB
SLOW: Final = 5.0  # seconds

PAGES: Final = sorted(file.stem for file in (APP.parent / "app_pages").glob("*.py"))
NAMES: Final = (*controls.PARAMETERS, "nothing_of_that_name", "_seed_slider", "")
VALUES: Final = (
    "", " ", "0", "-1", "1", "2", "12", "99", "1e9", "1e400", "-1e400", "NaN", "inf", "-inf", "None", "null", "true",
    "[]", "{}", "()", "0x10", "1_000", "१२", "12.0", "7.5", "9" * 400, "-" + "9" * 400, "a" * 10_000, "\x00", "\r\n",
    "\u202e",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "'; DROP TABLE x; --",
    "../../../etc/passwd", "${7*7}", "{{7*7}}", "%00", "%n%n", "0-0-0", "9999-9999-9999", "1-2", "float16", "float128",
    "causal", "sum_1", "output", "No scale", "−1e4 for −∞", "🙂" * 50,
)  # fmt: skip


def link(draw: random.Random) -> tuple[str, str]:
    """A page and a query: some parameters, some of them more than once, each possible or not."""
    count = draw.choice([1, 1, 2, 3, 5, 8, 20])
    pairs = [(draw.choice(NAMES), draw.choice(VALUES)) for _ in range(count)]
    if draw.random() < 0.2:
        pairs *= 2  # repeated keys
    query = urlencode(pairs) if draw.random() < 0.9 else "&".join(f"{name}={value}" for name, value in pairs)
    return draw.choice(["", *PAGES, "no_such_page"]), query


async def open_links(server: Server, count: int, draw: random.Random) -> Counter[str]:
    """Every link in a session of its own, four at a time."""
    found: Counter[str] = Counter()
    links = [link(draw) for _ in range(count)]

    async def open_some(mine: list[tuple[str, str]]) -> None:
        for page, query in mine:
            visitor = Visitor(server.address, query, page)
            try:
                run = await visitor.open()
                found["ran to the end"] += not run.faults
                found["showed an error"] += bool(run.faults)
                found[f"took over {SLOW:g} s"] += run.seconds > SLOW
                for fault in run.faults:
                    print(f"  {page}?{query[:200]}: {fault[:200]}")
                await visitor.close()
            except (TimeoutError, OSError, ConnectionClosed) as error:
                found["lost"] += 1
                print(f"  {page}?{query[:200]}: {error!r}")

    await asyncio.gather(*(open_some(links[start::4]) for start in range(4)))
    return found


def message(draw: random.Random, visitor: Visitor) -> bytes:
    """What no page would send."""
    asked = BackMsg()
    client = asked.rerun_script
    client.query_string = draw.choice(["", visitor.query, "a=" + "b" * 100_000])
    client.page_script_hash = draw.choice([visitor.page_hash, "", "0" * 32, "x" * 10_000])
    client.fragment_id = draw.choice(["", "no such fragment", *visitor.fragments.values()])
    for identity in draw.sample(sorted(visitor.states), k=min(5, len(visitor.states))):
        state = client.widget_states.widgets.add(id=draw.choice([identity, identity, "$$ID-of-nothing", ""]))
        kind = draw.randrange(6)
        if kind == 0:
            state.double_array_value.data.extend([draw.choice([1e308, float("nan"), float("inf"), -7.5])] * 3)
        elif kind == 1:
            state.string_value = draw.choice(VALUES)
        elif kind == 2:
            state.int_value = draw.choice([-(2**63), 2**63 - 1, 0])
        elif kind == 3:
            state.json_value = draw.choice(["{", "[]", '{"pin": 7}', '{"pin": "9-9-9-9"}', "null", "NaN"])
        elif kind == 4:
            state.string_array_value.data.extend(["<b>"] * 100)
        else:
            state.bool_value = True
    whole: bytes = asked.SerializeToString()
    half, noise, too_large = whole[: len(whole) // 2], draw.randbytes(draw.randrange(1, 500)), bytes(2 * 2**20)
    return draw.choice([whole, whole, whole, whole, half, noise, b"", too_large])


async def send_messages(server: Server, count: int, draw: random.Random) -> Counter[str]:
    """One after the other, each from a new session; a visitor who was there before looks now and then."""
    found: Counter[str] = Counter()
    before = Visitor(server.address)
    await before.open()
    for number in range(count):
        attacker = Visitor(server.address)
        await attacker.open()
        found[await _answer(attacker, message(draw, attacker))] += 1
        with suppress(ConnectionClosed, OSError):
            await attacker.close()
        if number % LOOKS == 0:
            new = Visitor(server.address)
            looks = (
                await new.open(),
                await new.move("Seed", number % 99 + 1),
                await before.move("Seed", number % 98 + 2),
            )
            found["others saw an error"] += sum(bool(run.faults) for run in looks)
            await new.close()
    await before.close()
    return found


async def _answer(attacker: Visitor, sent: bytes) -> str:
    """What became of one message."""
    try:
        await attacker.socket.send(sent)
        faults = await asyncio.wait_for(attacker.read_run(), WAITS)
    except ConnectionClosed:
        return "connection closed"
    except TimeoutError:
        return f"no answer in {WAITS:g} s"
    if any("stack trace" in fault for fault in faults):
        return "stack trace shown"
    return "told of an error" if faults else "ran to the end"


def threads_of(process: int) -> int:
    """How many threads a process has."""
    return len(list(Path(f"/proc/{process}/task").iterdir()))


def main(links: int, messages: int) -> int:
    """Print what became of them; 1 if anything went wrong."""
    with serve(APP) as server:
        asyncio.run(open_links(server, 20, random.Random(1)))
        memory, threads, start = memory_of(server.process), threads_of(server.process), time.perf_counter()
        opened = asyncio.run(open_links(server, links, random.Random(2)))
        print(f"{links} links in {time.perf_counter() - start:.0f} s: {dict(opened)}", flush=True)
        traces = server.log.read_text(errors="replace").count("Traceback")
        start = time.perf_counter()
        sent = asyncio.run(send_messages(server, messages, random.Random(3)))
        print(f"{messages} messages in {time.perf_counter() - start:.0f} s: {dict(sent)}")
        grown, more = memory_of(server.process) - memory, threads_of(server.process) - threads
    print(f"after the links the server's log held {traces} stack traces")
    print(f"memory grew by {grown} MB ({ALLOWED} allowed), threads by {more} ({MORE_THREADS} allowed)")
    bad = opened["showed an error"] + opened["lost"] + opened[f"took over {SLOW:g} s"] + traces
    bad += sent["stack trace shown"] + sent["others saw an error"]
    return 1 if bad or grown > ALLOWED or more > MORE_THREADS else 0


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(main(*given, *(LINKS, MESSAGES)[len(given) :]))
