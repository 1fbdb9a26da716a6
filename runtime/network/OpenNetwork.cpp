#include "runtime/network/OpenNetwork.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <optional>

namespace mt::network {

/// The first of some variables that is a number.
static std::optional<uint32_t> numberIn(std::initializer_list<const char *> names) {
  for (const char *name : names)
    if (const char *text = std::getenv(name)) {
      uint32_t number = 0;
      if (std::from_chars(text, text + std::strlen(text), number).ec == std::errc())
        return number;
    }
  return std::nullopt;
}

uint32_t launchedRanks() {
  return std::max(1U, numberIn({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}).value_or(1));
}

uint32_t launchedLocalRank() {
  return numberIn({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}).value_or(0);
}

Status checkLaunched(uint32_t ranks) {
  if (const uint32_t launched = launchedRanks(); launched != ranks)
    return fail(
        "the plan is for {} ranks, and {}: start it with mpirun -n {} (or srun -n {}) in front of the command, or "
        "compile it with --ranks {}",
        ranks, launched == 1 ? "this is one process alone" : fmt::format("{} processes were started", launched), ranks,
        ranks, launched);
  return Status();
}

Result<std::unique_ptr<Network>> openNetwork(uint32_t ranks) {
  MT_TRY(checkLaunched(ranks));
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path() / "libmt_mpi.so").string();
  if (!std::filesystem::exists(path, error))
    return fail(
        "{}: not there: this mtrun was built where MPI was not found; install it (Debian: libopenmpi-dev) and build "
        "again",
        path);
  void *module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!module)
    return fail("{}: {}; install the MPI that this mtrun was built with (Debian: openmpi-bin)", path, ::dlerror());
  auto open = reinterpret_cast<OpenModule>(::dlsym(module, kOpenModule));
  if (!open)
    return fail("{}: of another version; build mtrun again", path);
  std::unique_ptr<Network> network;
  MT_TRY(open(ranks, network).within("MPI"));
  return network;
}

} // namespace mt::network
