"""What holds for every test: which build is under test, and how hypothesis behaves."""

import signal

import hypothesis

from penstock.builds import build_mode

# The machines that run this are small and shared, so an example's duration proves nothing.
hypothesis.settings.register_profile("penstock", deadline=None, print_blob=True)
hypothesis.settings.load_profile("penstock")


def pytest_report_header() -> str:
    return f"penstock: the {build_mode()} build is under test"


def pytest_configure() -> None:
    """A suite that a shell runs in the background ignores SIGINT, and so would the programs that
    its tests start and interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
