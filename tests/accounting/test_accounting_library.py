"""What the accountant takes from dp_accounting: public names, and the few messages and values it relies on."""

from __future__ import annotations

import ast
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp

import fedveil.accounting
from fedveil.accounting.gaussian_privacy import gaussian_delta

SOURCES = sorted(Path(fedveil.accounting.__path__[0]).glob("*.py"))


def library_names(tree: ast.Module) -> set[str]:
    """The names under which a module knows parts of the library."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dp_accounting"):
            names |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name.startswith("dp_accounting")}
    return names


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_private_name_of_the_library_is_read(source: Path) -> None:
    tree = ast.parse(source.read_text())
    known = library_names(tree)
    assert not any(name.startswith("_") for name in known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value
            while isinstance(owner, ast.Attribute | ast.Call):
                owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
            assert not (isinstance(owner, ast.Name) and owner.id in known), ast.unparse(node)
    assert "dp_accounting.pld" not in source.read_text(), "loss distributions are our own"


def test_what_is_used_of_the_library_does_what_is_expected_of_it() -> None:
    assert dp_accounting.get_epsilon_gaussian(1.0, 1e-5) == pytest.approx(4.37718, abs=1e-4)
    assert gaussian_delta(dp_accounting.get_sigma_gaussian(1.0, 1e-5), 1.0) == pytest.approx(1e-5, rel=1e-4)
    accountant = rdp.RdpAccountant([2.0, 4.0])
    accountant.compose(dp_accounting.GaussianDpEvent(2.0))
    assert list(accountant.rdp) == pytest.approx([0.25, 0.5])
    assert rdp.compute_epsilon([2.0, 4.0], accountant.rdp, 1e-5)[0] > 0
    assert rdp.compute_delta([2.0, 4.0], accountant.rdp, 1.0)[0] < 1
