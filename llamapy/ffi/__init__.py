"""The only ctypes door to the native library. It decides nothing."""
