"""`python -m llamapy`, and the console script."""

import signal

# Until `entry` listens, Ctrl-C ends the process and nothing is printed of what was being imported.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from llamapy.cli.main import entry  # noqa: E402

if __name__ == "__main__":
    entry()
