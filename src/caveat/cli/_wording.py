"""Remedies of the library in the words of the command line: options instead of arguments."""

from __future__ import annotations

__all__ = ["in_options"]

_OPTIONS = {
    "Store them, or pass sets=None": "Store them, or add --sets none",
    "Store them, or pass risk=None": "Store them, or leave out --risk",
    "Pass the same class_names to both": "Store class_names in both files, or give --class-names a,b,c",
    "Pass class_names to both": "Store class_names in both files, or give --class-names a,b,c",
    "Pass class_names in the order of the columns (scikit-learn's is classes_), --class-names a,b,c, or store it in "
    "the file as class_names": "Give --class-names a,b,c in the order of the columns, or store it in the file as "
    "class_names",
    "Pass class_names in the order of the columns.": "Give --class-names a,b,c in the order of the columns.",
    "Pass class_names.": "Give --class-names a,b,c.",
    ": keys={'logits': NAME}, --key logits=NAME": ": --key logits=NAME",
    "Give its file: --head FILE, or head= in Python": "Give its file: --head FILE",
    "Give it: head=, as in Outputs, or --head FILE": "Give its file: --head FILE",
    "Give them: train=, or --train FILE": "Give them: --train FILE",
}


def in_options(message: str) -> str:
    """A message of the library as the command line shows it.

    >>> in_options("Guard needs labels. Store them, or pass sets=None.")
    'Guard needs labels. Store them, or add --sets none.'
    """
    for words, option in _OPTIONS.items():
        message = message.replace(words, option)
    return message
