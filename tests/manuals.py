#!/usr/bin/env python3
"""Man pages and completions, in the programs that read them: manuals.py man|bash|zsh|fish BUILD_DIR. Exits 77 where that one is
not installed."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = ["llama-diffusion-cli", "llama-diffusion-eval", "llama-attention", "llama-diffusion-bench", "llama-diffusion-convert", "llama-diffusion-server"]


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, check=True, **more).stdout


def helps(build, program):
    """The program's own help, with that of its commands."""
    path = f"{build}/bin/{program}"
    text = run(path, "--help")
    for command in re.findall(r"^  ([a-z][a-z-]+) {2,}", text, re.M):
        text += run(path, command, "--help")
    if program == "llama-diffusion-cli":
        text += run(path, "tokens-freq", "--help")
    return text


def check_man(build):
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for program in PROGRAMS + ["llama-simple"]:
        page = f"{build}/share/man/man1/{program}.1"
        if program == "llama-simple":
            page = f"{source}/examples/simple/{program}.1"
        done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", page], capture_output=True, text=True, check=True)
        assert done.stderr == "", f"{page}: {done.stderr}"
        text = done.stdout.replace("‐", "-").replace("−", "-")
        assert f"{program} - " in text and "EXIT STATUS" in text, text[:500]
        if program == "llama-simple":
            continue
        words = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
        expected = set(re.findall(r"(?:^  |, )(--?[a-zA-Z][\w-]*)(?=[ ,\n])", helps(build, program), re.M))
        assert len(expected) > 20, expected
        assert expected <= words, f"{program}: not in its man page: {sorted(expected - words)}"
        long = [line for line in text.split("\n") if len(line) > 120]
        assert not long, long


class Shell:
    """An interactive shell in a terminal: what it shows after something was typed."""

    def __init__(self, args, env, directory):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(args[0], args, env)
        self.shown = ""

    def type(self, text, until, seconds=200):
        """Types, and waits until the expression is found in what came since."""
        self.shown = ""
        os.write(self.terminal, text.encode())
        end = time.time() + seconds
        while not re.search(until, self.shown):
            if not select.select([self.terminal], [], [], max(0, end - time.time()))[0]:
                raise AssertionError(f"typed {text!r}, waited for {until!r}, saw {self.shown!r}")
            self.shown += os.read(self.terminal, 65536).decode(errors="replace")

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


# what is typed before a tab, and what the line then is
COMPLETED = [
    ("llama-diffusion-cli --diffusion-al", "--diffusion-alg"),  # -algorithm and -alg-temp share that much
    ("llama-diffusion-cli --diffusion-algo", "--diffusion-algorithm"),
    ("llama-diffusion-cli --diffusion-algorithm entr", "entropy"),
    ("llama-diffusion-cli --attn-reduce rec", "received"),
    ("llama-diffusion-cli --attn-taps pattern,sco", "pattern,scores"),
    ("llama-diffusion-cli tokens-f", "tokens-freq"),
    ("llama-diffusion-cli tokens-freq --outp", "--output"),
    ("llama-diffusion-cli -m buoy-m", "buoy-mdm"),
    ("llama-diffusion-cli -m wei", "weights.gguf"),
    ("llama-diffusion-cli --attn-dump recor", "recorded.npz"),
    ("llama-attention float", "floating"),
    ("llama-attention floating recor", "recorded.npz"),
    ("llama-attention floating --rul", "--rule"),
    ("llama-diffusion-convert --outtype q4_k_", "q4_k_m"),
    ("llama-diffusion-eval qa --thr", "--threads"),
]


def check_terminal(build, directory, args, env, ready):
    shell = Shell(args, env, directory)
    try:
        shell.type("", r"\$ $")
        for line in ready:
            shell.type(line + "\n", r"\$ $")
        for line, expected in COMPLETED:
            shell.type("\x15", ".*")  # away with what is there
            shell.type(line + "\t", re.escape(line.rsplit(" ", 1)[0]))
            shell.type("\x01echo '\x05'\n", r"\n[\s\S]*\$ $")
            typed = shell.shown.split("echo '")[-1].split("\n", 1)[1].split("\n")[0].strip()
            assert typed.split(" ")[-1] == expected, f"{args[0]}: {line!r} became {typed!r}, expected … {expected}"
    finally:
        shell.close()


def check_bash(build, directory):
    env = {"PATH": os.environ["PATH"], "PS1": "$ ", "TERM": "dumb", "HOME": directory, "HISTFILE": "/dev/null"}
    scripts = [f"source {build}/share/bash-completion/completions/{program}" for program in PROGRAMS]
    check_terminal(build, directory, ["bash", "--norc", "--noprofile", "-i"], env, scripts)


def check_zsh(build, directory):
    env = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": directory, "ZDOTDIR": directory}
    with open(f"{directory}/.zshrc", "w") as file:
        file.write(f"PS1='$ '; unset zle_bracketed_paste; fpath=({build}/share/zsh/site-functions $fpath)\n"
                   "autoload -Uz compinit; compinit -u -D\nsetopt interactivecomments no_auto_menu no_list_ambiguous\nbindkey -e\n")
    check_terminal(build, directory, ["zsh", "-i"], env, [])


def check_fish(build, directory):
    env = {"PATH": os.environ["PATH"], "HOME": directory, "TERM": "dumb"}
    for line, expected in COMPLETED:
        program = line.split(" ")[0]
        script = f"source {build}/share/fish/vendor_completions.d/{program}.fish; complete -C '{line}'"
        found = [row.split("\t")[0] for row in run("fish", "--private", "-c", script, env=env, cwd=directory).split("\n") if row]
        # of files it offers all, the fitting ones first
        best = found[0] if found and "." in found[0] else os.path.commonprefix(found)
        assert best == expected, f"fish: {line!r} offers {found}, expected … {expected}"


def main():
    what, build = sys.argv[1], os.path.abspath(sys.argv[2])
    if not shutil.which("groff" if what == "man" else what):
        print(f"{what} is not installed")
        return 77
    if what == "man":
        check_man(build)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        for name in ["weights.gguf", "recorded.npz", "recorded.txt"]:
            open(f"{directory}/{name}", "w").close()
        {"bash": check_bash, "zsh": check_zsh, "fish": check_fish}[what](build, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
