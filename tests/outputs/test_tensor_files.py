"""Files of tensors: no code runs, nothing is unpacked without room, half precision is widened."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat._internal import files
from caveat.outputs.tensor_files import read_safetensors, read_torch


def safetensors(path, header, data=b""):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_safetensors_are_memory_mapped_and_bfloat16_is_widened(tmp_path):
    half = np.array([1.5, -2.0], dtype=np.float32).view(np.uint32)
    data = np.array([[1.0, 2.0]]).tobytes() + (half >> 16).astype("<u2").tobytes()
    path = safetensors(tmp_path / "a.safetensors", {
        "__metadata__": {"format": "pt"}, "logits": {"dtype": "F64", "shape": [1, 2], "data_offsets": [0, 16]},
        "half": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]},
        "none": {"dtype": "F32", "shape": [0, 3], "data_offsets": [20, 20]},
    }, data)  # fmt: skip
    tensors = read_safetensors(path)
    assert isinstance(tensors["logits"], np.memmap)
    np.testing.assert_array_equal(tensors["logits"], [[1.0, 2.0]])
    np.testing.assert_array_equal(tensors["half"], np.array([1.5, -2.0], dtype=np.float32))
    assert tensors["none"].shape == (0, 3)


@pytest.mark.parametrize("entry", [
    {"dtype": "F64", "shape": [1, 3], "data_offsets": [0, 16]},
    {"dtype": "F64", "shape": [1, 2], "data_offsets": [8, 24]},
    {"dtype": "F64", "shape": [-1, -2], "data_offsets": [0, 16]},
    {"dtype": "F64", "shape": [10**30, 0], "data_offsets": [0, 10**40]},
    {"dtype": "F64", "shape": [True], "data_offsets": [0, 8]},
    {"dtype": "F64", "shape": [1, 2]},
    {"dtype": [], "shape": [1], "data_offsets": [0, 8]},
    {"dtype": "F8_E4M3", "shape": [16], "data_offsets": [0, 16]},
    5,
])  # fmt: skip
def test_a_header_that_lies_is_one_sentence(tmp_path, entry):
    path = safetensors(tmp_path / "a.safetensors", {"logits": entry}, b"\0" * 16)
    with pytest.raises(InputError, match=r"a\.safetensors"):
        Outputs.load(path)


def test_a_header_longer_than_its_file(tmp_path):
    (tmp_path / "a.safetensors").write_bytes((10**12).to_bytes(8, "little") + b"{}")
    with pytest.raises(InputError, match="longer than the file"):
        read_safetensors(tmp_path / "a.safetensors")


class Code:
    def __reduce__(self):
        return os.mkdir, (os.environ["CAVEAT_TEST_FOLDER"],)


def test_code_in_a_torch_file_never_runs(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CAVEAT_TEST_FOLDER", str(tmp_path / "made by code"))
    torch.save({"logits": torch.ones(2, 2), "more": Code()}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"run code and are never read.*torch\.save"):
        Outputs.load(tmp_path / "a.pt")
    assert not (tmp_path / "made by code").exists()


def test_tensors_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    logits = torch.tensor([[1.0, 2.0], [3.0, 4.5]], dtype=torch.bfloat16, requires_grad=True)
    torch.save({"logits": logits, "labels": torch.tensor([0, 1]), "epoch": 3}, tmp_path / "a.pth")
    outputs = Outputs.load(tmp_path / "a.pth")
    np.testing.assert_array_equal(outputs.logits, np.array([[1.0, 2.0], [3.0, 4.5]], dtype=np.float32))
    np.testing.assert_array_equal(outputs.labels, [0, 1])
    torch.save(logits.detach(), tmp_path / "b.pt")
    np.testing.assert_array_equal(Outputs.load(tmp_path / "b.pt", keys={"logits": "tensor"}).logits, outputs.logits)
    torch.save([1, 2], tmp_path / "c.pt")
    with pytest.raises(InputError, match="must hold a dict of tensors, got list"):
        read_torch(tmp_path / "c.pt")
    torch.save({"epoch": 3}, tmp_path / "d.pt")
    with pytest.raises(InputError, match="holds no tensors, only epoch"):
        read_torch(tmp_path / "d.pt")


def test_a_torch_file_that_unpacks_to_more_than_there_is_room_for_is_refused(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    torch.save({"confidence": torch.zeros(1).expand(10**7)}, tmp_path / "view.pt")
    torch.save({"confidence": torch.zeros(10**6)}, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(
        tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED
    ) as packed:  # fmt: skip
        for member in plain.infolist():
            packed.writestr(member.filename, plain.read(member))
    assert (tmp_path / "packed.pt").stat().st_size < 20_000
    monkeypatch.setattr(files, "_free_memory", lambda: 10**6)
    for name in ("view.pt", "packed.pt"):
        with pytest.raises(InputError, match="needs more memory than there is"):
            Outputs.load(tmp_path / name)
