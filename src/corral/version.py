"""The version of corral, read by the package build and by `corral --version`."""

__version__ = "0.2.0.dev0"
