#include "kernels/cpu/Bf16Units.h"

#include <dnnl.h>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mt::kernels::cpu {

#if defined(__x86_64__)
namespace {

bool has(dnnl_cpu_isa_t least) {
  const auto wanted = static_cast<unsigned>(least);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
}

#if defined(MT_EMULATED_TILES)
constexpr dnnl_cpu_isa_t kOfTiles = dnnl_cpu_isa_avx512_core_bf16;
bool lendsTiles() { return true; }
#else
constexpr dnnl_cpu_isa_t kOfTiles = dnnl_cpu_isa_avx512_core_amx;
bool lendsTiles() {
  constexpr long kAskFor = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of <asm/prctl.h>
  static const bool isLent = syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
  return isLent;
}
#endif

} // namespace

Units bf16Units() {
  if (has(kOfTiles) && lendsTiles())
    return Units::tiles;
  return has(dnnl_cpu_isa_avx512_core_bf16) ? Units::vectors : Units::floats;
}

#else

Units bf16Units() { return Units::floats; }

#endif

static bool areFloatsOnTiles = false;

void multiplyFloatsOnTiles(bool does) { areFloatsOnTiles = does; }

Units floatUnits(int64_t n, int64_t k) {
  constexpr int64_t kFewest = 32;
  const bool fills = n >= kFewest && k >= kFewest;
  return fills && areFloatsOnTiles && bf16Units() == Units::tiles ? Units::splitTiles : Units::floats;
}

} // namespace mt::kernels::cpu
