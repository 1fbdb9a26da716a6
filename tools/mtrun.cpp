// mtrun: trains a compiled plan; evaluates, exports, reports, tokenizes, measures.
#include "Version.h"
#include "runtime/base/Files.h"
#include "runtime/base/OutOfMemory.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/probe/Probe.h"
#include "runtime/train/CommandLine.h"
#include "runtime/train/Continuation.h"
#include "runtime/train/Export.h"
#include "runtime/train/RunReport.h"
#include "runtime/train/Tokenize.h"
#include "runtime/train/Trainer.h"

#include <cstdio>

namespace {

using namespace mt;
using namespace mt::train;

struct Run {
  Status operator()(const TrainOptions &options) const { return train::train(options); }
  Status operator()(const EvalOptions &options) const { return evaluate(options); }
  Status operator()(const SampleOptions &options) const { return sampleText(options); }
  Status operator()(const ExportOptions &options) const { return exportWeights(options); }
  Status operator()(const ReportOptions &options) const { return makeReport(options); }
  Status operator()(const TokenizeOptions &options) const { return tokenize(options); }
  Status operator()(const mt::probe::ProbeOptions &options) const { return mt::probe::probeMachine(options); }
  Status operator()(const Said &) const { return Status(); }
};

std::string version() {
  std::string cuda = device::builtWithCuda();
  return fmt::format("mtrun {} (revision {}), {}", kVersion, kRevision, cuda.empty() ? "without CUDA" : "CUDA " + cuda);
}

} // namespace

int main(int argc, char **argv) {
  explainOutOfMemory("free memory on this machine, or use fewer --threads or a smaller plan; checkpoints are whole");
  Command command = parseCommandLine(argc, argv, version());
  if (const Said *said = std::get_if<Said>(&command)) {
    std::fputs(said->text.c_str(), said->status == 0 ? stdout : stderr);
    return said->status;
  }
  Status status = std::visit(Run(), command);
  if (status)
    status = flushOut();
  if (status)
    return 0;
  fmt::print(stderr, "error: {}\n", status.message());
  return 1;
}
