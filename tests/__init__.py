"""The tests, as a package of their own: a dependency installs another one of this name."""
