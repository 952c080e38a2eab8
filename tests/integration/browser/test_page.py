"""The page in a browser: it needs nothing from elsewhere, and it can be searched, walked through and printed."""

from __future__ import annotations

import pytest

from hami_plugins.output import page
from tests.builders import a_device, a_node, a_record, a_share, allocated
from tests.integration.browser.conftest import Show, background, faint_words
from tests.unit.plan.plans import REGISTRY, a_plan, asking, cordoned, holding

EVIL = "<img src=x onerror=window.broken=1>"


def a_document(nodes: int = 4) -> str:
    """A plan of three pods, one of which does not fit, on a small cluster with every kind of trouble."""
    cards = tuple(a_device(index=at) for at in range(3))
    running = a_record(allocated(a_share("card-0", 4096, 20)), name="old", namespace="team")
    entries = [holding(a_node("box-0", *cards), running), a_node("box-1", a_device(healthy=False))]
    entries += [cordoned(a_node("box-2", *cards)), a_node(EVIL, *cards)]
    entries += [a_node(f"spare-{at}", *cards) for at in range(nodes - len(entries))]
    plan = a_plan(asking(2048, name="new"), asking(1024, name="newer"), asking(10**6, name="big"), on=entries)
    refusal = page.RefusalPanel(title="default/big", stage="does not fit", why=EVIL, changes=("ask for less",))
    held = page.RefusalPanel(
        title="default/held",
        stage="waits",
        why="held at the gate",
        holders=("x takes 9 of 10",),
        changes=("without x",),
    )
    return page.render(plan, REGISTRY, page.Heading(title="A plan", source=EVIL), refusals=[refusal, held])


def test_the_page_asks_nobody_for_anything_and_complains_of_nothing(show: Show) -> None:
    shown = show(a_document())
    shown.page.click("#theme")
    shown.page.fill("#search", "old")
    shown.page.keyboard.press("Enter")
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []
    assert len(shown.requests) == 1


def test_names_run_nothing(show: Show) -> None:
    shown = show(a_document())
    assert shown.page.evaluate("window.broken") is None
    assert shown.page.locator("h4", has_text="onerror").count() == 1


def test_searching_shows_the_nodes_of_a_pod_and_marks_its_parts(show: Show) -> None:
    shown = show(a_document())
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("team old")
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".node:visible h4").all_text_contents() == ["box-0"]
    assert shown.page.locator(".hit").count() == 1
    assert shown.page.locator("#found").text_content() == "1 pod on 1 node"
    assert "team/old" in (shown.page.locator("#tip").text_content() or "")
    shown.page.keyboard.press("Escape")
    assert shown.page.locator(".node:visible").count() == 4


def test_searching_for_nothing_says_so(show: Show) -> None:
    shown = show(a_document())
    shown.page.fill("#search", "nobody")
    shown.page.wait_for_selector("#none:visible")
    assert shown.page.locator(".node:visible").count() == 0


def test_searching_finds_nodes_by_name_too(show: Show) -> None:
    shown = show(a_document())
    shown.page.fill("#search", "box-2")
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".node:visible h4").all_text_contents() == ["box-2"]


@pytest.mark.parametrize(("kind", "names"), [("u", {"box-1", "box-2"}), ("p", {"box-0"})])
def test_nodes_can_be_filtered(show: Show, kind: str, names: set[str]) -> None:
    shown = show(a_document())
    shown.page.select_option("#show", kind)
    assert set(shown.page.locator(".node:visible h4").all_text_contents()) == names


def test_bars_can_be_walked_through_with_the_keyboard(show: Show) -> None:
    shown = show(a_document())
    first = shown.page.locator(".node .bar > b").first
    first.focus()
    words = [shown.page.locator("#tip").text_content()]
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End", "Home", "ArrowUp", "ArrowLeft"):
        shown.page.keyboard.press(key)
        words.append(shown.page.locator("#tip").text_content())
    assert words[0] is not None
    assert words[0].startswith("team/old (running)")
    assert len(set(words)) > 3
    assert shown.page.evaluate("document.activeElement.closest('.bar') !== null")
    assert shown.page.locator(".node .bar > b[tabindex='0']").count() == shown.page.locator(".node").count()


def test_the_tab_key_reaches_the_skip_link_first_and_it_leads_to_the_nodes(show: Show) -> None:
    shown = show(a_document())
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.className") == "skip"
    shown.page.keyboard.press("Enter")
    assert shown.page.evaluate("document.activeElement.id") == "nodes"


def test_parts_of_one_pod_are_marked_together(show: Show) -> None:
    shown = show(a_document())
    part = shown.page.locator(".node .bar > b[data-p]").first
    part.hover()
    assert (
        shown.page.locator(".same").count() == shown.page.locator(f"[data-p='{part.get_attribute('data-p')}']").count()
    )


def test_the_link_of_a_planned_pod_opens_its_node(show: Show) -> None:
    shown = show(a_document())
    shown.page.click("#close")
    shown.page.click("tbody a")
    assert shown.page.locator(".node:target h4").is_visible()


def test_the_page_is_dark_where_the_reader_wants_it_dark(show: Show) -> None:
    light, dark = (show(a_document(), color_scheme=scheme) for scheme in ("light", "dark"))
    assert background(light) != background(dark)


def test_the_theme_can_be_chosen_and_stays(show: Show) -> None:
    shown = show(a_document(), color_scheme="light")
    auto = background(shown)
    shown.page.click("#theme")
    assert background(shown) == auto
    shown.page.click("#theme")
    dark = background(shown)
    assert dark != auto
    shown.page.reload()
    assert background(shown) == dark
    assert shown.page.locator("#theme").text_content() == "Theme: dark"


def test_who_holds_a_pod_stands_beside_what_would_help_where_there_is_room(show: Show) -> None:
    for width, beside in ((1280, True), (390, False)):
        parts = show(a_document(), viewport={"width": width, "height": 800}).page.locator(
            ".refusal:has-text('held') .two > div"
        )
        holders, changes = (parts.nth(at).bounding_box() for at in (0, 1))
        assert holders is not None
        assert changes is not None
        assert (holders["y"] == changes["y"]) is beside


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(show: Show, scheme: str) -> None:
    shown = show(a_document(), color_scheme=scheme)
    faint = faint_words(shown)
    assert faint == []


def test_paper_is_light_and_has_no_buttons(show: Show) -> None:
    shown = show(a_document(), color_scheme="dark")
    shown.page.emulate_media(media="print")
    assert background(shown) == "rgb(255, 255, 255)"
    assert not shown.page.locator("#search").is_visible()
    assert not shown.page.locator("#theme").is_visible()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_of_the_window(show: Show, width: int) -> None:
    shown = show(a_document(), viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_large_cluster_is_found_through_quickly_enough_to_type(show: Show) -> None:
    shown = show(a_document(nodes=1000))
    assert shown.page.locator("details.group[open]").count() == 1
    shown.page.fill("#search", "spare-777")
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".node:visible h4").all_text_contents() == ["spare-777"]


def test_everything_can_be_read_without_the_script(show: Show) -> None:
    shown = show(a_document(), java_script_enabled=False)
    assert shown.page.locator(".node h4", has_text="box-0").is_visible()
    assert not shown.page.locator("#search").is_visible()
    assert not shown.page.locator("#theme").is_visible()
