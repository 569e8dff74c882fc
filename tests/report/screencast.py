"""A saved generation in a real browser: one frame of the SVG is visible at any time, and the GIF is decoded to as many."""
import base64
import sys

from chromium import Browser

svg, gif, n_frames, milliseconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
total = n_frames * milliseconds + 3000


def visible_at(time):
    """Indices of the frames that are visible."""
    return browser.run(f"""(() => {{ for (const a of document.getAnimations()) {{ a.pause(); a.currentTime = {time}; }}
        return [...document.querySelectorAll('g')].flatMap((g, i) => getComputedStyle(g).visibility === 'visible' ? [i] : []); }})()""")


with Browser(seconds=120) as browser:
    browser.open(svg, ready="document.getAnimations().length > 0")
    assert browser.run("document.querySelectorAll('g').length") == n_frames
    for turn in [0, 1]:  # it repeats
        for i in range(n_frames):
            assert visible_at(turn * total + (i + 0.5) * milliseconds) == [i], (i, visible_at(turn * total + (i + 0.5) * milliseconds))
    assert visible_at(total - 10) == [n_frames - 1]
    width, height = browser.run("(b => [b.width, b.height])(document.documentElement.getBoundingClientRect())")
    outside = browser.run(f"[...document.querySelectorAll('text')].filter((t) => {{ const b = t.getBoundingClientRect(); "
                          f"return b.left < 0 || b.right > {width} || b.bottom > {height}; }}).length")
    assert outside == 0
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    still = browser.run("[...document.querySelectorAll('g')].map((g) => getComputedStyle(g).visibility)")
    assert still == ["hidden"] * (n_frames - 1) + ["visible"], still
    assert browser.complaints() == [], browser.complaints()

    data = base64.b64encode(open(gif, "rb").read()).decode()
    frames, shown = browser.run(f"""(async () => {{
        const decoder = new ImageDecoder({{data: Uint8Array.from(atob('{data}'), (c) => c.charCodeAt(0)), type: 'image/gif'}});
        await decoder.tracks.ready;
        await decoder.completed;
        const shown = [];
        for (let i = 0; i < decoder.tracks.selectedTrack.frameCount; i++) {{
            const {{image}} = await decoder.decode({{frameIndex: i}});
            shown.push([image.displayWidth, image.displayHeight, image.duration / 1000]);
        }}
        return [decoder.tracks.selectedTrack.frameCount, shown];
    }})()""")
    assert frames == n_frames, (frames, n_frames)
    assert [s[2] for s in shown] == [milliseconds] * (n_frames - 1) + [milliseconds + 3000], shown
    assert all(s[:2] == shown[0][:2] for s in shown)
print("frames", frames)
