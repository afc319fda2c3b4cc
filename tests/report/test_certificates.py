import numpy as np
import pytest

from caveat import InputError
from caveat.report.certificates import certificate_markdown, render_certificates, write_certificates
from caveat.study.certification import Certification, SetCertificate


def certification(source="net", epsilon=0.3, name="letters", seed=0):
    rng = np.random.default_rng(seed)
    clean = np.log(rng.uniform(0.1, 0.5, 60))
    attacked = np.minimum(clean + 0.2, 0)
    one = SetCertificate(
        name, clean=clean, attacked=attacked, upper=np.minimum(attacked + 0.3, 0), zero_gradients=0.75,
        labels=rng.integers(3, size=60), classes=("a", "b", "c"), caveat="The attack is masked.",
    )  # fmt: skip
    return Certification(source, epsilon, 10, np.log(rng.uniform(0.4, 1, 80)), 0.95, (one,))


def test_the_page_holds_the_table_the_histograms_and_the_classes():
    found = certification()
    page = render_certificates([found], title="Digits")
    (one,) = found.sets
    for value in (found.auc(one), found.aauc(one), found.gauc(one)):
        assert f'data-value="{value}"' in page
    assert page.count("<svg") == 3  # inliers, one set, one set by class
    assert "The attack is masked." in page
    assert "net: letters" in page
    assert "://" not in page
    assert page == render_certificates([certification()], title="Digits")


def test_the_markdown_has_the_numbers_of_the_page():
    found = certification()
    text = certificate_markdown([found])
    (one,) = found.sets
    assert f"| {found.gauc(one):.3f} |" in text
    assert "### letters" in text


def test_several_models_stand_under_each_set():
    page = render_certificates([certification("a"), certification("b", seed=1)])
    assert page.count('<tr class="group">') == 1
    assert page.count('scope="row"') == 2


def test_names_are_only_text(tmp_path):
    write_certificates([certification(source="<script>x</script>", name='"><b>')], tmp_path / "page.html", title="<i>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>x" not in page
    assert '"><b>' not in page
    assert "<h1>&lt;i&gt;</h1>" in page


def test_without_an_attack_there_is_no_aauc():
    one = SetCertificate("noise", clean=np.log([0.2, 0.3]), upper=np.log([0.4, 0.5]))
    page = render_certificates([Certification("net", 0.1, 10, np.log([0.9, 0.8]), np.nan, (one,))])
    assert ">–<" in page
    assert "nan" not in page


def test_what_is_not_a_page():
    with pytest.raises(InputError, match="at least one certification"):
        render_certificates([])
    with pytest.raises(InputError, match="must be of one radius, got 0.1 and 0.3"):
        render_certificates([certification(epsilon=0.1), certification()])


@pytest.mark.browser
def test_the_page_opens_without_errors_and_fits_a_phone(browser, tmp_path):
    write_certificates([certification()], tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    errors = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.set_viewport_size({"width": 1100, "height": 900})
    page.click("#certificates-table thead th:nth-child(3)")
    page.close()
    assert not errors
