"""`python -m llamapy`."""

from llamapy.cli.main import entry

if __name__ == "__main__":
    entry()
