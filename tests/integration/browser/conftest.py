"""A real browser. Where none is installed these tests are skipped and say so; all others run with Python alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FOUND = next(filter(None, map(shutil.which, BROWSERS)), None)


class Shown(NamedTuple):
    """A page, and everything that went wrong on it or was asked of the network."""

    page: Page
    complaints: list[str]
    requests: list[str]


Show = Callable[..., Shown]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser there is nothing to look at a page with."""
    if FOUND is None:
        missing = pytest.mark.skip(reason=f"none of {', '.join(BROWSERS)} is installed (Debian: apt install chromium)")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(missing)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium, headless, with a profile of its own.

    Playwright runs an event loop in this thread until it ends, so it ends before other modules' tests.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        launched: Any = started.chromium.launch(executable_path=FOUND, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a document in a fresh context."""
    contexts = []

    def opened(document: str, **options: object) -> Shown:
        file = tmp_path / "page.html"
        file.write_text(document, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        shown = Shown(context.new_page(), [], [])
        shown.page.on("console", lambda message: shown.complaints.append(message.text))
        shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(file.as_uri())
        return shown

    yield opened
    for context in contexts:
        context.close()


def background(shown: Shown) -> str:
    """The colour behind everything."""
    return str(shown.page.evaluate("getComputedStyle(document.body).backgroundColor"))


def faint_words(shown: Shown) -> list[str]:
    """Words that stand out too little from what is behind them (WCAG 2.1, 1.4.3: 4.5 to 1)."""
    found: list[str] = shown.page.evaluate(_CONTRAST)
    return found


_CONTRAST = """
() => {
  const parse = (text) => {
    const [r, g, b, a = "1"] = text.match(/[0-9.]+/g);
    return [r, g, b, a].map(Number);
  };
  const light = ([r, g, b]) => {
    const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) { return colour; }
    }
    return [255, 255, 255, 1];
  };
  const faint = [];
  const words = "h1,h2,h3,h4,p,td,th,dt,dd,figcaption,text,span,b,a,button,code,summary,li,kbd";
  document.querySelectorAll(words).forEach((element) => {
    const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) { return; }
    const style = getComputedStyle(element);
    const colour = parse(element instanceof SVGElement ? style.fill : style.color);
    const [one, other] = [light(colour), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) { faint.push(`${element.className} ${element.textContent.trim()} ${ratio.toFixed(2)}`); }
  });
  return faint;
}
"""
