"""Mechanisms on plain values, for people who have computed a number and know by how much one person moves it.

Each may charge an `Accountant` or a ledger before it draws. The sensitivity is believed: queries of a session, whose
sensitivity is derived and enforced, do not run through these. Proofs: docs/proofs/values.md.
"""

from dpquery.mechanisms.accountant import Accountant, Charge
from dpquery.mechanisms.choosing import exponential, permute_and_flip, report_noisy_max
from dpquery.mechanisms.noise import Release, gaussian, geometric, laplace
from dpquery.mechanisms.own_claims import OwnLaw
from dpquery.mechanisms.own_composition import (
    AuditedAccountant,
    ComposedAccountant,
    OwnAccounting,
    own_accountant,
    own_composed_ledger,
)
from dpquery.mechanisms.own_laws import AuditedLaw, OwnAccountant, own_law, own_ledger, own_noise
from dpquery.mechanisms.responses import Estimate, debias, randomised_response
from dpquery.mechanisms.sparse_vector import SparseVector

__all__ = [
    "Accountant",
    "AuditedAccountant",
    "AuditedLaw",
    "Charge",
    "ComposedAccountant",
    "Estimate",
    "OwnAccountant",
    "OwnAccounting",
    "OwnLaw",
    "Release",
    "SparseVector",
    "debias",
    "exponential",
    "gaussian",
    "geometric",
    "laplace",
    "own_accountant",
    "own_composed_ledger",
    "own_law",
    "own_ledger",
    "own_noise",
    "permute_and_flip",
    "randomised_response",
    "report_noisy_max",
]
