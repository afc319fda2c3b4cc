from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, data

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
