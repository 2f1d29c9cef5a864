"""Opens pages in Chromium for tests; the program is Debian's package, or another Chromium in PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PATIENCE_MS = 60_000
_SHOW = """to => new Promise((done) => {
  if (location.hash === `#${to}`) { done(); return; }
  addEventListener("hashchange", () => setTimeout(done, 50), { once: true });
  location.hash = to;
})"""
_NEXT_PART = """() => {
  globalThis.nextPart = new Promise((done) => {
    addEventListener("hashchange", () => setTimeout(done, 50), { once: true });
  });
}"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Returns the path of the browser's program, or None if it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Opened:
    """An open page.

    Attributes:
        page: The page object of Playwright.
        complaints: Console messages, errors and dialogs.
        requests: The URLs that the page requested, except its own.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def show(self, address: str) -> None:
        """Shows the part of the page that the URL fragment ``address`` selects."""
        self.page.evaluate(_SHOW, address)

    def follow(self, selector: str) -> None:
        """Clicks a link to another part of the page, and waits until that part is shown."""
        self.page.evaluate(_NEXT_PART)
        self.page.click(selector)
        self.page.evaluate("() => globalThis.nextPart")

    def text(self, selector: str) -> str:
        """Returns the text of the element that a CSS selector selects."""
        return str(self.page.inner_text(selector))


@contextmanager
def browser() -> Iterator[Any]:
    """Starts Chromium without a window, and stops it at the end of the ``with`` block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def opened(started: Any, file: Path, width: int = 1200, scheme: str = "light") -> Iterator[Opened]:
    """Opens a local file in a browser without network access."""
    context = started.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    context.set_default_timeout(_PATIENCE_MS)
    found = Opened(context.new_page())
    own = file.absolute().as_uri()
    found.page.on("console", lambda message: found.complaints.append(message.text))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.on("dialog", lambda dialog: (found.complaints.append(dialog.message), dialog.dismiss()))
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(own)
    found.requests.remove(own)
    yield found
    context.close()


def keep(found: Opened, name: str) -> None:
    """Saves a screenshot of the page in the folder ROUNDTABLE_SCREENSHOTS, if this variable is set."""
    folder = os.environ.get("ROUNDTABLE_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        found.page.screenshot(path=str(Path(folder) / f"{name}.png"))
