"""Builds the wheel without the contract-test cases of techniques, which only tests import."""

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithoutCases(build_py):
    """Copies the modules of the packages."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Returns the modules of a package."""
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[1] != "case"]


setup(cmdclass={"build_py": BuildWithoutCases})
