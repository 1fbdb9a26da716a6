// A folder of tokens as mtrun tokenize makes it: files of tokens with llm.c's header, and an index.json that says what
// they are.
#ifndef MT_RUNTIME_TRAIN_TOKENFOLDER_H
#define MT_RUNTIME_TRAIN_TOKENFOLDER_H

#include "runtime/base/AtomicFile.h"
#include "runtime/base/AtomicFolder.h"

#include <optional>
#include <vector>

namespace mt::train {

inline constexpr const char *kTokenIndex = "index.json";

class TokenFolder {
public:
  /// Smallest and largest file, in bytes.
  static constexpr uint64_t kLeastFile = 4 << 10, kMostFile = uint64_t(4) << 30;

  /// Begins the folder `path`, which must not exist or be empty, beside it. `width`: bytes of a token, 2 or 4;
  /// `fileBytes`: of a file at most. Errors: it is there and not empty, or no folder; its place cannot be written.
  static Result<TokenFolder> create(const std::string &path, int width, uint64_t fileBytes);

  /// Appends tokens. Errors: one does not fit the width; a file cannot be written.
  Status write(std::span<const uint32_t> tokens);
  uint64_t tokens() const { return total; }
  size_t files() const { return written.size(); }

  struct Origin {
    uint64_t documents = 0;
    uint32_t vocabulary = 0;
    std::optional<uint32_t> end; ///< the token behind each document
    std::string tokenizerDigest;
  };
  /// Writes the index, syncs all, and gives the folder its name. Call once, last.
  Status commit(const Origin &origin);

private:
  TokenFolder(AtomicFolder folder, int width, uint64_t fileBytes);
  Status finishFile();

  struct File {
    std::string name, digest;
    uint64_t tokens;
  };
  AtomicFolder folder;
  int width;
  uint64_t tokensPerFile, total = 0;
  std::vector<std::byte> pending; ///< of the file that is being filled
  std::vector<File> written;
};

/// What stands behind each document in a folder's files of tokens, if its index.json says it. Errors where that lists
/// other files, or other numbers of tokens.
Result<std::optional<uint32_t>> readTokenIndex(const std::string &folder, const std::vector<std::string> &files);

} // namespace mt::train
#endif
