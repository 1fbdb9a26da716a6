// How tokens are stored: as wide as a vocabulary needs, and, in files that others read, behind llm.c's header of 256
// int32, of which magic, version and number of tokens.
#ifndef MT_RUNTIME_TRAIN_TOKENHEADER_H
#define MT_RUNTIME_TRAIN_TOKENHEADER_H

#include <cstdint>

namespace mt::train {

/// Bytes of a token.
constexpr int tokenWidth(int64_t vocabulary) { return vocabulary > 65536 ? 4 : 2; }

/// The header says how wide tokens are.
inline constexpr uint64_t kTokenHeaderBytes = 1024;
inline constexpr int32_t kMagic16 = 20240520, kMagic32 = 20240801;

} // namespace mt::train
#endif
