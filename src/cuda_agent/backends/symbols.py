"""What a shared library defines and needs, from its dynamic symbol table (64-bit little-endian ELF)."""

from __future__ import annotations

import struct
from pathlib import Path

_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_STT_FUNC = 2
_STB_GLOBAL_OR_WEAK = (1, 2)


def defined_functions(library: Path) -> frozenset[str]:
    """Names as the linker knows them: C++ ones are mangled (`_Z…`). Raises ValueError if `library` is no such file."""
    return frozenset(
        name for name, info, section in _symbols(library)
        if info & 0xF == _STT_FUNC and info >> 4 in _STB_GLOBAL_OR_WEAK and section != 0
    )  # fmt: skip


def kernels_of(cubin: Path) -> frozenset[str]:
    """Names of the `__global__` functions of a cubin, mangled ones too. Raises ValueError if it is no such file."""
    return frozenset(
        name for name, info, section in _symbols(cubin, _SHT_SYMTAB)
        if info & 0xF == _STT_FUNC and info >> 4 in _STB_GLOBAL_OR_WEAK and section != 0
    )  # fmt: skip


def needed_symbols(library: Path) -> frozenset[str]:
    """Names that other libraries must define. Raises ValueError if `library` is no such file."""
    return frozenset(name for name, _, section in _symbols(library) if section == 0 and name)


def _symbols(library: Path, kind: int = _SHT_DYNSYM) -> list[tuple[str, int, int]]:
    """(name, info, section) of each symbol, the dynamic ones by default; section 0 is undefined."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{library.name} is no 64-bit little-endian ELF file")
    try:
        return _table(data, kind)
    except (struct.error, IndexError):
        raise ValueError(f"{library.name} is damaged") from None


def _table(data: bytes, kind: int) -> list[tuple[str, int, int]]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry_size) for index in range(count)]
    rows: list[tuple[str, int, int]] = []
    for header in headers:
        if header[1] == kind:
            offset, size, link = header[4], header[5], header[6]
            strings = headers[link][4]
            for position in range(offset, min(offset + size, len(data)), 24):
                name, info, _, section = struct.unpack_from("<IBBH", data, position)
                end = data.index(b"\0", strings + name)
                rows.append((data[strings + name : end].decode("ascii", "replace"), info, section))
    return rows
