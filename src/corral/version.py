"""The version of corral, read by the package build and by `corral --version`."""

__version__ = "0.1.0"
