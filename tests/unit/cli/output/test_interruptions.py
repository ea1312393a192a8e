"""Ctrl-C: put off while something is half done, heard wherever it is raised in vain, and of no concern to other threads.

Each in a process of its own: signals are everybody's.
"""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

from tests.waiting import PATIENCE_S

PRELUDE = """
import os, signal, threading
from corral.cli.output.interruptions import PutOff, hanging_up_interrupts, heard_at_once

def send(number):
    os.kill(os.getpid(), number)
"""


def said(program: str) -> list[str]:
    """The lines a program prints."""
    command = [sys.executable, "-c", PRELUDE + dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.splitlines()


def test_one_that_was_lost_is_heard_all_the_same() -> None:
    program = """
    class Thrown:
        def __del__(self):  # whatever is raised while something is thrown away is lost
            try:
                send(signal.SIGINT)
                for _ in range(1000): pass
            except KeyboardInterrupt:
                print("lost", flush=True)
    try:
        with heard_at_once():
            thing = Thrown()
            del thing
            while True:
                signal.pause()
    except KeyboardInterrupt:
        print("heard", signal.getsignal(signal.SIGURG) is signal.SIG_DFL)
    """
    assert said(program) == ["lost", "heard True"]


def test_one_is_put_off_and_a_second_is_not() -> None:
    program = """
    try:
        with PutOff("it is taken back") as interruptions:
            send(signal.SIGINT)
            print("seen", interruptions.seen)
            send(signal.SIGINT)
            print("not reached")
    except KeyboardInterrupt:
        print("heard", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    """
    assert said(program) == ["seen True", "heard True"]


def test_a_polite_kill_is_an_interruption() -> None:
    program = """
    try:
        with hanging_up_interrupts():
            send(signal.SIGTERM)
            print("not reached")
    except KeyboardInterrupt:
        print("heard", signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    """
    assert said(program) == ["heard True"]


def test_other_threads_do_not_touch_signals() -> None:
    program = """
    def work():
        with heard_at_once(), hanging_up_interrupts(), PutOff("") as interruptions:
            print("worked", interruptions.seen)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    """
    assert said(program) == ["worked False"]
