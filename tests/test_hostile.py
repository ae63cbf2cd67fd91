"""A share of what `tests.benchmarks.hostile` tries in full: nonsense in links, and messages that no page would send."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.benchmarks.hostile import open_links, send_messages
from tests.benchmarks.load import APP
from tests.browser.serving import Server, serve


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(APP) as running:
        yield running


def test_every_link_ends_in_a_page(server: Server) -> None:
    found = asyncio.run(open_links(server, 60, random.Random(7)))
    assert found["ran to the end"] == 60
    assert found["showed an error"] == found["lost"] == 0
    assert "Traceback" not in server.log.read_text(errors="replace")


def test_nobody_sees_a_stack_trace_and_others_go_on(server: Server) -> None:
    found = asyncio.run(send_messages(server, 26, random.Random(8)))  # others look at the first and at the 26th
    assert sum(count for what, count in found.items() if what != "others saw an error") == 26
    assert found["stack trace shown"] == found["others saw an error"] == 0
