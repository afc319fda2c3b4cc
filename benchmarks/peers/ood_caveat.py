"""Caveat: OOD scores on given features and logits."""

from turns import run

from caveat import Head, Outputs, scores


def prepare(data):
    head = Head(data.weight, data.bias)
    data.fit_on = Outputs(features=data.train, logits=data.train_logits, labels=data.labels, head=head)
    data.new = Outputs(features=data.test, logits=data.test_logits, head=head)
    return data


def method(name, **parameters):
    def fit(data):
        score = scores.make(name, **{key: getattr(data, of) for key, of in parameters.items()})
        return score.without_class_scores().fit(data.fit_on)  # as evaluations and guards do; others have none

    return fit, lambda score, data: score.score(data.new)


METHODS = {
    "msp": method("msp"),
    "energy": method("energy"),
    "mahalanobis": method("mahalanobis"),
    "knn": method("knn", k="k"),
    "vim": method("vim", dimension="dimension"),
    "react": method("react", percentile="percentile"),
}

if __name__ == "__main__":
    run("caveat", METHODS, prepare=prepare)
