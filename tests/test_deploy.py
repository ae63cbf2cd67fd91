"""What hosts get, as far as it can be checked without a container engine."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import pytest
from streamlit import config

from tests.browser.serving import NGINX, ROOT

DEPLOY: Final = ROOT / "dashboard" / "deploy"


def instructions(name: str) -> list[str]:
    """The arguments of each such instruction of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
    return re.findall(rf"^{name}\s+(.*)$", text, re.MULTILINE)


def health_check() -> list[str]:
    """The command that asks whether the server in the container is well."""
    command: list[str] = json.loads(instructions("HEALTHCHECK")[0].partition("CMD")[2])
    return command


@contextmanager
def server(status: int, asked: list[str]) -> Iterator[int]:
    """A server that answers all with one status, and notes what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_port
        running.shutdown()


def test_the_image_gets_what_it_copies_and_no_more() -> None:
    let_through = [
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    copied = [source for line in instructions("COPY") for source in line.split()[:-1]]
    assert sorted(Path(path).parts[0] for path in let_through) == sorted(copied)
    for path in let_through:
        assert (ROOT / path).exists(), path
    assert ".streamlit/config.toml" in let_through, "and no secrets.toml beside it"


def test_the_server_in_the_image_has_no_rights() -> None:
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number: where there is no such name, a name is refused"
    after = (DEPLOY / "Dockerfile").read_text().partition("\nUSER ")[2]
    assert not re.search(r"^(RUN|COPY|ADD)", after, re.MULTILINE)


def test_the_image_starts_the_dashboard() -> None:
    program, run, script, *options = json.loads(instructions("ENTRYPOINT")[0])  # a list: signals meet no shell
    assert (program, run) == ("streamlit", "run")
    assert (ROOT / script).exists()
    known = config.get_config_options()
    assert all(option.removeprefix("--").partition("=")[0] in known for option in options)
    assert "--server.address=0.0.0.0" in options
    assert instructions("EXPOSE") == [str(known["server.port"].default_val)]


def test_the_image_is_made_of_what_was_tried() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert len([line for line in lines if line.startswith("torch==")]) == 1
    assert [line for line in lines if line.startswith("-e")] == ["-e ."]


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_health_check_believes_the_server(status: int, is_well: bool) -> None:
    asked: list[str] = []
    python, option, program = health_check()
    assert (python, option) == ("python", "-c")
    with server(status, asked) as port:
        answer = subprocess.run(
            [sys.executable, option, program.replace(instructions("EXPOSE")[0], str(port))], capture_output=True
        )
    assert (answer.returncode == 0) is is_well
    assert asked == ["/_stcore/health"]


def test_the_health_check_sees_a_dead_server() -> None:
    with socket.socket() as nobody:  # bound, and not listening
        nobody.bind(("127.0.0.1", 0))
        program = health_check()[2].replace(instructions("EXPOSE")[0], str(nobody.getsockname()[1]))
        assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 1


def test_there_are_no_secrets() -> None:
    settings = " ".join(instructions("ARG") + instructions("ENV"))
    assert not re.search(r"(?i)secret|password|token|key|credential", settings)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed (on Debian: apt-get install nginx-light)")
def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    tried = subprocess.run(
        [str(NGINX), "-t", "-p", tmp_path, "-c", DEPLOY / "nginx.conf"], capture_output=True, text=True
    )
    assert tried.returncode == 0, tried.stderr
    assert "[warn]" not in tried.stderr


def test_under_etc_nginx_nothing_is_written_beside_its_own_folders() -> None:
    lines = (DEPLOY / "nginx.conf").read_text().splitlines()
    places = [line for line in lines if re.match(r"\s*(pid|error_log|access_log|\w+_temp_path)\s", line)]
    assert places == [line for line in lines if line.endswith("# own folder")]
    assert len(places) == 8
