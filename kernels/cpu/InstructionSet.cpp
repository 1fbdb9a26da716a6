#include "kernels/cpu/InstructionSet.h"

#include "kernels/InstructionSets.h"
#include "kernels/cpu/Bf16Units.h"
#include <dnnl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>

namespace mt::kernels::cpu {
namespace {

/// Better sets of Highway's are lower bits.
struct Set {
  int64_t highway;
  dnnl_cpu_isa_t library;
  bool floatsOnTiles = false;
};
constexpr std::array<Set, kInstructionSets.size()> kSets = {
    {{HWY_SSE4, dnnl_cpu_isa_sse41}, // in the order of their names
     {HWY_AVX2, dnnl_cpu_isa_avx2},
     {HWY_AVX3, dnnl_cpu_isa_avx512_core},
     {HWY_AVX3, dnnl_cpu_isa_avx512_core_bf16},
     {HWY_AVX3, dnnl_cpu_isa_avx512_core_amx},
     {HWY_AVX3, dnnl_cpu_isa_avx512_core_amx, true}}};

constexpr int64_t kMany = 1024; ///< more than what tiles multiply needs
std::string_view unitsText() {
  switch (bf16Units()) {
  case Units::tiles:
    return floatUnits(kMany, kMany) == Units::splitTiles ? ", tiles, of floats too" : ", tiles";
  case Units::vectors:
    return ", vectors";
  default:
    return "";
  }
}

} // namespace

std::string instructionSet() {
  int64_t supported = hwy::SupportedTargets();
  const dnnl_version_t *library = dnnl_version();
  return fmt::format("{}, oneDNN {}.{}.{} {:x}{}",
                     hwy::TargetName(supported & -supported), // the best is the lowest bit
                     library->major, library->minor, library->patch,
                     static_cast<unsigned>(dnnl_get_effective_cpu_isa()), unitsText());
}

Status useInstructionSet(std::string_view name) {
  static std::string_view used; // which the library cannot be told twice
  if (!used.empty() && name == used)
    return {};
  const auto found = std::ranges::find(kInstructionSets, name);
  if (found == kInstructionSets.end())
    return fail("{}: must be {}", name, fmt::join(kInstructionSets, ", "));
  const Set *set = kSets.begin() + (found - kInstructionSets.begin());
  if (const dnnl_status_t status = dnnl_set_max_cpu_isa(set->library); status != dnnl_success)
    return fail("{}: the library that multiplies, oneDNN, cannot be held to it", name);
  const auto wanted = static_cast<unsigned>(set->library);
  const bool has = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
  if (!has || (hwy::SupportedTargets() & set->highway) == 0)
    return fail("{}: this machine's processor does not have it", name);
  hwy::DisableTargets(set->highway - 1);
  multiplyFloatsOnTiles(set->floatsOnTiles);
  used = *found;
  return {};
}

} // namespace mt::kernels::cpu
