"""Damage of a file of outputs is an error: no changed bit is ever read as other numbers where a checksum can tell."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from caveat import CaveatError, InputError, Outputs

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from caveat.scale.parquet import open_parquet
from caveat.stats.tables import _read_file

OUTPUTS = Outputs(logits=np.arange(12.0).reshape(4, 3) + 0.5, labels=[0, 1, 2, 1], class_names=["a", "b", "c"])


def contents(path: Path) -> dict[str, list]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = Outputs.load(path)
    return {name: array.tolist() for name, array in outputs.arrays().items()} | {"names": outputs.class_names}


def damaged(file: Path, every: bool) -> Iterator[tuple[int, int]]:
    """Changes one bit after the other, of each byte (``every``) or of every third, and puts the file right again."""
    whole = file.read_bytes()
    places = [(i, k) for i in range(0, len(whole), 1 if every else 3) for k in (range(8) if every else [i * 5 % 8])]
    for i, k in places:
        file.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << k]) + whole[i + 1 :])
        yield i, k
    file.write_bytes(whole)


def read_as_other_numbers(path: Path, file: Path, *, every: bool = False) -> list[tuple[int, int]]:
    right, wrong = contents(path), []
    for place in damaged(file, every):
        try:
            if contents(path) != right:
                wrong.append(place)
        except CaveatError:
            pass
    return wrong


def test_no_bit_of_an_npz_file_changes_what_is_read(tmp_path):
    OUTPUTS.save(tmp_path / "a.npz")
    assert read_as_other_numbers(tmp_path / "a.npz", tmp_path / "a.npz") == []


@pytest.mark.slow
def test_not_one_bit_of_an_npz_file_changes_what_is_read(tmp_path):
    OUTPUTS.save(tmp_path / "a.npz")
    assert read_as_other_numbers(tmp_path / "a.npz", tmp_path / "a.npz", every=True) == []


@pytest.mark.parametrize("name", ["caveat.json", "logits.npy", "labels.npy", "class_names.npy"])
def test_no_bit_of_a_folder_changes_what_is_read(tmp_path, name):
    OUTPUTS.save(tmp_path / "a")
    assert read_as_other_numbers(tmp_path / "a", tmp_path / "a" / name) == []


def test_a_name_in_the_directory_of_an_npz_file_that_is_not_the_one_before_its_content(tmp_path):
    OUTPUTS.save(tmp_path / "a.npz")
    whole = (tmp_path / "a.npz").read_bytes()
    at = whole.rindex(b"labels.npy")
    (tmp_path / "a.npz").write_bytes(whole[:at] + b"labelz.npy" + whole[at + 10 :])
    with pytest.raises(InputError, match="damaged.*differ"):
        Outputs.load(tmp_path / "a.npz")


def test_a_member_that_the_directory_of_an_npz_file_has_lost(tmp_path):
    OUTPUTS.save(tmp_path / "a.npz")
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    entries = [i for i in range(len(whole)) if whole[i : i + 4] == b"PK\1\2"]
    whole[entries[0] + 32] = entries[2] - entries[1]  # the second entry becomes a comment on the first
    (tmp_path / "a.npz").write_bytes(whole)
    with pytest.raises(InputError, match="it lists 2 of 3 members"):
        Outputs.load(tmp_path / "a.npz")


def test_a_header_that_claims_fewer_rows_than_are_stored(tmp_path):
    OUTPUTS.save(tmp_path / "a.npz")
    whole = (tmp_path / "a.npz").read_bytes()
    assert whole.count(b"(4, 3)") == 1
    (tmp_path / "a.npz").write_bytes(whole.replace(b"(4, 3)", b"(2, 3)"))
    with pytest.raises(InputError, match="damaged"):
        Outputs.load(tmp_path / "a.npz", keys={"logits": "logits"})


def test_an_array_of_a_folder_that_was_replaced_by_another_one_of_its_shape(tmp_path):
    OUTPUTS.save(tmp_path / "a")
    np.save(tmp_path / "a" / "logits.npy", OUTPUTS.logits[::-1])
    with pytest.raises(InputError, match=r"logits\.npy is damaged \(its SHA-256"):
        Outputs.load(tmp_path / "a")
    assert Outputs.load(tmp_path / "a", keys={"logits": ""}).n == 4  # nothing else is read
    assert Outputs.load(tmp_path / "a", check=False).logits[0, 0] == 9.5  # and nothing is compared


def test_a_folder_of_version_2_is_read_without_digests(tmp_path):
    OUTPUTS.save(tmp_path / "a")
    page = json.loads((tmp_path / "a" / "caveat.json").read_text())
    assert page["version"] == 3
    assert set(page["sha256"]) == {"logits.npy", "labels.npy", "class_names.npy"}
    kept = {key: page[key] for key in ("format", "n", "folder")}
    (tmp_path / "a" / "caveat.json").write_text(json.dumps(kept | {"version": 2}))
    assert contents(tmp_path / "a")["labels"] == [0, 1, 2, 1]
    (tmp_path / "a" / "caveat.json").write_text(json.dumps(kept | {"version": 3}))
    with pytest.raises(InputError, match="damaged"):
        Outputs.load(tmp_path / "a")


def test_a_folder_that_grew_row_by_row_has_digests_too(tmp_path):
    torch = pytest.importorskip("torch")
    from caveat import nn

    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    nn.extract(net, [torch.randn(5, 3), torch.randn(5, 3)], out=tmp_path / "a")
    file = next((tmp_path / "a").glob("logits*.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="SHA-256"):
        Outputs.load(tmp_path / "a")


def test_a_number_of_a_torch_file_that_changed_is_an_error(tmp_path):
    torch = pytest.importorskip("torch")
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    torch.save({"logits": torch.from_numpy(values)}, tmp_path / "a.pt")
    assert Outputs.load(tmp_path / "a.pt").logits.tolist() == values.tolist()
    content = bytearray((tmp_path / "a.pt").read_bytes())
    content[content.index(values.tobytes()) + 20] ^= 0x40
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        Outputs.load(tmp_path / "a.pt")


def parquet(path: Path, **settings: bool) -> None:
    columns = {f"logits_{i}": OUTPUTS.logits[:, i] for i in range(3)} | {"labels": OUTPUTS.labels}
    pq.write_table(pa.table(columns), path, **settings)


def test_page_checksums_of_parquet_are_compared(tmp_path):
    parquet(tmp_path / "a.parquet", write_page_checksum=True)
    assert read_as_other_numbers(tmp_path / "a.parquet", tmp_path / "a.parquet") == []


@pytest.mark.parametrize(
    "read",
    [contents, lambda path: open_parquet(path).read(0, 4), _read_file],
    ids=["outputs", "row ranges", "tables"],
)
def test_every_reader_of_parquet_compares_page_checksums(tmp_path, read: Callable[[Path], object]):
    path, values = tmp_path / "a.parquet", OUTPUTS.logits
    pq.write_table(
        pa.table({"logits": values.tolist()}), path, write_page_checksum=True, compression="none", use_dictionary=False
    )
    read(path)
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(3.5).tobytes()) + 6] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="(?i)checksum|crc|integrity"):
        read(path)


def test_a_column_of_parquet_whose_name_was_damaged_is_not_left_out(tmp_path):
    parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    expected, errors = Outputs.load(tmp_path / "a.parquet").labels, []
    for i in (i for i in range(len(whole)) if whole[i : i + 6] == b"labels"):  # some of them are never read
        (tmp_path / "a.parquet").write_bytes(whole[:i] + b"lavels" + whole[i + 6 :])
        try:
            np.testing.assert_array_equal(Outputs.load(tmp_path / "a.parquet").labels, expected)
        except InputError as error:
            errors.append(str(error))
    assert any("'labels' has two names" in error for error in errors)
