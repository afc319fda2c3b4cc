"""Every example runs as a script, and its printed numbers are plausible."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from caveat import Guard

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name, *args, warns=False):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert warns or "CaveatWarning" not in done.stderr
    return done.stdout


def shares(text):
    return [float(share) / 100 for share in re.findall(r"([\d.]+)\s?%", text)]


def test_every_example_is_run_here_and_listed():
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    here, listed = Path(__file__).read_text(encoding="utf-8"), (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for script in scripts:
        assert f'run("{script}"' in here, f"{script} is not run by this test"
        assert f"`{script}`" in listed, f"{script} is not listed in examples/README.md"


def test_own_logits():
    out = run("own_logits.py")
    rejected = float(re.search(r"rejected.*Measured: ([\d.]+) %", out)[1]) / 100
    # 2,000 + 2,000 samples: the promise of 5 % and the noise of the test file, 4 standard errors
    assert rejected < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)
    assert float(re.search(r"Caught: elsewhere ([\d.]+) %", out)[1]) > 40
    assert abs(float(re.search(r"coverage on the test file ([\d.]+)", out)[1]) - 0.9) < 4 * np.sqrt(0.09 / 1000)


def test_sklearn_model():
    out = run("sklearn_model.py")
    assert float(re.search(r"right [\d.]+, covered ([\d.]+)", out)[1]) > 0.9 - 4 * np.sqrt(0.09 / 58 * 2)
    widths = re.findall(r"widths from (\d+) to (\d+)", out)
    assert widths[0][0] == widths[0][1]
    assert float(widths[1][0]) < float(widths[1][1])
    cross = [tuple(map(float, pair)) for pair in re.findall(r"covered ([\d.]+),.* proven ([\d.]+)", out)]
    assert len(cross) == 5
    assert all(covered > proven for covered, proven in cross)
    for line in out.splitlines():
        if " flags " in line:
            possible, impossible = shares(line)
            assert possible < 0.3 < impossible


def test_risk_control():
    out = run("risk_control.py")
    delivered = [float(share) for share in re.findall(r"delivered ([\d.]+) %", out)]
    kept = [float(count) for count in re.findall(r"([\d.]+) kept per row", out)]
    assert len(delivered) == 6
    assert max(delivered) < 10 + 100 * 4 * 0.25 / np.sqrt(500)  # 500 rows whose loss has a deviation of at most 0.25
    for first in (0, 3):  # the more is promised, the more is kept: on average, betting, Hoeffding-Bentkus
        assert kept[first : first + 3] == sorted(kept[first : first + 3])
    assert "Nothing can be promised" in out


def test_torch_model():
    pytest.importorskip("torch")
    out = run("torch_model.py")
    digits, near, noise = shares(out.split("flags")[1])[:3]
    assert digits < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 443)
    assert digits < near < noise


def check_promises(out, *, false_alarm, risk, alpha):
    """Rates on fresh inliers are as promised, up to 4 standard errors of the rows that measured and calibrated them."""
    measured = re.findall(r"^(.*)\n +Measured: (?:([\d.]+) \[.*n = (\d+)\)|nothing)", out, re.MULTILINE)
    assert len(measured) == 3
    held = []
    for (sentence, rate, n), level in zip(measured, (false_alarm, risk, 1 - alpha), strict=True):
        if "Nothing can be promised" in sentence:
            continue
        held.append(sentence)
        rows = int(re.search(r"n = (\d+) calibration rows", sentence)[1])
        chance = 4 * np.sqrt(level * (1 - level) * (1 / int(n) + 1 / rows))
        if "hold the true class" in sentence:
            assert float(rate) > level - chance
        else:
            assert float(rate) < level + chance
    return held


def verdict_shares(out):
    """Name of the inputs -> shares accepted, abstained, outliers, from a table of verdicts."""
    _, table = re.split(r"accept +abstain +outlier.*\n", out)
    lines = table.split("\n\n")[0].splitlines()
    return {line[:30].strip(): shares(line)[:3] for line in lines if "%" in line[30:]}


def test_guard_sklearn():
    out = run("guard_sklearn.py")
    assert len(check_promises(out, false_alarm=0.05, risk=0.02, alpha=0.05)) == 3
    table = verdict_shares(out)
    assert table.pop("digits")[0] > 0.5
    assert len(table) == 4
    for _, _, outliers in table.values():
        assert outliers > 0.9
    alone = [shares(line)[3] for line in out.splitlines() if line.startswith(("strokes", "noise"))]
    assert max(alone) < 0.2  # a probability does not notice what is far from every digit
    assert "equal bit for bit: True" in out
    flagged, strokes = re.search(r"flags ([\d.]+)% of the digits and ([\d.]+)% of the strokes", out).groups()
    assert float(flagged) < 5 + 100 * 3 * np.sqrt(0.05 * 0.95 / 597)
    assert float(strokes) > 90
    assert "After 300 digits: Watch(quiet" in out
    assert "15 degrees: Watch(alarm: score" in out
    assert 0 < int(re.search(r"First alarm (\d+) digits later", out)[1]) < 200


def test_guard_torch():
    pytest.importorskip("torch")
    out = run("guard_torch.py")
    assert len(check_promises(out, false_alarm=0.05, risk=0.05, alpha=0.05)) == 3
    near, noise = (shares(line) for line in out.splitlines() if line.startswith(("  digits 8", "  noise")))
    for alone_and_both in (near, noise):  # two scores in one gate: no need to know which of them is the weak one
        assert alone_and_both[2] > min(alone_and_both[:2]) - 0.1
    assert 0.1 < near[2] < noise[2]
    selected, new = map(int, re.search(r"(\d+) selected, (\d+) of them new", out).groups())
    assert new > 20
    assert selected - new < 0.2 * selected + 4 * np.sqrt(0.2 * 0.8 * selected)
    assert "After 200 known digits: Watch(quiet" in out
    assert "8 or 9: Watch(alarm: score" in out
    assert re.search(r"alarms: score.*risk", out)


def test_guard_magika():
    pytest.importorskip("magika")
    out = run("guard_magika.py")
    assert check_promises(out, false_alarm=0.05, risk=0.1, alpha=0.1)
    table = verdict_shares(out)
    assert table.pop("types it was calibrated on")[0] > 0.5
    assert table["random bytes"][2] > 0.9
    assert table["an invented format"][2] > 0.9
    for cython in (".pyx", ".pxd"):  # Python to Magika, and so to the guard
        table = {name: row for name, row in table.items() if not name.startswith(cython)}
    assert np.mean([outliers for _, _, outliers in table.values()]) > 0.5


def test_guard_magika_with_few_files_says_what_is_not_promised():
    pytest.importorskip("magika")
    out = run("guard_magika.py", "--files", "2", warns=True)
    assert len(check_promises(out, false_alarm=0.05, risk=0.1, alpha=0.1)) == 1
    assert "calibration rows; there are" in out
    assert "the outlier gate stops nothing" in out
    assert verdict_shares(out)["random bytes"] == [0, 1, 0]  # nothing is accepted without a promise


def test_serve_magika():
    pytest.importorskip("magika")
    pytest.importorskip("fastapi")
    out = run("serve_magika.py")
    assert "'name': 'bytes', 'datatype': 'INT32', 'shape': [-1, 2048]" in out
    table = re.findall(r"^(\S.{21}) +(\d+) +(\d+) +(\d+) +(\d+)   (\w+): (\w+)\.", out, re.MULTILINE)
    counts = {name.strip(): list(map(int, rest)) for name, *rest in (row[:5] for row in table)}
    strange = [counts.pop(name) for name in ("an invented format", "random bytes", "bytes turned over")]
    assert all(outlier == files for files, _, _, outlier in strange)  # Magika has an answer to each
    files, accepted, _, outliers = np.sum(list(counts.values()), axis=0)
    assert len(counts) == 6
    assert accepted > 0.7 * files
    # the promise is on one file; six kinds of one module stand or fall together, so that 15 modules are measured
    assert outliers < files * (0.05 + 4 * np.sqrt(0.05 * 0.95 * (1 / 15 + 1 / 25)))


def test_pyod_detector():
    pytest.importorskip("pyod")
    out = run("pyod_detector.py")
    for value, least in re.findall(r"^\S.*?(\d\.\d+)\s+(\d\.\d+)\s+\d\.\d+$", out, re.MULTILINE):
        assert float(least) < float(value)
    found = [shares(line)[1] for line in out.splitlines() if "in vain" in line]
    assert len(found) == 3
    assert found == sorted(found)
    assert found[-1] > 0.5


def test_magika_files():
    pytest.importorskip("magika")
    out = run("magika_files.py", "--files", "10")
    assert float(re.search(r"give the logits to (\S+)", out)[1]) < 1e-3
    assert float(re.search(r"types; ([\d.]+)%", out)[1]) > 75
    bytes_called = next(line for line in out.splitlines() if line.startswith("  random bytes"))
    assert "randombytes" in bytes_called
    _, flagged = out.split("Share flagged")
    assert len(flagged.strip().splitlines()) == 2 + 8


def test_magika_is_read_as_magika_reads():
    """Our bytes-to-input and the opened graph give Magika's own probability of its own answer."""
    magika = pytest.importorskip("magika")
    spec = importlib.util.spec_from_file_location("magika_files", EXAMPLES / "magika_files.py")
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    rng = np.random.default_rng(0)
    contents = [
        Path(__file__).read_bytes(), (EXAMPLES / "README.md").read_bytes(), b"  \n" * 9 + b"a,b\n1,2\n" * 700,
        rng.bytes(9000), b"\x7fELF" + rng.bytes(300),
    ]  # fmt: skip
    model, theirs = example.FileTypes(), magika.Magika()
    for content in contents:
        ours = model([content])  # one by one, as Magika does: a batch changes the order of sums, and the fifth digit
        said = theirs.identify_bytes(content).prediction
        assert said.dl.label == example.TYPES[ours.predictions[0]]
        assert said.score == pytest.approx(ours.probs.max(), abs=1e-6)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The guard of the demonstration with its two files, without the rest of the demonstration."""
    from caveat.demo.network import demo_outputs

    folder, shown = tmp_path_factory.mktemp("demo"), demo_outputs()
    guard = Guard("kpca_error").fit(shown.train).calibrate(shown.calibration)
    guard.save(folder / "guard")
    shown.inlier.save(folder / "inliers.npz")
    shown.outliers["mid: occluded"].save(folder / "drifted.npz")
    return folder


def test_live_traffic(demo):
    out = run("live_traffic.py", str(demo), "--seconds", "0", "--once")
    assert "Held-out digits. 260 verdicts" in out
    assert "Alarms: none." in out
    assert int(re.search(r"inputs at row (\d+)", out)[1]) > 260  # 260 quiet rows come first
