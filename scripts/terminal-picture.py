#!/usr/bin/env python3
"""Runs a command in a terminal and draws what was on its screen, at a few moments, as one SVG.

    scripts/terminal-picture.py -o docs/images/visual.svg --frames 3 -- build/bin/llama-diffusion-cli … --diffusion-visual

Only what our programs send is understood: text, newline, carriage return, cursor up, erase, bold, dim and green.
"""
import argparse
import os
import pty
import re
import struct
import sys
import fcntl
import termios
from html import escape

ESCAPE = re.compile(r"\x1b\[(\?)?([0-9;]*)([A-Za-z])")
CELL_W, CELL_H, PAD, BAR = 8.4, 19, 16, 30


class Screen:
    def __init__(self, columns):
        self.columns = columns
        self.rows, self.x, self.y, self.style = [[]], 0, 0, ""

    def put(self, char):
        if self.x == self.columns:
            self.newline()
            self.x = 0
        row = self.rows[self.y]
        row.extend([(" ", "")] * (self.x + 1 - len(row)))
        row[self.x] = (char, self.style)
        self.x += 1

    def newline(self):
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append([])

    def control(self, numbers, kind):
        n = int(numbers or 1) if numbers.isdigit() or not numbers else 1
        if kind == "A":
            self.y = max(0, self.y - n)
        elif kind == "K":
            del self.rows[self.y][self.x:]
        elif kind == "J":
            del self.rows[self.y][self.x:]
            del self.rows[self.y + 1:]
        elif kind == "m":
            codes = numbers.split(";")
            self.style = "fresh" if "32" in codes else "dim" if "2" in codes else ""

    def feed(self, text):
        at = 0
        while at < len(text):
            found = ESCAPE.match(text, at)
            if found:
                if not found.group(1):
                    self.control(found.group(2), found.group(3))
                at = found.end()
                continue
            char = text[at]
            if char == "\n":
                self.newline()
            elif char == "\r":
                self.x = 0
            elif char >= " ":
                self.put(char)
            at += 1

    def lines(self):
        return [list(row) for row in self.rows]


def run(command, columns):
    """What the command sends, in pieces as they came."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    data = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit(f"terminal-picture: {command[0]} failed:\n{data.decode(errors='replace')}")
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n\r")


def frames_of(text, columns):
    """The screen before every redraw, and at the end."""
    screen, frames, last = Screen(columns), [], 0
    for found in re.finditer(r"\x1b\[[0-9]+A\r", text):
        screen.feed(text[last:found.start()])
        frames.append(screen.lines())
        last = found.start()
    screen.feed(text[last:])
    frames.append(screen.lines())
    return frames


def spans(row):
    out, at = [], 0
    while at < len(row):
        style, end = row[at][1], at
        while end < len(row) and row[end][1] == style:
            end += 1
        out.append((at, style, "".join(char for char, _ in row[at:end])))
        at = end
    return out


def draw(title, blocks, columns):
    rows = [row for block in blocks for row in block + [[]]][:-1]
    width, height = columns * CELL_W + 2 * PAD, len(rows) * CELL_H + 2 * PAD + BAR
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
           f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
           f"<title>{escape(title)}</title>",
           "<style>text { white-space: pre; fill: #d8dee9 } .dim { fill: #7b8494 } .fresh { fill: #8fd694; font-weight: bold }"
           " .bar { fill: #9aa3b2 }</style>",
           f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1d2129"/>']
    out += [f'<circle cx="{PAD + 6 + i * 18}" cy="17" r="5" fill="#4a5160"/>' for i in range(3)]
    out.append(f'<text class="bar" x="{PAD + 66}" y="22">{escape(title)}</text>')
    for i, row in enumerate(rows):
        for at, style, text in spans(row):
            if text.strip():
                kind = f' class="{style}"' if style else ""
                out.append(f'<text{kind} x="{PAD + at * CELL_W:.1f}" y="{BAR + PAD + i * CELL_H + 12:.0f}" '
                           f'textLength="{len(text) * CELL_W:.1f}">{escape(text)}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--frames", type=int, default=3, help="moments to draw, the last one is the end")
    parser.add_argument("--columns", type=int, default=88)
    parser.add_argument("--title", default="")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    frames = frames_of(run(args.command, args.columns), args.columns)
    first = 1 if len(frames) > args.frames else 0
    picked = [frames[first + round((len(frames) - 1 - first) * i / max(1, args.frames - 1))] for i in range(args.frames)]
    title = args.title or " ".join([os.path.basename(args.command[0])] + args.command[1:])
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(draw(title, picked, args.columns))


main()
