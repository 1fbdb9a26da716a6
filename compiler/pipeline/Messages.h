// What passes say while they run, as text for people: errors, for the Status that ends a compilation, and warnings and
// remarks, which standard error gets whether it succeeds or not. Not a log: what is said twice is printed once.
#ifndef MT_COMPILER_PIPELINE_MESSAGES_H
#define MT_COMPILER_PIPELINE_MESSAGES_H
#include "mlir/IR/Diagnostics.h"
#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace mt::pipeline {

/// Warnings and remarks in the order in which they came, each text once with the nodes that it is about.
class Messages {
public:
  void add(mlir::Diagnostic &diagnostic);
  void add(const Messages &others);
  /// Lines such as "warning: node 'block.0/attention' (and 11 more): text".
  std::string text() const;

private:
  struct Entry {
    std::string severity, text;
    std::vector<std::string> places; ///< without repetitions; empty where no node is known
  };
  std::vector<Entry> entries;

  void add(const std::string &severity, const std::string &place, const std::string &text);
};

/// While it lives: takes every diagnostic of a context. Warnings and remarks go to `messages`, errors are kept.
class Collector {
public:
  Collector(mlir::MLIRContext &context, Messages &messages);
  /// The errors, each with its node, one a line; if there was none, that `model` could not be compiled.
  Status failure(const std::string &model) const;

private:
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace mt::pipeline
#endif
