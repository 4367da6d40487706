"""What everything else stands on: errors with exit codes, stderr log, the ggml type table, flags."""
