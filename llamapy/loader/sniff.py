"""What a file really is that was taken for a GGUF: a download error page, another format."""

from __future__ import annotations

MAGIC = b"GGUF"

# (offset, bytes there, what it is and what to do)
_SIGNS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file itself; run `git lfs pull`"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"lmgg", "a GGML file of before GGUF (magic 'ggml'); convert it to GGUF"),
    (0, b"fmgg", "a GGML file of before GGUF (magic 'ggmf'); convert it to GGUF"),
    (0, b"tjgg", "a GGML file of before GGUF (magic 'ggjt'); convert it to GGUF"),
    (0, b"algg", "a LoRA adapter of before GGUF (magic 'ggla'); convert it to GGUF"),
    (0, b"FUGG", "a GGUF file with its bytes swapped; take a little-endian copy"),
    (0, b"\x1f\x8b", "a gzip file; unpack it first"),
    (0, b"BZh", "a bzip2 file; unpack it first"),
    (0, b"\xfd7zXZ\0", "an xz file; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file; unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first"),
    (257, b"ustar", "a tar archive; unpack it first"),
    (0, b"\x93NUMPY", "a NumPy array file"),
    (0, b"\x89HDF", "an HDF5 (Keras) file; convert the model to GGUF"),
    (4, b"TFL3", "a TensorFlow Lite model; convert it to GGUF"),
    (0, b"\x7fELF", "a program (ELF); a llamafile holds its GGUF inside: unpack it first"),
    (0, b"MZ", "a program (EXE or llamafile); a llamafile holds its GGUF inside: unpack it first"),
)


def _zip(head: bytes) -> str:
    if b"data.pkl" in head or b"archive/" in head or b"/version" in head:
        return "a PyTorch checkpoint; convert the model to GGUF"
    if b".npy" in head:
        return "a NumPy archive (.npz)"
    return "a zip archive; unpack it first"


def _web(low: bytes) -> str | None:
    if low.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "a web page (HTML), most likely an error or sign-in page; download the file again"
    if low.startswith((b"<?xml", b"<error")):
        return "an XML document, most likely a download's error answer; download the file again"
    if low.startswith((b"{", b"[")):
        return "JSON text: a configuration file or a download's error answer"
    return None


def what_is(head: bytes, size: int) -> str:
    """In words, from the first 512 bytes and the size of a file without GGUF's magic."""
    if size == 0:
        return "the file is empty (0 bytes); the download failed or has not begun"
    if size < len(MAGIC) and MAGIC.startswith(head):
        return f"the file ends after {size} bytes, inside the magic 'GGUF'; it is cut short"
    found = _web(head.lstrip(b"\xef\xbb\xbf \t\r\n").lower())
    if head.startswith(b"PK\x03\x04"):
        found = _zip(head)
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < max(size, 9):
        found = "a safetensors file; convert the model to GGUF"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        found = "a Python pickle (an old PyTorch checkpoint); convert the model to GGUF"
    for at, sign, words in _SIGNS:
        if head[at : at + len(sign)] == sign:
            found = words
    if found is None and not any(head):
        found = "zeros: space set aside by a download that was never filled; download it again"
    if found is None:
        return f"not a GGUF file: it starts with {head[:4]!r}, expected {MAGIC!r}"
    return f"not a GGUF file but {found}"
