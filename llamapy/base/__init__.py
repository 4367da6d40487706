"""What everything else stands on: errors and exit codes, stderr log, the type table, flags."""
