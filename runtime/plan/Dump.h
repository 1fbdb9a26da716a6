// Plans for people: the text, JSON, Chrome trace and HTML forms that `mtc dump` prints. Reads plans only; what changed
// between two of them is in Diff.h.
#ifndef MT_RUNTIME_PLAN_DUMP_H
#define MT_RUNTIME_PLAN_DUMP_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <optional>
#include <string>
#include <string_view>

namespace mt::plan {

enum class DumpFormat : uint8_t { text, json, trace, html };
/// text, json, trace or html; nothing otherwise.
std::optional<DumpFormat> dumpFormatFromName(std::string_view name);

/// The whole plan in a form. `trace` is Chrome's trace event format with the predicted timeline of a step; `html` is
/// one page without external resources: timeline and occupancy of memory.
std::string dumpPlan(const Plan &plan, DumpFormat format);

std::string dumpText(const Plan &plan);
std::string dumpJson(const Plan &plan);
std::string dumpTrace(const Plan &plan);
std::string dumpHtml(const Plan &plan);

/// Adapters in words: "28, rank 16, scale 2, 1.2 M parameters"; empty where there are none.
std::string describeAdapters(const Plan &plan);
/// Packed weights in words: "224, 6.98 G parameters in 4.5 bits each"; empty where there are none.
std::string describePacked(const Plan &plan);

std::string_view name(SpaceKind kind);
std::string_view name(StreamKind kind);
std::string_view name(Alias::Kind kind);
std::string_view name(InputKind kind);
std::string_view name(Role role);
std::string_view name(ByteKind kind);
std::string_view name(BindingEffect effect);
std::string_view name(ProgramKind kind);

} // namespace mt::plan
#endif
