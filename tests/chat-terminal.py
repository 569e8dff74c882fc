#!/usr/bin/env python3
"""A chat typed at a terminal: chat-terminal.py PROGRAM. Arrow keys, wide characters, history over sessions, messages of several
lines, pastes, Ctrl-C and Ctrl-D. Exits 77 where the program was built without libedit."""
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time

LEFT, UP, DELETE, HOME = "\x1b[D", "\x1b[A", "\x1b[3~", "\x1b[H"
PROMPT = "\x1b[?2004h> "  # the terminal is told to mark pastes, once a prompt
FLAGS = ["-m", "buoy-arm", "-n", "12", "-t", "1", "--no-perf", "--temp", "0"]


class Chat:
    """The program with a terminal for standard input and error, a file for standard output."""

    def __init__(self, program, directory, *more):
        self.answers = f"{directory}/answers"
        env = {"TERM": "xterm", "HOME": f"{directory}/home", "PATH": os.environ["PATH"], "OMP_WAIT_POLICY": "passive", "LC_ALL": "C.UTF-8"}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fd = os.open(self.answers, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(fd, 1)
            os.execvpe(program, [program, *FLAGS, "-cnv", *more], env)
        self.shown = ""
        self.wait(PROMPT)

    def read(self, seconds):
        if select.select([self.terminal], [], [], seconds)[0]:
            try:
                self.shown += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:  # it has ended
                return False
            return True
        return False

    def wait(self, text, seconds=300):
        end = time.time() + seconds
        while text not in self.shown:
            if not self.read(max(0, end - time.time())):
                raise AssertionError(f"waited for {text!r}, saw {self.shown!r}")
        self.shown = self.shown.split(text, 1)[1]

    def type(self, text):
        os.write(self.terminal, text.encode())

    def send(self, text):
        """Types a message with Enter; returns the answer."""
        before = os.path.getsize(self.answers)
        self.type(text + "\r")
        end = time.time() + 300
        while True:
            self.read(0.1)
            with open(self.answers, "rb") as file:
                answer = file.read()[before:]
            if answer.endswith(b"\n") or time.time() > end:
                break
        self.wait(PROMPT)
        return answer.decode()

    def forget(self):
        self.type("/clear\r")
        self.wait(PROMPT)

    def end(self, text):
        """Types what ends it; returns the exit code."""
        self.type(text)
        end = time.time() + 300
        while time.time() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                os.close(self.terminal)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("it did not end")


def check(program, directory):
    asked = {}

    def answer_to(text):
        """What a new conversation answers to a message."""
        if text not in asked:
            asked[text] = subprocess.run([program, *FLAGS, "--no-escape", "-p", text], capture_output=True, text=True, check=True).stdout
        return asked[text]

    def expect(answer, message):
        assert answer == answer_to(message), f"{answer!r}, expected the one to {message!r}: {answer_to(message)!r}"

    fox, duck = "Tell a story about Mira and a fox.", "Tell a story about Tom and a duck."
    two, cafe = "Tell a story about Mira\nand a fox.", "Tell a story about Zoë and a 狐."
    assert len({answer_to(text) for text in (fox, duck)}) == 2

    chat = Chat(program, directory)
    expect(chat.send("Tell a story about Mura" + LEFT + LEFT + "\x7f" + "i" + "\x05" + " and a fox."), fox)
    chat.forget()
    expect(chat.send("xx" + duck + HOME + DELETE + DELETE), duck)
    chat.forget()
    expect(chat.send("Tell a story about Mira\\\rand a fox."), two)
    chat.forget()
    expect(chat.send("\x1b[200~Tell a story about Mira\rand a fox.\x1b[201~"), two)
    chat.forget()
    # a wide character is one character: one step to the left, one to delete
    expect(chat.send("Tell a story about Zoë and a 狐x." + LEFT + "\x7f"), cafe)
    chat.type("nobody wants this\x03")
    chat.wait("^C")
    chat.wait(PROMPT)
    assert chat.end("\x04") == 0

    history = f"{directory}/home/.local/state/buoy/chat-history"
    assert stat.S_IMODE(os.stat(history).st_mode) == 0o600, oct(os.stat(history).st_mode)
    assert stat.S_IMODE(os.stat(os.path.dirname(history)).st_mode) == 0o700

    chat = Chat(program, directory)  # a second session: the last message, and the one before /clear and it
    expect(chat.send(UP), cafe)
    chat.forget()
    chat.type("\x12Tom")  # found from behind
    chat.wait("Tom")
    expect(chat.send(""), duck)
    chat.forget()
    chat.type("\x03")
    chat.wait("again")
    chat.wait(PROMPT)
    assert chat.end("\x03") == 130

    with open(history, "rb") as file:
        kept = file.read()
    chat = Chat(program, directory, "--no-history")
    chat.type(UP + "\x15")
    chat.send(fox)
    assert chat.end("\x04") == 0
    with open(history, "rb") as file:
        assert file.read() == kept, "--no-history wrote"


def main():
    program = os.path.abspath(sys.argv[1])
    with open(program, "rb") as file:
        if b"el_gets" not in file.read():
            print("built without libedit")
            return 77
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/home")
        check(program, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
