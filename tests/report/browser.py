"""The page in a real browser: what it shows are the recording's numbers, it is used by mouse and keyboard, and asks for nothing."""
import os
import re
import sys

import numpy as np

import recordings
from chromium import Browser
from pages import Recorded, change_meta, make, write_hostile

program, folder = sys.argv[1], sys.argv[2]
checked = 0


def path(name):
    return os.path.join(folder, name)


def record(name, **kw):
    recordings.write(path(name), recordings.Spec(**kw))
    return path(name)


def number(text):
    return float(text.replace("%", "")) / 100


def lists(pane=0):
    """The ranked lists: [[title, [[position, value], …]], …]"""
    got = browser.run(f"""[...document.querySelectorAll('.pane')[{pane}].querySelectorAll('.details .list')].map((list) => [
        list.querySelector('h4').textContent, [...list.querySelectorAll('.entry')].map((e) => [e.querySelector('.number').textContent,
        e.querySelector('.value').textContent])])""")
    return [[title, [[position, number(value)] for position, value in entries]] for title, entries in got]


def same_list(entries, expected, n=10):
    """Values of the largest, and each value that of its position; shown with two digits of 8 bits."""
    global checked
    order = sorted(expected[~np.isnan(expected)], reverse=True)[:n]
    assert len(entries) == len(order), (entries, order)
    for (position, value), largest in zip(entries, order):
        for true in [largest, expected[int(position)]]:
            assert abs(value - true) <= 0.06 * true + 0.004 * np.sqrt(true * np.nanmax(expected)) + 1e-5, (entries, order)
        checked += 1


def pixels(pane=0):
    return browser.run(f"document.querySelectorAll('canvas')[{pane}].toDataURL()")


def choose(label, value, pane=0):
    browser.run(f"""(() => {{
        const picker = [...document.querySelectorAll('.pane')[{pane}].querySelectorAll('.picker')].find((p) => p.textContent.startsWith('{label}'));
        const select = picker.querySelector('select');
        select.value = '{value}';
        if (select.value !== '{value}') throw new Error('no such choice: {value}');
        select.dispatchEvent(new Event('change'));
    }})()""")


def set_step(step, pane=0):
    browser.run(f"""(() => {{ const s = document.querySelectorAll('input[type=range]')[{pane}]; s.value = {step}; s.dispatchEvent(new Event('input')); }})()""")


def get_step(pane=0):
    return int(browser.run(f"document.querySelectorAll('input[type=range]')[{pane}].value"))


def tokens(pane=0):
    return browser.run(f"[...document.querySelectorAll('.pane')[{pane}].querySelectorAll('.text .token')].map((t) => [t.textContent, t.className])")


def selected(pane=0):
    return browser.run(f"[...document.querySelectorAll('.pane')[{pane}].querySelectorAll('.text .token')].findIndex((t) => t.classList.contains('selected'))")


def check_text(rec, step):
    """Masks are dim, what the step wrote is marked, everything else stands there."""
    global checked
    for j, (text, look) in enumerate(tokens()):
        now, before, words = rec.tokens[step + 1, j], rec.tokens[step, j], look.split()
        assert ("mask" in words) == (now >= 0 and now == rec.meta["model"]["mask_id"]), (step, j, look)
        assert ("future" in words) == (now < 0), (step, j, look)
        assert ("fresh" in words) == (now != before), (step, j, look)
        piece = rec.meta["pieces"][j].replace("\\\\", "\\")
        assert text.replace("↵", "\n") == ("" if "mask" in words else piece), (text, piece)
        checked += 1


def open_page(name, *sources, **kw):
    make(program, path(name), *sources)
    browser.open(path(name), **kw)


def fine():
    assert browser.complaints() == [], browser.complaints()


def check_mouse_and_pickers(source):
    rec = Recorded(source)
    open_page("none.html", source)
    before = tokens()
    check_text(rec, 0)
    set_step(3)
    assert tokens() != before
    check_text(rec, 3)
    every = list(range(4))
    # nothing is selected: what receives most
    same_list(lists()[0][1], np.nanmean(rec.latest(3, rec.layers, every), axis=0))
    browser.click_on(".text .token:nth-child(5)")
    assert selected() == 4
    full = rec.latest(3, rec.layers, every)
    same_list(lists()[0][1], full[4])
    same_list(lists()[1][1], full[:, 4])
    tint = browser.run("[...document.querySelectorAll('.text .token')].map((t) => Number(t.style.getPropertyValue('--tint')))")
    assert np.allclose(tint, (full[4] / full[4].max()) ** 0.6, atol=0.02), tint

    for label, value, layers, heads, step in [("Layer", 1, [1], every, 3), ("Head", 2, [1], [2], 3), ("Layer", "mean", rec.layers, [2], 3)]:
        seen = pixels()
        choose(label, value)
        assert pixels() != seen, (label, value)
        same_list(lists()[0][1], rec.latest(step, layers, heads)[4])
        same_list(lists()[1][1], rec.latest(step, layers, heads)[:, 4])
    seen = pixels()
    set_step(5)
    assert pixels() != seen
    same_list(lists()[0][1], rec.latest(5, rec.layers, [2])[4])
    browser.click_on(".list .entry")  # an entry selects its token
    assert selected() == int(np.nanargmax(rec.latest(5, rec.layers, [2])[4]))

    set_step(0)
    browser.click_on("button.play")
    browser.wait("Number(document.querySelector('input[type=range]').value) >= 2")
    browser.click_on("button.play")
    assert browser.run("document.querySelector('button.play').textContent") == "Play"
    fine()


def check_map(source):
    """Cells of the canvas: their colours by zoom, their numbers by pointing, their queries by clicking."""
    rec = Recorded(source)
    full = rec.latest(0, rec.layers, list(range(4)))
    T = full.shape[0]
    browser.run("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    x, y, w = browser.run("(b => [b.left + 92, b.top + 92, b.width - 94])(document.querySelector('canvas').getBoundingClientRect())")
    set_step(0)
    choose("Layer", "mean")
    choose("Head", "mean")
    for row, column in [(2, 7), (9, 0)]:
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + (column + 0.5) / T * w, y=y + (row + 0.5) / T * w)
        shown = browser.run("document.getElementById('tooltip').innerText").split("\n")
        assert re.match(rf"{row} .* → {column} ", shown[0]), shown
        assert abs(number(shown[1]) - full[row, column]) < 0.06 * full[row, column] + 1e-3, (shown, full[row, column])
    browser.click(x + 0.5 / T * w, y + 6.5 / T * w)
    assert selected() == 6
    assert browser.run("document.activeElement.tagName") == "CANVAS"
    whole = pixels()
    for keys in [["+"], ["+", "ArrowRight"], ["-"], ["ArrowDown"]]:
        seen = pixels()
        for key in keys:
            browser.key(key)
        assert pixels() != seen, keys
    browser.key("0")
    assert pixels() == whole
    browser.wheel(x + w / 2, y + w / 2, -120)
    browser.wait(f"document.querySelector('canvas').toDataURL().length !== {len(whole)} || document.querySelector('canvas').toDataURL().slice(-400) !== '{whole[-400:]}'")
    browser.click_on(".map .buttons button:last-child")
    assert pixels() == whole
    browser.click_on(".map input[value=linear]")
    assert pixels() != whole
    fine()


def check_keyboard(source):
    rec = Recorded(source)
    open_page("keys.html", source)
    reached = []
    for _ in range(30):
        browser.key("Tab")
        reached.append(browser.run("(e => e.id || e.className || e.tagName)(document.activeElement)"))
    for stop in ["theme", "play", "step-0", "text", "CANVAS", "entry"]:
        assert stop in reached, (stop, reached)
    browser.run("document.querySelector('.text').focus()")
    for key in ["Home", "ArrowRight", "ArrowRight", "Enter"]:
        browser.key(key)
    assert selected() == 2
    same_list(lists()[0][1], rec.latest(0, rec.layers, list(range(4)))[2])
    browser.key("Escape")
    assert selected() == -1
    browser.run("document.querySelector('input[type=range]').focus()")
    browser.key("ArrowRight")
    assert get_step() == 1
    # every control says what it is
    nameless = browser.run("""[...document.querySelectorAll('button, input, select, canvas, [role]')].filter((e) =>
        !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim() || e.querySelector('title')?.textContent || e.closest('svg'))).map((e) => e.outerHTML)""")
    assert nameless == [], nameless
    fine()


def check_themes(source):
    colors = []
    for dark in [False, True]:
        open_page("theme.html", source, dark=dark)
        look = "[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor, " \
               "getComputedStyle(document.querySelector('#metric-absorption svg text')).fill]"
        colors.append(browser.run(look))
        browser.click_on("#theme")
        colors.append(browser.run(look))
        fine()
    assert colors[0][0] == "light" and colors[0] == colors[3] and colors[1] == colors[2] and colors[0][1:] != colors[1][1:], colors
    assert len(set(map(tuple, colors))) == 2
    browser.open(path("theme.html"), width=800)
    assert browser.run("document.documentElement.scrollWidth") <= 800


def hover(selector):
    browser.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # scrolling hides the tooltip
    x, y = browser.run(f"(b => [b.left + b.width / 2, b.top + b.height / 2])(document.querySelector({selector!r}).getBoundingClientRect())")
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    browser.wait("!document.getElementById('tooltip').hidden")
    return x, y


def check_lists_are_readable():
    """Names have room, and nothing is wider than the page."""
    names = browser.run("[...document.querySelectorAll('.list .piece')].map((p) => [p.textContent, p.clientWidth, p.scrollWidth])")
    assert len(names) > 5
    for name, room, needed in names:
        assert room >= min(needed, 48), (name, room, needed)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def check_masks_tell_nothing():
    """A mask is as wide as any other, whatever will stand there."""
    set_step(0)
    widths = browser.run("[...document.querySelectorAll('.text .token.mask')].map((t) => t.getBoundingClientRect().width)")
    assert len(widths) > 2 and max(widths) - min(widths) < 0.1, widths


def check_boxes_are_whole(last):
    """No token is cut where a line ends, in a text of any width."""
    for step in [0, last]:
        set_step(step)
        for width in ["100%", "210px", "140px", "90px"]:
            parts = browser.run(f"""(() => {{ const text = document.querySelector('.text'); text.style.width = '{width}';
                return [text.scrollWidth <= text.clientWidth, [...text.querySelectorAll('.token')].map((t) => t.getClientRects().length)]; }})()""")
            assert parts[0] and set(parts[1]) == {1}, (step, width, parts)
    lines = browser.run("new Set([...document.querySelectorAll('.text .token')].map((t) => Math.round(t.getBoundingClientRect().top))).size")
    assert lines > 2, "the text did not break"
    browser.run("document.querySelector('.text').style.width = ''")


def cells_in_sight():
    """First and last row and column that the map shows, by pointing at its corners."""
    browser.run("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    left, top, right, bottom = browser.run("(b => [b.left + 92, b.top + 92, b.right - 2, b.bottom - 2])(document.querySelector('canvas').getBoundingClientRect())")
    seen = []
    for x, y in [(left + 2, top + 2), (right - 2, bottom - 2)]:
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        text = browser.run("document.getElementById('tooltip').innerText")
        seen.append([int(n) for n in re.match(r"(\d+) .*? → (\d+) ", text).groups()])
    return seen


def check_zoom_keeps_the_selection(position):
    browser.run(f"document.querySelectorAll('.text .token')[{position}].click()")
    browser.run("document.querySelector('canvas').focus()")
    for keys in [["+", "+", "+"], ["+", "+"] + ["ArrowLeft", "ArrowUp"] * 12 + ["+"]]:
        browser.key("0")
        for key in keys:
            browser.key(key)
        first, last = cells_in_sight()
        assert last[1] - first[1] < 9, (first, last)
        assert all(a <= position <= b for a, b in zip(first, last)), (position, first, last)


def check_tooltip_is_current():
    set_step(0)
    gone = "document.getElementById('tooltip').hidden"
    hover(".text .token:nth-child(3)")
    set_step(4)
    assert browser.run(gone), "of another step"
    x, y = hover(".text .token:nth-child(2)")
    browser.wheel(x, y, 40)
    browser.wait(gone)
    hover(".text .token:nth-child(2)")
    browser.key("Escape")
    assert browser.run(gone)
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    # a finger that was lifted points at nothing
    browser.run("document.querySelector('.text .token').scrollIntoView({block: 'center'})")
    x, y = browser.run("(b => [b.left + 3, b.top + 3])(document.querySelector('.text .token').getBoundingClientRect())")
    browser.send("Emulation.setTouchEmulationEnabled", enabled=True)
    browser.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    browser.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.wait("document.querySelector('.text .token').classList.contains('selected')")
    assert browser.run(gone)


def check_widths(source):
    last = Recorded(source).tokens.shape[0] - 2
    for width in [390, 1280]:
        for dark in [False, True]:
            open_page("width.html", source, width=width, dark=dark)
            check_lists_are_readable()
            browser.run("document.querySelectorAll('.text .token')[4].click()")
            check_lists_are_readable()
        check_masks_tell_nothing()
        check_boxes_are_whole(last)
        for position in [0, 10]:
            check_zoom_keeps_the_selection(position)
        check_tooltip_is_current()
        fine()


def check_other_reductions():
    rec = Recorded(record("causal.npz", kind="causal", shift=True))
    open_page("causal.html", path("causal.npz"))
    for step in [0, 3, 5]:
        set_step(step)
        check_text(rec, step)
        full = rec.latest(step, rec.layers, list(range(4)))
        browser.run("document.querySelectorAll('.text .token')[3].click()")
        same_list(lists()[0][1], full[3])
        same_list(lists()[1][1], full[:, 3])
    rec = Recorded(record("cached.npz", reduce="heads", cache="dual"))
    open_page("cached.html", path("cached.npz"))
    set_step(4)
    browser.run("document.querySelectorAll('.text .token')[1].click()")
    assert "earlier step" in lists()[0][0]
    same_list(lists()[0][1], rec.latest(4, rec.layers, None)[1])
    rec = Recorded(record("received.npz", reduce="received"))
    open_page("received.html", path("received.npz"))
    browser.run("document.querySelectorAll('.text .token')[6].click()")
    mean = np.mean([rec.attn(0, l) for l in rec.layers], axis=0)
    for (_, value), true in zip(lists()[1][1], sorted(mean[:, 6], reverse=True)):
        assert abs(value - true) < 0.06 * true + 1e-3
    assert "received" in browser.run("document.querySelector('.details .list').textContent")
    rec = Recorded(record("regions.npz", reduce="regions"))
    open_page("regions.html", path("regions.npz"))
    sums = np.mean([rec.attn(0, l) for l in rec.layers], axis=0)
    shown = browser.run("[...document.querySelectorAll('.regions tbody tr')].map((r) => [...r.querySelectorAll('td')].map((c) => c.textContent))")
    for row, true in zip(shown, sums / sums.sum(1, keepdims=True)):
        assert np.allclose([number(c) for c in row], true, atol=0.01), (row, true)
    record("scores.npz", taps=["scores"])
    open_page("scores.html", path("scores.npz"))
    browser.run("document.querySelectorAll('.text .token')[6].click()")
    assert selected() == 6 and browser.run("document.querySelectorAll('canvas, .picker, .list').length") == 0
    fine()


def check_partial():
    """A run that was stopped and edited, of which not every step was kept."""
    def change(meta):
        meta.update(complete=False, edits=["drop keys=<b>sinks</b>"])
        meta["recorded"]["steps"] = [1, 2, 4]
    rec = Recorded(record("partial.npz", reduce="heads", layers=[0, 2]))
    change_meta(path("partial.npz"), change)
    open_page("partial.html", path("partial.npz"))
    notices = browser.run("[...document.querySelectorAll('.pane .notice')].map((n) => n.textContent)")
    assert len(notices) == 2 and "stopped" in notices[0] and "<b>sinks</b>" in notices[1], notices
    browser.run("document.querySelectorAll('.text .token')[2].click()")
    for step, attention in [(0, 1), (1, 1), (3, 2), (5, 4)]:
        set_step(step)
        check_text(rec, step)
        same_list(lists()[0][1], rec.latest(attention, [0, 2], None)[2])
        assert (f"attention of step {attention}" in browser.run("document.querySelector('.steptext').textContent")) == (step != attention)
    fine()


def check_side_by_side(first, second):
    open_page("two.html", first, second)
    assert browser.run("document.querySelectorAll('.pane').length") == 2
    boxes = browser.run("[...document.querySelectorAll('.pane')].map((p) => (b => [b.left, b.top, b.width])(p.getBoundingClientRect()))")
    assert boxes[0][1] == boxes[1][1] and boxes[1][0] >= boxes[0][0] + boxes[0][2], boxes
    seen = pixels(1)
    set_step(5)
    assert get_step(1) == 5 and pixels(1) != seen
    choose("Layer", 1)
    assert browser.run("[...document.querySelectorAll('.picker select')].map((s) => s.value)")[2] == "1"
    browser.click_on("#link")
    set_step(2)
    assert get_step(1) == 5
    fine()


def check_foreign_keys(source):
    """Keys that nobody asked for don't take the place of what the page calls."""
    make(program, path("keys.html"), source)
    html = open(path("keys.html"), encoding="utf-8").read()
    methods = ["tokensAfter", "tokensSeen", "writtenIn", "confidenceAt", "attentionIndex", "matrix", "pieceAt", "tokenLabel", "numberOf", "constructor", "__proto__"]
    changed = html.replace('"runs":[{', '"runs":[{' + "".join(f'"{name}":1,' for name in methods), 1)
    assert changed != html
    with open(path("keys.html"), "w", encoding="utf-8") as page:
        page.write(changed)
    browser.open(path("keys.html"))
    set_step(3)
    check_text(Recorded(source), 3)
    fine()


def check_hostile():
    write_hostile(path("hostile.npz"), reduce="heads")
    open_page("hostile.html", path("hostile.npz"))
    set_step(5)
    browser.run("document.querySelectorAll('.text .token')[0].click()")
    rec = Recorded(path("hostile.npz"))
    assert tokens()[0][0] == rec.meta["pieces"][0] and tokens()[6][0] == "\\x41"
    assert browser.run("window.hacked") is None and browser.run("document.images.length") == 0
    assert browser.run("document.querySelectorAll('b').length === document.querySelectorAll('li > b').length")
    blocked = browser.run("""new Promise((done) => {
        document.addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective));
        const image = new Image(); image.src = 'http://192.0.2.1/x.png'; })""")
    assert blocked == "img-src", blocked


with Browser() as browser:
    source = record("none.npz")
    check_mouse_and_pickers(source)
    check_map(source)
    check_keyboard(source)
    check_themes(source)
    check_widths(source)
    check_other_reductions()
    check_partial()
    check_side_by_side(source, path("causal.npz"))
    check_foreign_keys(source)
    for real in sys.argv[3:]:
        open_page("real.html", real)
        set_step(1)
        check_text(Recorded(real), 1)
        fine()
    check_hostile()
print("numbers", checked)
