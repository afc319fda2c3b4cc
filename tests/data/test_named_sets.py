"""Data sets by name, from small files in exactly the layout in which they are handed out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from caveat import InputError
from caveat.cli.app import app
from caveat_lab import data

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    return tmp_path


def save(path, value, side=(32, 32)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*side, 3), value, dtype=np.uint8)).save(path)


@pytest.fixture
def cifar100():
    rows = RNG.integers(0, 256, size=(6, 3072), dtype=np.uint8)
    return rows, np.array([3, 99, 42, 0, 3, 17]), np.array([8, 19, 8, 4, 8, 3])  # pixels, fine, coarse


def python_version(home, rows, fine, coarse):
    folder = home / "cifar-100-python"
    folder.mkdir()
    names = [f"image_{i}.png".encode() for i in range(len(rows))]
    batch = {b"filenames": names, b"batch_label": b"testing batch 1 of 1", b"fine_labels": fine.tolist(),
             b"coarse_labels": coarse.tolist(), b"data": rows}  # fmt: skip
    (folder / "test").write_bytes(pickle.dumps(batch, protocol=2))
    meta = {b"fine_label_names": [f"fine{i}".encode() for i in range(100)],
            b"coarse_label_names": [f"coarse{i}".encode() for i in range(20)]}  # fmt: skip
    (folder / "meta").write_bytes(pickle.dumps(meta, protocol=2))


def binary_version(home, rows, fine, coarse):
    folder = home / "cifar-100-binary"
    folder.mkdir()
    np.hstack([coarse[:, None], fine[:, None], rows]).astype(np.uint8).tofile(folder / "test.bin")
    for kind, count in {"fine": 100, "coarse": 20}.items():
        (folder / f"{kind}_label_names.txt").write_text("".join(f"{kind}{i}\n" for i in range(count)) + "\n")


@pytest.mark.parametrize("write", [python_version, binary_version])
def test_cifar100_has_its_fine_and_supercifar100_its_coarse_labels(home, cifar100, write):
    write(home, *cifar100)
    rows, fine, coarse = cifar100
    hundred, twenty = data.load("cifar100", "test"), data.load("supercifar100", "test")
    assert hundred.labels.tolist() == fine.tolist()
    assert twenty.labels.tolist() == coarse.tolist()
    np.testing.assert_array_equal(twenty.pixels, hundred.pixels)
    assert twenty.pixels[2, 0, 1, 0] == rows[2, 1]
    assert [twenty.classes[label] for label in twenty.labels[:2]] == ["coarse8", "coarse19"]
    assert len(hundred.classes) == 100
    assert hundred.classes[99] == "fine99"


def test_without_coarse_labels_there_are_no_superclasses(home, cifar100):
    rows, fine, _ = cifar100
    (home / "cifar-100-python").mkdir()
    content = {b"fine_labels": fine.tolist(), b"data": rows}
    (home / "cifar-100-python" / "test").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(InputError, match="coarse_labels"):
        data.load("supercifar100", "test")
    with pytest.raises(InputError, match="label_bytes=2"):
        data.read_cifar_binary([home / "cifar-100-python" / "test"], coarse=True)


def test_svhn_calls_the_digit_zero_ten(home):
    from scipy.io import savemat

    pixels = RNG.integers(0, 256, size=(32, 32, 3, 3), dtype=np.uint8)
    savemat(home / "test_32x32.mat", {"X": pixels, "y": np.array([[10], [1], [9]], dtype=np.uint8)})
    images = data.load("svhn", "test")
    assert images.labels.tolist() == [0, 1, 9]
    np.testing.assert_array_equal(images.pixels[1], pixels[..., 1])


def test_isun_is_a_folder_of_patches(home):
    for i in range(3):
        save(home / "iSUN" / "iSUN_patches" / f"sun_{i}.jpeg", 40 * i)
    images = data.load("isun")
    assert images.pixels.shape == (3, 32, 32, 3)
    assert images.labels.tolist() == [0, 0, 0]
    assert images.pixels[2].mean() == pytest.approx(80, abs=2)


def test_lsun_is_cropped_or_resized(home):
    pixels = np.zeros((36, 36, 3), dtype=np.uint8)
    pixels[2:34, 2:34] = 200  # the middle 32 x 32
    (home / "LSUN" / "test").mkdir(parents=True)
    Image.fromarray(pixels).save(home / "LSUN" / "test" / "0.png")
    save(home / "LSUN_resize" / "LSUN_resize" / "0.png", 90)
    cropped, resized = data.load("lsun_crop"), data.load("lsun_resize")
    assert cropped.pixels.shape == resized.pixels.shape == (1, 32, 32, 3)
    assert (cropped.pixels == 200).all()
    assert (resized.pixels == 90).all()
    save(home / "LSUN" / "test" / "0.png", 1, side=(20, 36))
    with pytest.raises(InputError, match="at least 32 x 32"):
        data.load("lsun_crop")


def test_the_official_lsun_database_must_be_exported(home):
    (home / "lsun" / "test_lmdb").mkdir(parents=True)
    with pytest.raises(InputError, match=r"test_lmdb, export each image .* LSUN/test"):
        data.load("lsun_crop")


@pytest.fixture
def places(home):
    root = home / "places365"
    for i, value in enumerate([10, 120, 240], 1):
        save(root / "val_256" / f"Places365_val_0000000{i}.jpg", value, side=(8, 12))
    (root / "places365_val.txt").write_text(
        "Places365_val_00000002.jpg 1\nPlaces365_val_00000001.jpg 0\nPlaces365_val_00000003.jpg 1\n"
    )
    (root / "categories_places365.txt").write_text("/a/airfield 0\n/a/airplane_cabin 1\n")
    return root


def test_places365_has_the_classes_of_its_list(places):
    images = data.load("places365")
    assert images.labels.tolist() == [1, 0, 1]
    assert images.classes == ("/a/airfield", "/a/airplane_cabin")
    assert images.pixels.mean(axis=(1, 2, 3)) == pytest.approx([120, 10, 240], abs=2)  # in the order of the list
    (places / "categories_places365.txt").unlink()
    assert data.load("places365").classes == ()


def test_places365_may_lie_next_to_its_list_without_a_folder_of_its_own(places):
    for path in list(places.iterdir()):
        path.rename(places.parent / path.name)
    assert data.load("places365").labels.tolist() == [1, 0, 1]


def test_a_list_that_does_not_fit_is_named(places):
    (places / "places365_val.txt").write_text("Places365_val_00000009.jpg 1\n")
    with pytest.raises(InputError, match=r"lists 1 images, and 1 of them are not in .* Places365_val_00000009\.jpg"):
        data.load("places365")
    (places / "places365_val.txt").write_text("Places365_val_00000001.jpg\n")
    with pytest.raises(InputError, match="name and a class number"):
        data.load("places365")
    (places / "places365_val.txt").write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        data.load("places365")


def test_tinyimagenet_has_two_splits_and_val_is_meant_by_default(home):
    root = home / "tiny-imagenet-200"
    for name, value in {"n02": 20, "n01": 10}.items():
        save(root / "train" / name / "images" / f"{name}_0.JPEG", value, side=(64, 64))
        (root / "train" / name / f"{name}_boxes.txt").write_text(f"{name}_0.JPEG\t0\t0\t62\t62\n")
    save(root / "val" / "images" / "val_0.JPEG", 99, side=(64, 64))
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t62\t62\n")
    assert data.load("tinyimagenet").labels.tolist() == data.load("tinyimagenet", "val").labels.tolist() == [1]
    train = data.load("tinyimagenet", "train")
    assert (train.labels.tolist(), train.classes) == ([0, 1], ("n01", "n02"))
    assert train.pixels.shape == (2, 32, 32, 3)


def test_the_list_names_each_set_and_where_to_get_it(home, monkeypatch):
    from typer.testing import CliRunner

    save(home / "iSUN" / "iSUN_patches" / "0.jpeg", 1)
    monkeypatch.setenv("COLUMNS", "400")
    shown = CliRunner().invoke(app, ["data", "list"]).output
    for name in ("supercifar100", "cifar100", "svhn", "tinyimagenet", "isun", "lsun_crop", "lsun_resize", "places365"):
        assert name in shown
    (line,) = [line for line in shown.splitlines() if line.lstrip().startswith("isun")]
    assert "iSUN_patches" in line
    assert "yes" in line
    (line,) = [line for line in shown.splitlines() if line.lstrip().startswith("places365")]
    assert "places2.csail.mit.edu" in line


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sorted_by_class(tmp_path):
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    path = tmp_path / "sorted.npz"
    np.savez(path, x=np.arange(100, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8), y=labels)
    return path


@pytest.mark.parametrize("limit", [1, 7, 33, 50])
def test_a_limit_keeps_the_share_of_every_class_within_one_row(sorted_by_class, limit):
    kept = data.read(sorted_by_class, limit=limit)
    assert len(kept) == limit
    counts = np.bincount(kept.labels, minlength=3)
    assert np.abs(counts - limit * np.array([0.6, 0.3, 0.1])).max() < 1


def test_a_limit_draws_by_its_seed_and_not_the_first_rows(sorted_by_class):
    one, again, other = (data.read(sorted_by_class, limit=20, seed=seed).pixels[:, 0, 0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert one.tolist() != other.tolist()
    assert one.tolist() != list(range(20))
    assert len(data.load("digits", limit=100)) == 100
    assert len(data.read(sorted_by_class, limit=1000)) == 100
    with pytest.raises(InputError, match="limit"):
        data.read(sorted_by_class, limit=0)
