"""Code that is not ours is interrupted when its time is over."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from levelfield.core import progress
from levelfield.core.errors import UserError
from levelfield.core.progress import TimeIsUp, time_limit, timed


def test_what_takes_longer_is_interrupted_and_leaves_nothing_armed():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeIsUp, match=r"it took longer than 0.05 s"), time_limit(0.05), timed():
        time.sleep(5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before
    with timed():
        time.sleep(0.1)


def test_each_piece_of_work_has_the_whole_limit():
    with time_limit(0.2):
        for _ in range(3):
            with timed():
                time.sleep(0.1)


def test_work_inside_work_has_no_limit_of_its_own():
    def work() -> None:
        for _ in range(5):
            with timed():
                time.sleep(0.1)

    with pytest.raises(TimeIsUp), time_limit(0.2), timed():
        work()


def test_code_that_catches_everything_is_interrupted_again(monkeypatch):
    monkeypatch.setattr(progress, "_AGAIN_S", 0.05)

    def stubborn() -> None:
        try:
            time.sleep(60)
        except BaseException:
            time.sleep(60)

    started = time.monotonic()
    with pytest.raises(TimeIsUp), time_limit(0.05), timed():
        stubborn()
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_limit_is_a_positive_number(seconds):
    with pytest.raises(UserError, match="expected seconds above 0"), time_limit(seconds):
        pass


def test_another_thread_is_told_that_it_can_have_no_limit():
    said = []

    def work() -> None:
        try:
            with time_limit(1):
                pass
        except UserError as error:
            said.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == [
        "time_limit: works only in the main thread, and not on Windows; leave it out here"
    ]


@pytest.mark.kill
def test_code_that_never_comes_back_to_python_ends_with_its_process():
    program = (
        "import itertools\n"
        "from levelfield.core import progress\n"
        "progress.GRACE_S = 0.1\n"
        "with progress.time_limit(0.1), progress.timed():\n"
        "    sum(itertools.repeat(0))\n"
    )
    started = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("Timeout (0:00:00.2")
    assert time.monotonic() - started < 15
