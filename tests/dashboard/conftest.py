"""What every test of the dashboard wants."""

import pytest

from dashboard import verdict_panel


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict waits for a reader who goes straight on; no reader is here."""
    monkeypatch.setattr(verdict_panel, "pause", lambda: None)
