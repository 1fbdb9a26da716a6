#include "compiler/pipeline/Messages.h"

#include "compiler/nn/Nn.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace mt::pipeline {
namespace {
/// The node that a diagnostic is about, or the line of the text it was read from; empty: neither is known.
std::string placeOf(Location location) {
  if (std::string node = nn::nodeOf(location); !node.empty())
    return fmt::format("node '{}'", node);
  std::string line;
  location->walk([&](Location part) {
    if (auto file = dyn_cast<FileLineColLoc>(part); file && line.empty() && file.getLine() > 0)
      line = fmt::format("{}:{}:{}", file.getFilename().str(), file.getLine(), file.getColumn());
    return WalkResult::advance();
  });
  return line;
}

std::string textOf(Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  for (Diagnostic &note : diagnostic.getNotes())
    text += "; " + note.str();
  return text;
}
} // namespace

void Messages::add(const std::string &severity, const std::string &place, const std::string &text) {
  auto same = [&](const Entry &entry) { return entry.severity == severity && entry.text == text; };
  auto entry = std::find_if(entries.begin(), entries.end(), same);
  if (entry == entries.end())
    entry = entries.insert(entries.end(), {severity, text, {}});
  if (!place.empty() && std::find(entry->places.begin(), entry->places.end(), place) == entry->places.end())
    entry->places.push_back(place);
}

void Messages::add(Diagnostic &diagnostic) {
  add(diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning" : "remark", placeOf(diagnostic.getLocation()),
      textOf(diagnostic));
}

void Messages::add(const Messages &others) {
  for (const Entry &entry : others.entries) {
    add(entry.severity, "", entry.text);
    for (const std::string &place : entry.places)
      add(entry.severity, place, entry.text);
  }
}

std::string Messages::text() const {
  std::string lines;
  for (const Entry &entry : entries) {
    std::string where;
    if (!entry.places.empty())
      where = entry.places.front() + (entry.places.size() > 1 ? fmt::format(" (and {} more)", entry.places.size() - 1) : "") + ": ";
    lines += fmt::format("{}: {}{}\n", entry.severity, where, entry.text);
  }
  return lines;
}

Collector::Collector(MLIRContext &context, Messages &messages)
    : handler(&context, [this, &messages](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error) {
          messages.add(diagnostic);
          return success();
        }
        std::string place = placeOf(diagnostic.getLocation());
        errors += (errors.empty() ? "" : "\n") + (place.empty() ? "" : place + ": ") + textOf(diagnostic);
        return success();
      }) {
  context.printOpOnDiagnostic(false); // the node's name is the place; the text of the operation may be a whole model
}

Status Collector::failure(const std::string &model) const {
  return Status::error(errors.empty() ? model + ": could not be compiled" : errors);
}

} // namespace mt::pipeline
