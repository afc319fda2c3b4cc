"""The laboratory of Caveat: the networks, data sets, attacks, certificates and studies of the papers.

It imports the product, ``caveat``, which never imports the laboratory. Its commands join those of ``caveat``.
"""
