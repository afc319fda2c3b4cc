"""Files of tensors as outputs: ``.safetensors``, memory-mapped and without any package, and ``.pt`` by torch.

The layout of a ``.safetensors`` file: 8 bytes with the length of a JSON header, the header with type, shape and place
of each tensor, the values (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import check_room, damage_errors, from_json
from caveat.errors import InputError, MissingExtraError

__all__ = ["SAFETENSORS", "TORCH", "read_safetensors", "read_torch"]

Array = NDArray[Any]

SAFETENSORS, TORCH = (".safetensors",), (".pt", ".pth")
_SINGLE = "tensor"  # name of the tensor in a file that holds one without a name
_REMEDY = "torch.save({'logits': logits, 'labels': labels}, path)"
_HEADER = 100_000_000  # bytes; the bound of the format
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def read_safetensors(path: Path) -> dict[str, Array]:
    """Every tensor of a ``.safetensors`` file, memory-mapped; bfloat16 becomes float32 when it is read."""
    with damage_errors(path, "a .safetensors file"):
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(_HEADER, size - 8):
                raise ValueError("its header is longer than the file")
            header = from_json(stream.read(length).rstrip(b" \0"), f"the header of {path}")
        header.pop("__metadata__", None)
        return {name: _tensor(path, name, entry, 8 + length, size) for name, entry in header.items()}


def _tensor(path: Path, name: str, entry: Any, begin: int, end: int) -> Array:
    kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in _TYPES:
        raise InputError(f"{path}: tensor '{name}' has the type {kind}, which numpy cannot hold. Store float32.")
    dtype = np.dtype(_TYPES[kind])
    if not all(type(number) is int and number >= 0 for number in (*shape, first, last)):
        raise ValueError(f"tensor '{name}' has a wrong shape or place")
    count = int(np.prod(shape, dtype=object))
    if last - first != count * dtype.itemsize or begin + last > end:
        raise ValueError(f"tensor '{name}' ends too early")
    if not count:
        return np.zeros(shape, dtype=dtype)
    values = np.memmap(path, dtype=dtype, mode="r", offset=begin + first, shape=tuple(shape))
    if kind == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def read_torch(path: Path) -> dict[str, Array]:
    """Every tensor of a dict that ``torch.save`` wrote. A tensor alone is called ``tensor``.

    ``torch.load(weights_only=True)`` reads it: code in the file never runs, and a file that holds more than tensors and
    plain values is an InputError.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"reading {path.suffix} files", extra="torch") from None
    with damage_errors(path, "a file of torch.save"):
        _check_archive(path)
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise InputError(f"{path} is damaged or holds more than tensors: objects can run code and are never read. "
                             f"Save tensors alone: {_REMEDY}.") from None  # fmt: skip
        if isinstance(content, torch.Tensor):
            content = {_SINGLE: content}
        if not isinstance(content, Mapping):
            raise InputError(f"{path} must hold a dict of tensors, got {type(content).__name__}. "
                             f"Save one: {_REMEDY}.")  # fmt: skip
        tensors = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
        if not tensors:
            raise InputError(f"{path} holds no tensors, only {', '.join(map(str, list(content)[:10])) or 'nothing'}.")
        room = sum(value.numel() * value.element_size() for value in tensors.values())
        check_room(room, path, "Store a folder of .npy files, which is read in parts.")  # a view may repeat one number
        return {name: _as_array(torch, value) for name, value in tensors.items()}


def _check_archive(path: Path) -> None:
    """Refuse an archive that is damaged or unpacks to more than there is room for, before torch unpacks it."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:  # older files are no archives
        unpacked = sum(member.file_size for member in archive.infolist())
        check_room(unpacked, path, "Store a folder of .npy files, which is read in parts.")
        if damaged := archive.testzip():  # torch does not compare the checksums that it writes
            raise ValueError(f"{damaged} is not what its checksum says")


def _as_array(torch: Any, tensor: Any) -> Array:
    tensor = tensor.detach().to_dense() if tensor.is_sparse or tensor.is_quantized else tensor.detach()
    array: Array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array
