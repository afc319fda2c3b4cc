"""scikit-learn's own checks of an estimator, for the wrappers with cv.

A wrapper without ``cv`` cannot be fitted: it is made around a fitted estimator, and the checks, which all call fit, do
not apply to it. All of them apply to a wrapper with ``cv``; one that scikit-learn itself skips needs SCIPY_ARRAY_API.
"""

import pytest
from sklearn.exceptions import NotFittedError as UnfittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from caveat import NotFittedError, wrap

pytestmark = pytest.mark.filterwarnings("ignore")  # the checks use few rows: thresholds are infinite, fits do not end

WRAPPERS = [
    wrap(LogisticRegression(), cv=3),
    wrap(LinearSVC(), cv=2, by="label", nonempty=True),
    wrap(GaussianNB(), cv=2, score="aps", alpha=0.3),
    wrap(Ridge(), cv=3),
]


@parametrize_with_checks(WRAPPERS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([wrap(GaussianNB(), cv="jackknife"), wrap(Ridge(), cv="jackknife")])
def test_scikit_learn_check_with_one_model_per_row(estimator, check):
    check(estimator)


def test_the_error_is_both_of_caveat_and_of_scikit_learn():
    for kind in (NotFittedError, UnfittedError):
        with pytest.raises(kind, match="not fitted"):
            wrap(Ridge(), cv=3).predict([[1.0]])
