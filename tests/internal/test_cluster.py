from __future__ import annotations

import pytest

from caveat import InputError
from caveat._internal.cluster import check_address, check_workers, connected


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "localhost:8786", "tls://host:1"])
def test_an_address_is_taken_as_it_is(address):
    assert check_address(address) == address


@pytest.mark.parametrize("address", ["", "here", "tcp://here", "http://127.0.0.1:9", "tcp://127.0.0.1:9/x", None])
def test_what_is_no_address_is_refused_at_once(address):
    with pytest.raises(InputError, match="must be an address such as"):
        check_address(address)


def test_a_scheduler_without_workers_is_said():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=0, protocol="tcp", host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        with pytest.raises(InputError, match="has no workers"), connected(cluster.scheduler_address):
            pass
        with distributed.Client(cluster, set_as_default=False) as client, pytest.raises(InputError, match="no workers"):
            check_workers(client, "x")
