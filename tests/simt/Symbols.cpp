#include "tests/simt/Symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

extern "C" const char __executable_start; // by the linker

namespace mt::simt {
namespace {

std::string demangled(const char *name) {
  int status = 0;
  char *text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string made = status == 0 ? text : name;
  std::free(text);
  return made;
}

/// Functions by their address in the program's file.
std::map<uintptr_t, std::string> read() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  auto at = [&]<typename T>(uint64_t offset, T &into) { std::memcpy(&into, bytes.data() + offset, sizeof into); };
  Elf64_Ehdr header;
  at(0, header);
  std::map<uintptr_t, std::string> names;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, strings;
    at(header.e_shoff + i * sizeof table, table);
    if (table.sh_type != SHT_SYMTAB)
      continue;
    at(header.e_shoff + table.sh_link * sizeof strings, strings);
    for (uint64_t offset = 0; offset < table.sh_size; offset += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      at(table.sh_offset + offset, symbol);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value)
        names[symbol.st_value] = bytes.data() + strings.sh_offset + symbol.st_name;
    }
  }
  return names;
}

} // namespace

std::string symbolAt(const void *code) {
  static const std::map<uintptr_t, std::string> names = read();
  const auto address = reinterpret_cast<uintptr_t>(code), begin = reinterpret_cast<uintptr_t>(&__executable_start);
  const auto found = names.find(address - begin);
  return found == names.end() ? fmt::format("code at {}", code) : demangled(found->second.c_str());
}

} // namespace mt::simt
