"""The configurations in the docs, in front of the served app."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from plain_browser import entry_token
from served_process import ServedStudy, free_port
from served_study import study_file

DOCS = Path(__file__).parents[3] / "docs" / "rating-proxy.md"
HOST = "ratings.example.org"
ORIGIN = f"https://{HOST}"
NGINX = """\
daemon off; pid {0}/pid; user root; error_log stderr crit; events {{}}
http {{ client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;
uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
{1} }}"""

pytestmark = pytest.mark.kill


def configuration(language: str, app_port: int) -> str:
    """Returns the documented configuration, for this port of the app."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert text.count("127.0.0.1:8765") == 1
    return str(text.replace("127.0.0.1:8765", f"127.0.0.1:{app_port}"))


def nginx(folder: Path, port: int, app_port: int) -> list[str]:
    text = configuration("nginx", app_port).replace("listen 443", f"listen 127.0.0.1:{port}")
    text = re.sub(r"/etc/ssl/\w+/(\S+);", rf"{folder}/\1;", text)
    text = text.replace("/var/log/nginx", str(folder))
    key, certificate = folder / f"{HOST}.key", folder / f"{HOST}.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    names = ["-nodes", "-subj", f"/CN={HOST}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder, text))
    return ["nginx", "-e", "stderr", "-c", str(file)]


def caddy(folder: Path, port: int, app_port: int) -> list[str]:
    ours = f"storage file_system {folder}\nadmin off\nskip_install_trust\n"
    ours += "auto_https disable_redirects\n"
    text = configuration("caddy", app_port).replace("{\n", "{\n" + ours, 1)
    text = text.replace(f"{HOST} {{\n", f"{HOST}:{port} {{\ntls internal\nbind 127.0.0.1\n")
    file = folder / "Caddyfile"
    file.write_text(text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


def outside_of(port: int) -> httpx.Client:
    """Returns a browser outside, for whom the proxy is at the address of the study."""

    def name_host(request: httpx.Request) -> None:
        request.extensions["sni_hostname"] = HOST

    return httpx.Client(
        base_url=f"https://127.0.0.1:{port}",
        headers={"Host": HOST},
        event_hooks={"request": [name_host]},
        verify=False,
        timeout=20,
    )


@pytest.fixture(params=[nginx, caddy])
def proxied(
    request: pytest.FixtureRequest, memory: Path
) -> Iterator[tuple[ServedStudy, httpx.Client]]:
    for program in (request.param.__name__, "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    file = study_file(memory, sources=8, surveys=1, raters=1)
    study = ServedStudy(file, words=["--url", f"{ORIGIN}/letters"])
    port = free_port()
    command = request.param(memory, port, study.port)
    with (memory / "proxy.output").open("wb") as output:
        proxy = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        outside = outside_of(port)
        until = time.monotonic() + 30
        while not _answers(outside):
            printed = (memory / "proxy.output").read_text()
            assert proxy.poll() is None, printed
            assert time.monotonic() < until, printed
            time.sleep(0.05)
        yield study, outside
    finally:
        proxy.terminate()
        proxy.wait(20)
        study.stop()


def _answers(outside: httpx.Client) -> bool:
    try:
        return outside.get("/letters/static/icon.svg").status_code == 200
    except httpx.TransportError:
        return False


def test_links_redirects_cookies_and_limits_hold_with_the_documented_proxy(
    proxied: tuple[ServedStudy, httpx.Client],
) -> None:
    study, outside = proxied
    (link,) = study.links
    assert link.startswith(f"{ORIGIN}/letters/r/")
    link = link.removeprefix(ORIGIN)
    page = outside.get(link)
    assert page.status_code == 200
    assert f'action="{link}"' in page.text
    form = {"csrf": entry_token(page.text)}

    assert outside.post(link, data=form, headers={"Origin": "https://e.example"}).status_code == 403
    opened = outside.post(link, data=form, headers={"Origin": ORIGIN})
    assert (opened.status_code, opened.headers["location"]) == (303, "/letters/study")
    for answer in (page, opened):
        cookie = answer.headers["set-cookie"].lower()
        assert "; secure" in cookie
        assert "; path=/letters;" in cookie
    page = outside.get("/letters/study")
    assert page.status_code == 200
    addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
    assert addresses
    assert all(address.startswith("/letters/") for address in addresses)

    slash = outside.get(f"{link}/")
    assert slash.status_code == 404
    assert "location" not in slash.headers
    assert outside.get("/letters/").headers["location"] == "/letters/study"
    assert outside.get("/letters").headers["location"] == "/letters/"
    ours, large = (
        outside.post("/letters/study/enter", content=b"x" * n) for n in (3 * 10**5, 10**7)
    )
    assert (ours.status_code, large.status_code) == (413, 413)
    assert "too long to be saved" in ours.text
    kept = (file for file in study.file.parent.rglob("*") if file.is_file())
    assert not any(
        link[-43:].encode() in file.read_bytes() for file in kept if file != study.output
    )
