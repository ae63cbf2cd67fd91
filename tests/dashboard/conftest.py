"""What every test of the dashboard wants."""

from collections.abc import Iterator
from functools import cache

import pytest
from streamlit.components.v2 import manifest_scanner

from attention import precision
from dashboard import verdict_panel


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict waits for a reader who goes straight on; no reader is here."""
    monkeypatch.setattr(verdict_panel, "pause", lambda: None)


@pytest.fixture(autouse=True)
def short_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve over many seeds takes fewer: one second's worth."""
    monkeypatch.setattr(precision, "SECONDS", 1)


@pytest.fixture(scope="session", autouse=True)
def one_scan() -> Iterator[None]:
    """Every AppTest reads all installed packages in search of components: most of its time. Once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield
