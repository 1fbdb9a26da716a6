#include "kernels/Reference.h"

#include "kernels/Coverage.h"

#include <fmt/format.h>

namespace mt::kernels {
namespace {

std::string_view kindName(AttributeSpec::Kind kind) {
  switch (kind) {
  case AttributeSpec::flag:
    return "0 or 1";
  case AttributeSpec::integer:
    return "integer";
  case AttributeSpec::real:
    return "real";
  case AttributeSpec::choice:
    return "name";
  case AttributeSpec::integers:
    return "integers";
  case AttributeSpec::expression:
    return "expression";
  case AttributeSpec::values:
    break;
  }
  return "number or numbers";
}

std::string choices(std::string_view names) {
  std::string text;
  for (char letter : names)
    text += letter == '|' ? std::string("`, `") : std::string(1, letter);
  return text.empty() ? "" : fmt::format(" `{}`:", text);
}

std::string attributes(const Kernel &kernel) {
  std::string text;
  for (const AttributeSpec &spec : kernel.attributes)
    text += fmt::format("- `{}` ({}{}):{} {}\n", spec.name, kindName(spec.kind), spec.required ? "" : ", optional",
                        choices(spec.choices), spec.meaning);
  return text.empty() ? "" : text + "\n";
}

constexpr std::string_view kHeader = R"(# Kernels

Every kernel of the catalogue: what a plan may call and what a device must run. This page is written by
`mt-kernel-reference` from `kernels/catalogue`; a test compares the two.

A call gives its operands in the order below, reads before the arrow and writes after it: `?` may be absent (a result
that nothing uses always may), `*` is any number of operands, `+` may be bound as accumulating, which adds to what is
there. After `=>` operands are updated in place. A kernel that needs scratch takes it as one more operand, `u8`, last.
Floating-point operands of a call have one type, unless "Types" says otherwise; sums and statistics (`logsumexp`, `mean`,
`rstd`, `loss`) are f32 and norms of gradients f64. bf16 is computed in f32 and rounded to the nearest, ties to even, where it is
written; a bf16 result that is accumulated is read, added to in f32, and rounded.
Indices, labels and gradients that break what is stated here are errors of the run, not undefined.

)";

} // namespace

std::string referencePage() {
  std::string page(kHeader);
  for (const Kernel &kernel : all()) {
    page += fmt::format("## {}\n\n{} `{}`\n\n{}.\n\n", kernel.name, kernel.summary, kernel.operands, kernel.formula);
    page += attributes(kernel);
    if (!hasCode(kernel.name, Backend::cuda))
      page += "Runs on the host, whatever the device.\n\n";
    if (kernel.workspace[0] || kernel.workspace[1])
      page += kernel.workspace[0] ? "Needs scratch.\n\n" : "Needs scratch on a GPU.\n\n";
  }
  page.pop_back();
  return page;
}

} // namespace mt::kernels
