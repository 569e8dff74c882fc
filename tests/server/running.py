"""llama-diffusion-server for a test: started on a free port, ended with it."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request


class Server:
    def __init__(self, bin_dir, *args, model="buoy-mdm", measured=False):
        self.folder = tempfile.mkdtemp(prefix="buoy-server-")
        self.log = os.path.join(self.folder, "log")
        env = os.environ if measured else dict(os.environ, OMP_WAIT_POLICY="passive")  # several servers share the cores in tests
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([os.path.join(bin_dir, "llama-diffusion-server"), "-m", model, "--port", "0", *args], stderr=log, env=env)
        deadline = time.time() + 600
        self.url = None
        while time.time() < deadline and self.process.poll() is None:
            text = open(self.log, encoding="utf-8").read()
            found = re.search(r"http://[0-9.]+:[0-9]+", text)
            if found and "serving" in text:
                self.url = found.group(0)
                return
            time.sleep(0.02)
        sys.exit(f"the server did not start: {open(self.log, encoding='utf-8').read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=300) as answer:
            return answer.read()


def install(*packages):
    """A folder with these npm packages, None where they can't be had."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        return None
    folder = os.path.join(tempfile.gettempdir(), "buoy-test-" + "-".join(re.sub(r"[^a-z0-9.]+", "-", p) for p in sorted(packages)))
    if os.path.exists(os.path.join(folder, "complete")):
        return folder
    work = tempfile.mkdtemp(prefix="buoy-npm-")
    with open(os.path.join(work, "package.json"), "w", encoding="utf-8") as file:
        file.write('{"private": true, "type": "module"}')
    done = subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *packages], cwd=work, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"npm install: {done.stderr[-400:]}")
        shutil.rmtree(work, ignore_errors=True)
        return None
    open(os.path.join(work, "complete"), "w", encoding="utf-8").close()
    try:
        os.rename(work, folder)
    except OSError:  # another test was faster
        shutil.rmtree(work, ignore_errors=True)
    return folder
