// Names of functions of this program, those that are not exported too.
#ifndef MT_TESTS_SIMT_SYMBOLS_H
#define MT_TESTS_SIMT_SYMBOLS_H

#include <string>

namespace mt::simt {

/// The function that begins at an address, as it is written in C++; its address where there is no symbol.
std::string symbolAt(const void *code);

} // namespace mt::simt
#endif
