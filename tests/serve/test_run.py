"""Where the service listens, and with how many connections."""

from __future__ import annotations

import resource
import socket

import pytest

from caveat.errors import InputError
from caveat.serve.run import _within_open_files, listen
from caveat.serve.settings import Limits


def test_a_port_in_use_is_said_at_once():
    with listen("127.0.0.1", 0) as first, pytest.raises(InputError, match=r"in use.*--port 0"):
        listen("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("no.such.host.invalid", 0), ("127.0.0.1", 65536)])
def test_an_address_that_cannot_be_used_is_bad_input(host, port):
    with pytest.raises(InputError, match="cannot be used"):
        listen(host, port)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_both_families_are_listened_on():
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        try:
            with listen(host, 0) as listening:
                assert listening.family == family
        except InputError:
            assert host == "::1"  # a machine without IPv6 addresses


def test_the_soft_limit_of_open_files_is_raised_and_the_hard_one_kept(monkeypatch):
    system = {"limits": (100, 5000)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: system["limits"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: system.update(limits=limits))
    assert _within_open_files(Limits(connections=1000)).connections == 1000
    assert system["limits"] == (1200, 5000)
    assert _within_open_files(Limits(connections=10_000)).connections == 4800
    assert system["limits"] == (5000, 5000)
    system["limits"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert _within_open_files(Limits(connections=10_000)).connections == 10_000
