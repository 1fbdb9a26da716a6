// The system's calls that read and write files and make, sync and rename folders' entries, each finished however often
// the system interrupts it. Below AtomicFile (whole files), AppendedFile (growing ones) and checkpoints; decides nothing.
#ifndef MT_RUNTIME_BASE_FILES_H
#define MT_RUNTIME_BASE_FILES_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mt {

/// An open file of the system; closed with it.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() { static_cast<void>(close()); }

  int get() const { return number; }
  bool valid() const { return number >= 0; }
  /// Errors of the system that come to light only now.
  Status close();

private:
  int number = -1;
};

/// Fills `bytes` from an offset. Errors: the system's; the file ends before.
Status readAllAt(int descriptor, std::span<std::byte> bytes, uint64_t offset);
/// The whole content of a file; nothing where there is none. Errors name the file: it is there and cannot be read.
Result<std::optional<std::string>> readFile(const std::string &path);

/// Appends all of the bytes. The number written is added to `written` also where it fails. Errors are the system's.
Status writeAll(int descriptor, std::span<const std::byte> bytes, uint64_t &written);
/// Writes all of the bytes at an offset; several threads may, to one file.
Status writeAllAt(int descriptor, std::span<const std::byte> bytes, uint64_t offset);

/// Writes text to standard output, after what was printed there. Errors, such as a full disk, are returned.
Status writeOut(const std::string &text);
/// The same of what is said about an output: on standard error where the output itself goes to standard output.
Status writeAbout(const std::string &output, const std::string &text);
/// What was printed has been written. Errors as of writeOut().
Status flushOut();

/// fsync of an open file or folder; false, with errno, where it fails.
bool syncDescriptor(int descriptor);
/// Whether such an error says that there is nothing to sync: of pipes, devices, folders of some file systems.
bool hasNothingToSync(int error);

/// A file, or a folder all of whose files are, that is read, and what it is: "the plan".
struct InputFile {
  std::string what, path;
};
/// An error where what `option` says is written to is one of those, under whatever name.
Status keepInputs(const std::string &option, const std::string &output, std::span<const InputFile> inputs);

/// The folder that holds the path; "." where it names none.
std::string folderOf(const std::string &path);
/// Makes the folder and those above it that are missing, each durably.
Status makeFolders(const std::string &path);
/// The folder's entries are on disk: what was created, renamed or removed in it stays so after a loss of power.
Status syncFolder(const std::string &path);
/// Renames a folder or file; with `exchange` the two places swap what they hold in one moment. The result is false
/// where the file system has no such exchange: nothing has happened then.
Result<bool> renamePath(const std::string &from, const std::string &to, bool exchange = false);

} // namespace mt
#endif
