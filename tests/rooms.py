#!/usr/bin/env python3
"""Who may include whom. A room of src/ sees the rooms above it in the list, and itself; programs see include/buoy/, examples/common/ and
their own folder, and print through one function. Names every offending line. Usage: rooms.py SOURCE_DIR [FOLDERS OF PROGRAMS…]"""

import pathlib
import re
import sys
import tempfile

ROOMS = ["base", "io", "text", "kernel", "model", "graph", "arch", "engine", "decode", "observe", "figure", "analysis", "report",
         "eval", "serve"]

# The first room that may include a public header; later rooms may as well.
PUBLIC = {
    "error": "base", "index-ranges": "base", "log": "base", "message": "base", "parse": "base", "printable": "base", "utf8": "base", "version": "base",
    "files": "io",
    "infill": "text", "text-stream": "text", "vocab": "text",
    "context": "kernel", "machine": "kernel", "model": "kernel",  # a kernel fills RowSummary
    "bundled": "model", "device": "model", "weight-type": "model",
    "random-model": "arch",
    "algorithm": "decode", "frequency-table": "decode", "generate": "decode", "generation-json": "decode", "names": "decode",
    "method-setting": "decode", "preset": "decode", "replay-case": "decode", "session": "decode", "step-count": "decode",
    "edit": "observe", "record": "observe", "regions": "observe",
    "figure": "figure", "screencast": "figure",
    "export": "analysis", "recording": "analysis", "study": "analysis", "table": "analysis",
    "report": "report",
    "eval": "eval", "frontier": "eval",
    "serve": "serve",
}

CONVERTER = "engine"  # the last room that convert/ sees
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".cpp"))


def includes(root, folder):
    for path in sources(root / folder):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                yield path.relative_to(root), number, match.group(1)


def room_of(included):
    """The room an include is from, None for a file beside the including one, "?" where the table does not say."""
    first, _, rest = included.partition("/")
    if not rest:
        return None
    if first == "buoy":
        return PUBLIC.get(rest.removesuffix(".h"), "?")
    return first if first in ROOMS else None


def check_room(root, folder, last):
    """last: the room of the folder's files, or the last one they see; by file where that depends on it."""
    for path, number, included in includes(root, folder):
        here = last(path) if callable(last) else last
        room = room_of(included)
        if "?" in (room, here):
            yield f"{path}:{number}: {included}: a public header that tests/rooms.py has no room for"
        elif room is None and folder.startswith("src/"):
            yield f"{path}:{number}: {included}: includes name their room, from src/ or include/ on"
        elif room is not None and ROOMS.index(room) > ROOMS.index(here):
            yield f"{path}:{number}: {included}: {room} is below {here}"


# The gate for what is printed; the library's smallest example, which does the same by itself; and a stream of numbers.
MAY_PRINT = ["examples/common/console.cpp", "examples/simple/main.cpp", "examples/attention/file-commands.cpp"]
PRINTS = re.compile(r"\b(std::(printf|puts|putchar|cout|cerr)\b|f(printf|puts|write)\(.*\bstdout\b)")


def check_printing(root, folder):
    """Text reaches standard output through examples/common/console.h, where a terminal is protected from what files put into it."""
    for path in sources(root / folder):
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if PRINTS.search(line) and name not in MAY_PRINT:
                yield f"{name}:{number}: prints past print_text()"


def check_program(root, folder):
    for path, number, included in includes(root, folder):
        if "/" in included and not included.startswith("buoy/"):
            yield f"{path}:{number}: {included}: a program sees include/buoy/ and examples/common/ only"


def check(root, programs):
    found = []
    for folder in sorted(path.name for path in (root / "src").iterdir() if sources(path)):
        if folder in ROOMS:
            found += check_room(root, "src/" + folder, folder)
        else:
            found.append(f"src/{folder}: a room that tests/rooms.py does not list")
    found += check_room(root, "include/buoy", lambda path: PUBLIC.get(path.stem, "?"))
    found += [line for line in check_room(root, "convert", CONVERTER) if not line.startswith("convert/cli/")]
    for folder in programs:
        found += check_program(root, folder)
        found += check_printing(root, folder)
    return found


def self_test():
    """Planted lines: which of them are found."""
    files = {
        "src/text/vocab.cpp": ['#include "text/vocab.h"', '#include "base/fail.h"', "#include <ggml.h>", '  # include "engine/fit.h"'],
        "src/io/npy.cpp": ['#include "npy.h"', '#include "buoy/generate.h"', '#include "buoy/new.h"', '// #include "eval/run.h"'],
        "src/cellar/wine.h": [],
        "include/buoy/vocab.h": ['#include "buoy/log.h"', '#include "buoy/context.h"'],
        "convert/arch/llama.cpp": ['#include "../arch.h"', '#include "engine/context.h"', '#include "decode/canvas.h"'],
        "convert/cli/main.cpp": ['#include "session.h"', '#include "io/npy.h"'],
        "examples/cli/main.cpp": ['#include "console.h"', '#include "buoy/generate.h"', '#include "eval/run.h"',
                                  'std::printf("a");', 'std::fputs("a", stderr);', 'std::fputs("a", stdout);', 'print_text("a");'],
    }
    expected = ["src/text/vocab.cpp:4", "src/io/npy.cpp:1", "src/io/npy.cpp:2", "src/io/npy.cpp:3", "src/cellar",
                "include/buoy/vocab.h:2", "convert/arch/llama.cpp:3", "convert/cli/main.cpp:2", "examples/cli/main.cpp:3",
                "examples/cli/main.cpp:4", "examples/cli/main.cpp:6"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, lines in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("\n".join(lines))
        found = [line.partition(": ")[0] for line in check(root, ["examples", "convert/cli"])]
    if sorted(found) != sorted(expected):
        sys.exit(f"rooms: of planted lines, found {sorted(found)}, expected {sorted(expected)}")


def main():
    self_test()
    found = check(pathlib.Path(sys.argv[1]), sys.argv[2:])
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
