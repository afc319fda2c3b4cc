"""Outputs of scikit-learn classifiers: columns follow classes_, labels are those of the estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from caveat import InputError, Outputs

X, NUMBERS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.mark.parametrize(
    ("classes", "names"),
    [(NAMES, tuple(NAMES)), (np.array([1, 2, 3]), ("1", "2", "3")), (np.arange(3), None),
     (np.array([-5.0, 3.0, 7.0]), ("-5", "3", "7"))],
)  # fmt: skip
def test_labels_of_every_kind(classes, names):
    y = classes[NUMBERS]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    outputs = Outputs.from_sklearn(model, X, y)
    assert outputs.class_names == names
    np.testing.assert_array_equal(outputs.probs, model.predict_proba(X))
    np.testing.assert_array_equal(outputs.correct, model.predict(X) == y)
    assert Outputs.from_sklearn(model, X).labels is None


def test_decision_values_are_logits_also_of_two_classes():
    y = NAMES[NUMBERS]
    model = LinearSVC().fit(X, y)
    np.testing.assert_array_equal(Outputs.from_sklearn(model, X, y).logits, model.decision_function(X))
    binary = RidgeClassifier().fit(X, NUMBERS == 1)
    outputs = Outputs.from_sklearn(binary, X, NUMBERS == 1)
    np.testing.assert_array_equal(outputs.logits, np.column_stack([np.zeros(150), binary.decision_function(X)]))
    assert outputs.class_names == ("False", "True")
    np.testing.assert_array_equal(outputs.correct, binary.predict(X) == (NUMBERS == 1))


def test_pairwise_columns_are_refused_with_exactly_three_classes_too():
    for classes in (3, 4):
        y = np.arange(150) % classes
        model = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")).fit(X, y)
        with pytest.raises(InputError, match="one column per class .* one per pair"):
            Outputs.from_sklearn(model, X, y)


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (LogisticRegression(max_iter=500).fit(X, NAMES[NUMBERS]), ["rose"] * 150, "knows, got 'rose' at row 0"),
        (LogisticRegression(max_iter=500).fit(X, NAMES[NUMBERS]), [["rose", "lily"]] * 150, "one value per row"),
        (LinearRegression().fit(X, NUMBERS), None, "fitted classifier with classes_, got LinearRegression"),
        (LogisticRegression(), None, "fitted classifier with classes_"),
        (KNeighborsClassifier().fit(X, np.column_stack([NUMBERS, NUMBERS])), None, "one output, got 2"),
        ("a model", None, "estimator must have predict"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_gets_one_sentence(model, y, message):
    with pytest.raises(InputError, match=message):
        Outputs.from_sklearn(model, X, y)
