// Sizes as people write and read them: parsing `412 MiB` from flags and files, and printing bytes, counts, seconds
// and rates with their units. Nothing here knows what is measured. Used by every tool, message and report.
#ifndef MT_RUNTIME_BASE_SIZES_H
#define MT_RUNTIME_BASE_SIZES_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

/// Bytes of a text such as `8GiB`, `1.5 TiB`, `512 MB` or `4096` (bytes). Units: B, KiB MiB GiB TiB (powers of 1024),
/// KB MB GB TB (powers of 1000), in any case; a fraction of a byte is dropped. Errors name the text and the units.
Result<uint64_t> parseSize(std::string_view text);

/// `412.3 MiB`, `1.42 GiB`, `17 B`: three or four digits, powers of 1024.
std::string formatSize(uint64_t bytes);
/// `412.3 MiB (432,341,504 bytes)`: for messages where the exact number matters.
std::string formatExactSize(uint64_t bytes);
/// `124.4 M`, `1.42 G`, `17`: powers of 1000.
std::string formatCount(double count);
/// `8.3 Tflop`, `17 flop`: powers of 1000.
std::string formatFlops(double flops);
/// `1.90 s`, `12.3 ms`, `450.0 us`, `2 h 5 min`.
std::string formatSeconds(double seconds);
/// `55.0 GB/s`: powers of 1000, as bandwidths are quoted.
std::string formatBandwidth(double bytesPerSecond);

} // namespace mt
#endif
