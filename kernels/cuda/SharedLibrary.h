// Finds and opens the vendor's shared libraries: in the folders that the user names, then as the system's loader does,
// then where toolkits and Python's nvidia-* packages put them. Knows nothing of CUDA. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_SHAREDLIBRARY_H
#define MT_KERNELS_CUDA_SHAREDLIBRARY_H

#include "runtime/base/Status.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt::kernels::cuda {

/// What the environment says about where things are; paths are separated by ':'.
struct Surroundings {
  std::string libraries;    ///< $MT_CUDA_LIBRARIES
  std::string path;         ///< $PATH, for its python3s
  std::string home;         ///< $HOME
  std::string environments; ///< $VIRTUAL_ENV and $CONDA_PREFIX, and Pythons of $PYENV_ROOT, whose python3 is a script
  static Surroundings ofProcess();
};

/// Folders that may hold a library. The loader's own come between the two lists.
struct LibraryFolders {
  std::vector<std::string> named, known;
  /// Every existing folder once, in the order of preference.
  static LibraryFolders in(const Surroundings &surroundings);
};

struct SharedLibrary {
  void *handle = nullptr;
  std::string file; ///< as it was asked of the loader
};

/// Opens a file, or a bare name by the loader's rules; null and the reason if it cannot.
using OpenFile = std::function<void *(const std::string &file, std::string &reason)>;
void *openFile(const std::string &file, std::string &reason);

/// The first that opens. The error lists where it was looked for and ends in `remedy`.
Result<SharedLibrary> openShared(const std::string &name, const LibraryFolders &folders, std::string_view remedy,
                                 const OpenFile &open = openFile);

/// Opens what lies in the folder of an open library and begins with `prefix`, so that the library finds it by name: for
/// what it opens itself without looking beside it. Nothing happens where there is none.
void openBeside(const SharedLibrary &library, std::string_view prefix);

/// Fills `places` with the addresses of the functions of these names. Errors name the function and the file.
Status findFunctions(const SharedLibrary &library, std::span<const char *const> names, std::span<void **const> places);

} // namespace mt::kernels::cuda
#endif
