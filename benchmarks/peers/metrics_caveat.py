"""Caveat: AUROC, FPR at 95 % TPR (outliers are the positives), and a lower bound of the AUROC."""

from turns import run

from caveat.metrics import auroc, conformal_auroc, fpr_at_tpr

METHODS = {
    "auroc": (lambda _: None, lambda _, data: {"auroc": auroc(inlier=data.inlier, outlier=data.outlier)}),
    "fpr95": (lambda _: None, lambda _, data: {"fpr95": fpr_at_tpr(inlier=data.inlier, outlier=data.outlier)}),
    "auroc bound": (
        lambda _: None,
        lambda _, data: {
            "lower": conformal_auroc(inlier=data.inlier, outlier=data.outlier, delta=data.delta, method="betting").lower
        },
    ),
}

if __name__ == "__main__":
    run("caveat", METHODS)
