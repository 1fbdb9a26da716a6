#include "kernels/cuda/SharedLibrary.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>

namespace mt::kernels::cuda {
namespace {

namespace fs = std::filesystem;

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split(const std::string &paths) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= paths.size();) {
    size_t end = std::min(paths.find(':', begin), paths.size());
    if (end > begin)
      parts.push_back(paths.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void addFolder(std::vector<std::string> &folders, const fs::path &folder) {
  std::error_code error;
  std::string text = folder.lexically_normal().string();
  if (fs::is_directory(folder, error) && std::ranges::find(folders, text) == folders.end())
    folders.push_back(text);
}

/// Sorted, so that what is found does not depend on the file system's order.
std::vector<fs::path> entries(const fs::path &folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  std::ranges::sort(found, std::greater());
  return found;
}

/// The folders of Python's nvidia-* packages below a folder of packages.
void addPackages(std::vector<std::string> &folders, const fs::path &packages) {
  for (const char *package : {"cu13", "cublas", "cudnn", "cuda_nvrtc", "nccl"})
    addFolder(folders, packages / "nvidia" / package / "lib");
}

/// The same for every Python below a prefix such as /usr.
void addPrefix(std::vector<std::string> &folders, const fs::path &prefix) {
  for (const char *library : {"lib", "lib64"})
    for (const fs::path &version : entries(prefix / library))
      if (version.filename().string().starts_with("python3"))
        for (const char *packages : {"site-packages", "dist-packages"})
          addPackages(folders, version / packages);
}

/// Beside an interpreter: of a virtual environment, then of each Python that its link leads to, link by link.
void addPython(std::vector<std::string> &folders, fs::path python) {
  constexpr int kMostLinks = 40;
  std::error_code error;
  if (!fs::exists(python, error))
    return;
  for (int i = 0; i < kMostLinks; ++i) {
    addPrefix(folders, python.parent_path().parent_path());
    addPrefix(folders,
              fs::canonical(python.parent_path(), error).parent_path()); // a folder on the way may be a link too
    if (!fs::is_symlink(python, error))
      return;
    python = (python.parent_path() / fs::read_symlink(python, error)).lexically_normal();
  }
}

} // namespace

Surroundings Surroundings::ofProcess() {
  std::string environments = variable("VIRTUAL_ENV") + ":" + variable("CONDA_PREFIX");
  if (const std::string root = variable("PYENV_ROOT"); !root.empty())
    for (const fs::path &version : entries(fs::path(root) / "versions"))
      environments += ":" + version.string();
  return {variable("MT_CUDA_LIBRARIES"), variable("PATH"), variable("HOME"), environments};
}

LibraryFolders LibraryFolders::in(const Surroundings &surroundings) {
  LibraryFolders folders;
  for (const std::string &named : split(surroundings.libraries))
    addFolder(folders.named, named);
  for (const char *toolkit : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib"})
    addFolder(folders.known, toolkit);
  for (const std::string &environment : split(surroundings.environments))
    addPrefix(folders.known, environment);
  for (const std::string &folder : split(surroundings.path))
    for (const char *name : {"python3", "python"})
      addPython(folders.known, fs::path(folder) / name);
  if (!surroundings.home.empty())
    addPrefix(folders.known, fs::path(surroundings.home) / ".local");
  for (const char *prefix : {"/usr/local", "/usr", "/opt/conda"})
    addPrefix(folders.known, prefix);
  return folders;
}

void *openFile(const std::string &file, std::string &reason) {
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (const char *error = handle ? nullptr : dlerror())
    reason = error;
  return handle;
}

Result<SharedLibrary> openShared(const std::string &name, const LibraryFolders &folders, std::string_view remedy,
                                 const OpenFile &open) {
  std::string tried;
  SharedLibrary found;
  auto attempt = [&](const std::string &file, const std::string &place) {
    std::string reason;
    found = {open(file, reason), file};
    if (!found.handle)
      tried += fmt::format("\n  {}: {}", place, reason);
    return found.handle != nullptr;
  };
  auto attemptIn = [&](const std::string &folder) {
    std::string file = (fs::path(folder) / name).string();
    std::error_code error;
    if (fs::exists(file, error))
      return attempt(file, file);
    tried += fmt::format("\n  {}: not there", folder);
    return false;
  };
  if (std::ranges::any_of(folders.named, attemptIn) || attempt(name, "the system's loader") ||
      std::ranges::any_of(folders.known, attemptIn))
    return found;
  return fail("cannot open {}; looked for it in{}\n{}", name, tried, remedy);
}

void openBeside(const SharedLibrary &library, std::string_view prefix) {
  char folder[PATH_MAX] = {};
  if (dlinfo(library.handle, RTLD_DI_ORIGIN, folder) != 0)
    return;
  std::string reason;
  for (const fs::path &file : entries(folder))
    if (file.filename().string().starts_with(prefix))
      (void)openFile(file.string(), reason);
}

Status findFunctions(const SharedLibrary &library, std::span<const char *const> names, std::span<void **const> places) {
  for (size_t i = 0; i < names.size(); ++i) {
    *places[i] = dlsym(library.handle, names[i]);
    if (!*places[i])
      return fail("{} has no function {}: it is of another version; install one for CUDA 13", library.file, names[i]);
  }
  return {};
}

} // namespace mt::kernels::cuda
