from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat_lab import data

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    for name, value in {"b_dog": 200, "a_cat": 10}.items():
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.fromarray(np.full((6, 8, 3), value + i, dtype=np.uint8)).save(tmp_path / name / f"{i}.png")
    (tmp_path / "a_cat" / "notes.txt").write_text("not an image")
    return tmp_path


def test_subfolders_are_classes_in_the_order_of_their_names(folder):
    images = data.read_folder(folder)
    assert images.classes == ("a_cat", "b_dog")
    assert images.labels.tolist() == [0, 0, 1, 1]
    assert images.pixels[:, 0, 0, 0].tolist() == [10, 11, 200, 201]
    assert images.pixels.shape == (4, 6, 8, 3)


def test_central_squares_are_resized_and_grey_is_one_channel(folder):
    wide = np.zeros((4, 8), dtype=np.uint8)
    wide[:, 2:6] = 255  # the central square is white
    Image.fromarray(wide).save(folder / "a_cat" / "2.png")
    images = data.read_folder(folder, size=4, grey=True)
    assert images.pixels.shape == (5, 4, 4)
    assert (images.pixels[2] == 255).all()


def test_a_folder_without_subfolders_is_one_class(folder):
    images = data.read_folder(folder / "a_cat")
    assert images.labels.tolist() == [0, 0]
    assert images.classes == ()


def test_what_cannot_be_read_is_named(folder, tmp_path_factory):
    with pytest.raises(InputError, match="must be a folder"):
        data.read_folder(folder / "nothing")
    with pytest.raises(InputError, match="holds no image files"):
        data.read_folder(tmp_path_factory.mktemp("empty"))
    Image.fromarray(np.zeros((3, 3, 3), dtype=np.uint8)).save(folder / "b_dog" / "2.png")
    with pytest.raises(InputError, match=r"2.png is 3 x 3 pixels, the first image has other sides. Pass size="):
        data.read_folder(folder)
    (folder / "a_cat" / "0.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"0.png is not a readable image"):
        data.read_folder(folder)


@pytest.fixture
def tiny(tmp_path):
    """TinyImageNet as handed out: classes as folders in train/, and as lines of a text file in val/."""
    for k, name in enumerate(["n03", "n01", "n02"]):
        (tmp_path / "train" / name / "images").mkdir(parents=True)
        Image.fromarray(np.full((4, 4, 3), k, dtype=np.uint8)).save(
            tmp_path / "train" / name / "images" / f"{name}_0.png"
        )
    (tmp_path / "val" / "images").mkdir(parents=True)
    lines = []
    for i, name in enumerate(["n02", "n03", "n02"]):
        Image.fromarray(np.full((4, 4, 3), i, dtype=np.uint8)).save(tmp_path / "val" / "images" / f"val_{i}.png")
        lines.append(f"val_{i}.png\t{name}\t0\t32\t44\t62\n")
    (tmp_path / "val" / "val_annotations.txt").write_text("".join(lines))
    return tmp_path


def test_the_official_validation_set_of_tinyimagenet_has_its_classes(tiny):
    found, train = data.read(tiny / "val"), data.read(tiny / "train")
    assert train.classes == found.classes == ("n01", "n02", "n03")
    assert [found.classes[label] for label in found.labels] == ["n02", "n03", "n02"]
    (tiny / "train").rename(tiny / "elsewhere")
    assert data.read(tiny / "val").classes == ("n02", "n03")
    (tiny / "wnids.txt").write_text("n03\nn02\nn01\n")
    np.testing.assert_array_equal(data.read(tiny / "val").labels, found.labels)


def test_an_image_without_a_class_is_named(tiny):
    (tiny / "val" / "val_annotations.txt").write_text("val_0.png\tn02\t0\t0\t1\t1\n")
    with pytest.raises(InputError, match=r"no class for val_1\.png"):
        data.read(tiny / "val")


def test_listed_images_that_are_not_there_are_counted(tiny):
    for i in (0, 2):
        (tiny / "val" / "images" / f"val_{i}.png").unlink()
    with pytest.raises(InputError, match=r"lacks 2 of the 3 images in val_annotations.txt, such as val_0\.png"):
        data.read(tiny / "val")


def test_tinyimagenet_is_found_as_it_is_handed_out(tiny, monkeypatch):
    tiny.rename(tiny.parent / "tiny-imagenet-200")
    monkeypatch.setenv("CAVEAT_DATA", str(tiny.parent))
    images = data.load("tinyimagenet")
    assert images.pixels.shape == (3, 32, 32, 3)
    assert images.labels.tolist() == [1, 2, 1]
